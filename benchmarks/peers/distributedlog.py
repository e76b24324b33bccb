"""Apache DistributedLog: its own library over Apache BookKeeper, both from their published jars.

Its bookies are those of `BookKeeper tuned`. The library packs records into entries of up to
64 KiB, and sends a smaller entry after two milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.peers.on_bookies import Bookies, OnBookies, appends, reading
from benchmarks.peers.peer import Took
from benchmarks.peers.workloads import Kind, Workload
from tests.interop.jars import JANINO, install_dlog
from tests.interop.servers import ApacheServers, JavaProgram

SOURCE: Final = Path(__file__).with_name("DistributedLogBench.java")


class DistributedLog(OnBookies):
    """Logs through DistributedLog's library."""

    name = "DistributedLog"
    kinds: Sequence[Kind] = ("log",)

    def __init__(self, bookies: Bookies) -> None:
        super().__init__(bookies)
        self._library = install_dlog()
        self._logs = 0
        self._last: tuple[str, int] | None = None

    def open_client(self, servers: ApacheServers) -> JavaProgram:
        """Start DistributedLog's library."""
        here = ApacheServers(servers.directory, self._library, "db", 0, thorough=True)
        command = here.java(JANINO, str(SOURCE), SOURCE.stem, f"127.0.0.1:{servers.port}")
        return JavaProgram(command, servers.directory / "library.log")

    async def run(self, workload: Workload, seconds: float) -> Took:
        """Append to a new log, or read one back."""
        if not workload.in_flight:
            assert self._last is not None, "the warm-up writes it"
            return reading(*await self.ask("read", *self._last))
        self._logs += 1
        log = f"peer-{self._logs}"
        words = (log, workload.size, workload.in_flight, round(seconds * 1000))
        took = appends(*await self.ask("append", *words))
        if workload.is_read_later:
            self._last = log, took.entries
        return took
