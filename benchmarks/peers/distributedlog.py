"""Apache DistributedLog: its own library over Apache BookKeeper, both from their published jars.

Its bookies are those of `BookKeeper tuned`. The library packs records into entries of up to
64 KiB, and sends a smaller entry after two milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from benchmarks.peers.java_client import SOURCES, JavaLogs
from benchmarks.peers.on_bookies import Bookies, OnBookies
from benchmarks.peers.peer import Took
from benchmarks.peers.workloads import Kind, Workload
from tests.interop.jars import install_dlog, program
from tests.interop.servers import ApacheServers, JavaProgram

SOURCE: Final = SOURCES / "DistributedLogBench.java"


class DistributedLog(OnBookies):
    """Logs through DistributedLog's library."""

    name = "DistributedLog"
    kinds: Sequence[Kind] = ("log",)

    def __init__(self, bookies: Bookies) -> None:
        super().__init__(bookies)
        self._library = install_dlog()
        self._logs: JavaLogs | None = None

    def open_client(self, servers: ApacheServers) -> JavaProgram:
        """Start DistributedLog's library."""
        here = ApacheServers(servers.directory, self._library, "db", 0, thorough=True)
        command = here.java(*program(SOURCE), f"127.0.0.1:{servers.port}")
        return JavaProgram(command, servers.directory / "library.log")

    async def run(self, workload: Workload, seconds: float) -> Took:
        """Append to a new log, or read one back."""
        self._logs = self._logs or JavaLogs(self.client)
        return await self._logs.run(workload, seconds)
