"""The common half of the peers with a log: three servers, a client, appends in a window."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol

from benchmarks.peers.peer import PeerError, Took, UnavailableError
from benchmarks.peers.processes import Processes
from benchmarks.peers.workloads import Kind, Workload

SERVERS: Final = 3


class Pending(Protocol):
    """Entries that were sent, and wait for their ack."""

    def done(self) -> bool:
        """Whether the ack has come."""

    def cancel(self) -> object:
        """Give it up."""

    def __await__(self) -> Generator[Any, Any, object]:
        """Wait for the ack."""


Submit = Callable[[], Awaitable[Pending]]


class LogPeer(ABC):
    """A log on three servers, each a process on 127.0.0.1.

    Args:
        directory: for configurations, logs and data; it does not exist yet.
    """

    name: ClassVar[str]
    kinds: Sequence[Kind] = ("log",)
    failures: ClassVar[tuple[type[Exception], ...]]
    """Errors of the client."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.processes = Processes(directory)
        self._caught: tuple[type[Exception], ...] = (OSError, *self.failures)
        self._count = 0
        self._last: tuple[str, int] | None = None

    async def start(self) -> None:
        """Start servers and client.

        Raises:
            UnavailableError: One of them does not start.
        """
        self.directory.mkdir(parents=True)
        try:
            await self.launch()
        except self._caught as error:
            raise UnavailableError(f"it does not start: {error!r}") from error

    async def run(self, workload: Workload, seconds: float) -> Took:
        """Append to a new log, or read one back.

        Raises:
            PeerError: The client failed, or a reading has another number of entries.
        """
        try:
            if not workload.in_flight:
                return await self._read()
            return await self._append(workload, seconds)
        except self._caught as error:
            raise PeerError(f"{type(error).__name__}: {error}") from error

    async def _append(self, workload: Workload, seconds: float) -> Took:
        self._count += 1
        log = f"peer_{self._count}"
        await self.create(log)
        took = await self.append_to(log, workload, seconds)
        if workload.is_read_later:
            self._last = log, took.entries
        return took

    async def _read(self) -> Took:
        assert self._last is not None, "the warm-up writes it"
        log, entries = self._last
        begun, work = time.perf_counter(), time.process_time()
        count = await self.read_all(log, entries)
        took, work = time.perf_counter() - begun, time.process_time() - work
        if count != entries:
            raise PeerError(f"{count:,} entries were read, of {entries:,}")
        return Took(count, took, work, 0, 0)

    def servers(self) -> Sequence[int]:
        """Return the pids of the servers."""
        return self.processes.pids()

    async def stop(self) -> None:
        """End client and servers."""
        try:
            await self.disconnect()
        finally:
            await self.processes.end()

    @abstractmethod
    async def launch(self) -> None:
        """Start servers and client. Raises `OSError` and `failures`."""

    @abstractmethod
    async def create(self, log: str) -> None:
        """Make an empty log."""

    @abstractmethod
    async def append_to(self, log: str, workload: Workload, seconds: float) -> Took:
        """Append to an empty log."""

    @abstractmethod
    async def read_all(self, log: str, entries: int) -> int:
        """Read a log of so many entries in order, and count them."""

    @abstractmethod
    async def disconnect(self) -> None:
        """End the client, also without a connection."""


async def append(submit: Submit, in_flight: int, seconds: float, batch: int = 1) -> Took:
    """Append for a while with a full window, and wait for all acks.

    Args:
        submit: sends one batch.
        in_flight: entries without an ack, all the time.
        seconds: when to send no more.
        batch: entries of one `submit`.

    Raises:
        Exception: of a submission or an ack; all others are cancelled then.
    """
    window: deque[tuple[Pending, float]] = deque()
    begun, work = time.perf_counter(), time.process_time()
    try:
        latencies = await _fill(window, submit, max(1, in_flight // batch), begun + seconds)
    finally:
        for each, _ in window:
            each.cancel()
    took, work = time.perf_counter() - begun, time.process_time() - work
    latencies.sort()
    count = len(latencies)
    p50, p99 = latencies[count // 2], latencies[count * 99 // 100]
    return Took(count * batch, took, work, 1e3 * p50, 1e3 * p99)


async def _fill(
    window: deque[tuple[Pending, float]], submit: Submit, places: int, end: float
) -> list[float]:
    clock = time.perf_counter
    latencies: list[float] = []
    now = clock()
    while now < end or window:
        while len(window) < places and now < end:
            now = clock()
            window.append((await submit(), now))
        oldest, submitted = window[0]
        await oldest
        window.popleft()
        now = clock()
        latencies.append(now - submitted)
        while window and window[0][0].done():
            oldest, submitted = window.popleft()
            await oldest
            latencies.append(now - submitted)
    return latencies
