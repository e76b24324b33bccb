"""Apache BookKeeper from its published jars, with its own Java client.

`default` has the journal's defaults. `tuned` sends a group as soon as the queue is empty, which a
latency-minded operator would set. Protocol v3 or v2, no throttle, CRC32C.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from benchmarks.peers.java_client import SOURCES
from benchmarks.peers.on_bookies import Bookies, OnBookies
from benchmarks.peers.peer import Took
from benchmarks.peers.workloads import Kind, Workload
from tests.interop.servers import ApacheServers, JavaClient

SOURCE: Final = SOURCES / "BookKeeperBench.java"
REQUEST_SECONDS: Final = 60


class BookKeeper(OnBookies):
    """Ledgers through BookKeeper's client."""

    kinds: Sequence[Kind] = ("ledger",)

    def __init__(self, bookies: Bookies, protocol: str = "v3") -> None:
        super().__init__(bookies)
        self.name = f"BookKeeper {bookies.setting}" + (f", {protocol}" if protocol != "v3" else "")
        self._protocol = protocol
        self._last: int | None = None

    def open_client(self, servers: ApacheServers) -> JavaClient:
        """Start BookKeeper's client."""
        return JavaClient(servers, self._protocol, REQUEST_SECONDS, SOURCE)

    async def run(self, workload: Workload, seconds: float) -> Took:
        """Append to new ledgers, or read one back."""
        if not workload.in_flight:
            assert self._last is not None, "the warm-up writes it"
            return await self.client.read(self._last)
        words = (workload.size, workload.in_flight, round(seconds * 1000), workload.ledgers)
        took, (first,) = await self.client.append(*words)
        if workload.is_read_later:
            self._last = first
        return took
