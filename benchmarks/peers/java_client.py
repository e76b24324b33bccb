"""A client in Java: a process that answers commands with numbers (benchmarks/java/Bench.java)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from benchmarks.peers.peer import PeerError, Took
from benchmarks.peers.workloads import Workload
from tests.interop.servers import JavaError, JavaProgram

SOURCES: Final = Path(__file__).parents[1] / "java"


class JavaBench:
    """The client's process."""

    def __init__(self, program: JavaProgram) -> None:
        self._program = program

    async def append(self, *words: object) -> tuple[Took, list[int]]:
        """Return how appends went, and what else the answer has. Raises `PeerError`."""
        count, nanos, work, p50, p99, *more = await self._ask("append", *words)
        return Took(count, nanos / 1e9, work / 1e9, p50 / 1e3, p99 / 1e3), more

    async def read(self, *words: object) -> Took:
        """Return how a reading went. Raises `PeerError`."""
        count, nanos, work = await self._ask("read", *words)
        return Took(count, nanos / 1e9, work / 1e9, 0, 0)

    async def _ask(self, *words: object) -> list[int]:
        try:
            answer = await asyncio.to_thread(self._program.ask, *words)
        except JavaError as error:
            raise PeerError(str(error)) from error
        return [int(each) for each in answer.split()]

    def end(self) -> None:
        """End the process, also in the middle of a command."""
        self._program.kill()
        self._program.close()


class JavaLogs:
    """Workloads of a client of logs, each append on a new log."""

    def __init__(self, bench: JavaBench) -> None:
        self.bench = bench
        self._logs = 0
        self._last: tuple[str, int] | None = None

    async def run(self, workload: Workload, seconds: float) -> Took:
        """Append to a new log, or read one back. Raises `PeerError`."""
        if not workload.in_flight:
            assert self._last is not None, "the warm-up writes it"
            return await self.bench.read(*self._last)
        self._logs += 1
        log = f"peer-{self._logs}"
        words = (log, workload.size, workload.in_flight, round(seconds * 1000))
        took, _ = await self.bench.append(*words)
        if workload.is_read_later:
            self._last = log, took.entries
        return took
