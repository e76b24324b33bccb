"""How much may be under way in a gateway at once. Pure: no clock and no I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from quire.errors import ConfigurationError
from quire.gateway.answers import BodyTooLargeError, BusyError

BODY_BYTES_MAX: Final = 16 * 1024 * 1024
"""The largest body of a request."""

BODY_SECONDS: Final = 60.0
"""A body comes within so long."""

COUNTED_BYTES: Final = 64 * 1024
"""Answers above this size are counted in the bytes under way. The others come to 256 MiB at most in
4,096 places.
"""


@dataclass(frozen=True, slots=True)
class GatewayLimits:
    """Limits of one gateway. Beyond them requests of HTTP are answered with 429."""

    requests: int = 4096
    """Requests under way, those that wait for records among them."""
    streams: int = 4096
    """Streams of events over HTTP."""
    bytes: int = 256 * 1024 * 1024
    """Bytes of bodies and answers under way."""
    connections: int = 4096
    """Connections of Kafka's clients."""
    logs: int = 1000
    """Logs that this gateway writes at the same time."""
    groups: int = 1000
    """Groups of Kafka's consumers that this gateway coordinates at the same time."""
    members: int = 1000
    """Members of one such group."""
    client_append_bytes_per_second: int = 0
    """What one client may append, as the next three. Beyond it a client waits; 0: no limit."""
    client_append_records_per_second: float = 0
    client_read_bytes_per_second: int = 0
    client_read_records_per_second: float = 0
    idle_seconds: float = 300.0
    """A log that was not written for so long is given up: any gateway may write it then. Likewise
    a group without members.
    """
    takeover_seconds: float = 10.0
    """How long a request waits while its log is taken over."""
    wait_seconds: float = 60.0
    """The longest time that a read waits for records."""

    def __post_init__(self) -> None:
        counts = (
            *(self.requests, self.streams, self.bytes, self.connections),
            *(self.logs, self.groups, self.members),
        )
        seconds = self.idle_seconds, self.takeover_seconds, self.wait_seconds
        rates = (
            *(self.client_append_bytes_per_second, self.client_append_records_per_second),
            *(self.client_read_bytes_per_second, self.client_read_records_per_second),
        )
        if min(counts) < 1 or min(seconds) <= 0 or not all(each >= 0 for each in rates):
            raise ConfigurationError(f"limits of a gateway must be positive: {self}")


class Admission:
    """Counts what is under way."""

    def __init__(self, limits: GatewayLimits) -> None:
        self._limits = limits
        self.requests = 0
        self.streams = 0
        self.bytes = 0
        self.when_freed: list[Callable[[], None]] = []
        """Called when bytes were given back."""

    @property
    def bytes_max(self) -> int:
        """The bytes that may be under way at most."""
        return self._limits.bytes

    @property
    def free(self) -> int:
        """The bytes that may be taken; below 0 while answers hold more."""
        return self._limits.bytes - self.bytes

    @contextmanager
    def request(self) -> Iterator[None]:
        """Have a place in the block. Raises `BusyError` when all are taken."""
        self.begin_request()
        try:
            yield
        finally:
            self.requests -= 1

    def begin_request(self) -> None:
        """Count a request. Raises `BusyError` when all places are taken."""
        if self.requests >= self._limits.requests:
            raise BusyError(f"{self._limits.requests} requests are under way")
        self.requests += 1

    def begin_stream(self) -> None:
        """Count a stream of events. Raises `BusyError` when there are as many as there may be."""
        if self.streams >= self._limits.streams:
            raise BusyError(f"{self._limits.streams} streams are open")
        self.streams += 1

    def take(self, size: int, total: int) -> None:
        """Count bytes of a body that has `total` bytes with them.

        Raises `BodyTooLargeError` for a body that is too large, `BusyError` without space.
        """
        if total > BODY_BYTES_MAX:
            raise BodyTooLargeError(BODY_BYTES_MAX)
        if size > self.free:
            raise BusyError(f"{self._limits.bytes} bytes are under way")
        self.bytes += size

    def give_back(self, size: int) -> None:
        """Forget bytes of a body."""
        self.bytes -= size
        for tell in self.when_freed:
            tell()

    def hold(self, size: int) -> None:
        """Count bytes that are there already, beyond the limit if need be."""
        self.bytes += size


class HeldPlace:
    """The place and the answer of one request, held in a block."""

    __slots__ = ("_admission", "_bytes", "_has_place", "_is_stream")

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._has_place = False
        self._is_stream = False
        self._bytes = 0

    def __enter__(self) -> HeldPlace:
        return self

    def take(self) -> None:
        """Take a place. Raises `BusyError` when all are taken."""
        self._admission.begin_request()
        self._has_place = True

    def become_stream(self) -> None:
        """Take a place among the streams for the one among requests. Raises `BusyError`."""
        self._admission.begin_stream()
        self._is_stream = True
        self._leave()

    def keep(self, size: int, *, is_certain: bool) -> None:
        """Keep the bytes of an answer.

        Raises `BusyError` when the bytes under way have reached their limit, unless the answer is
        `is_certain`: it tells of a change. A single answer may go beyond the limit, or a
        limit below the size of an answer would refuse it at each attempt.
        """
        if size <= COUNTED_BYTES:
            return
        if self._admission.free <= 0 and not is_certain:
            raise BusyError("answers wait for their clients")
        self._admission.hold(size)
        self._bytes = size

    def __exit__(self, *_: object) -> None:
        self._leave()
        if self._is_stream:
            self._admission.streams -= 1
        if self._bytes:
            self._admission.give_back(self._bytes)

    def _leave(self) -> None:
        if self._has_place:
            self._admission.requests -= 1
            self._has_place = False
