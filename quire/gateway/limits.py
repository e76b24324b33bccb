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


@dataclass(frozen=True, slots=True)
class GatewayLimits:
    """Limits of one gateway. Beyond them requests of HTTP are answered with 429."""

    requests: int = 4096
    """Requests under way, those that wait for records among them."""
    bytes: int = 256 * 1024 * 1024
    """Bytes of bodies under way."""
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
        counts = self.requests, self.bytes, self.connections, self.logs, self.groups, self.members
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
        if self.requests >= self._limits.requests:
            raise BusyError(f"{self._limits.requests} requests are under way")
        self.requests += 1
        try:
            yield
        finally:
            self.requests -= 1

    def take(self, size: int, total: int) -> None:
        """Count bytes of a body that has `total` bytes with them.

        Raises `BodyTooLargeError` for a body that is too large, `BusyError` without space.
        """
        if total > BODY_BYTES_MAX:
            raise BodyTooLargeError(BODY_BYTES_MAX)
        if size > self.free:
            raise BusyError(f"{self._limits.bytes} bytes of requests are under way")
        self.bytes += size

    def give_back(self, size: int) -> None:
        """Forget bytes of a body."""
        self.bytes -= size
        for tell in self.when_freed:
            tell()

    def hold(self, size: int) -> None:
        """Count bytes that are there already, beyond the limit if need be."""
        self.bytes += size
