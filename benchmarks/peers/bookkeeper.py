"""Apache BookKeeper from its published jars, with its own Java client.

`default` has the journal's defaults. `tuned` sends a group as soon as the queue is empty, which a
latency-minded operator would set. Protocol v3, no throttle, CRC32C.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from benchmarks.peers.peer import Took
from benchmarks.peers.workloads import Kind, Workload
from tests.interop.jars import NEWEST, install
from tests.interop.servers import ApacheServers, JavaClient

SOURCE: Final = Path(__file__).parents[1] / "BookKeeperBench.java"
REQUEST_SECONDS: Final = 60
CACHES: Final = {
    "dbStorage_writeCacheMaxSizeMb": 64,
    "dbStorage_readAheadCacheMaxSizeMb": 64,
}
SETTINGS: Final[Mapping[str, Mapping[str, object]]] = MappingProxyType(
    {
        "default": CACHES,
        "tuned": {**CACHES, "journalMaxGroupWaitMSec": 1, "journalFlushWhenQueueEmpty": "true"},
    }
)
READ_FROM: Final = (1024, 1_000)


class BookKeeper:
    """Three bookies, a ZooKeeper and a JVM with the client."""

    kinds: Sequence[Kind] = ("ledger",)

    def __init__(self, directory: Path, setting: str) -> None:
        self.name = f"BookKeeper {setting}"
        self._servers = ApacheServers(
            directory, install(NEWEST), "db", 3, thorough=True, settings=SETTINGS[setting]
        )
        self._client: JavaClient | None = None
        self._last: int | None = None

    async def start(self) -> None:
        """Start ZooKeeper, bookies and client."""
        await asyncio.to_thread(self._servers.__enter__)
        self._client = await asyncio.to_thread(
            JavaClient, self._servers, "v3", REQUEST_SECONDS, SOURCE
        )

    async def _ask(self, *words: object) -> list[int]:
        assert self._client is not None, "start comes first"
        answer = await asyncio.to_thread(self._client.ask, *words)
        return [int(each) for each in answer.split()]

    async def run(self, workload: Workload, seconds: float) -> Took:
        """Append to new ledgers, or read one back."""
        if not workload.in_flight:
            assert self._last is not None, "the warm-up writes it"
            count, nanos, work = await self._ask("read", self._last)
            return Took(count, nanos / 1e9, work / 1e9, 0, 0)
        words = (workload.size, workload.in_flight, round(seconds * 1000), workload.ledgers)
        count, nanos, work, ledger, p50, p99 = await self._ask("append", *words)
        if (workload.size, workload.in_flight) == READ_FROM:
            self._last = ledger
        return Took(count, nanos / 1e9, work / 1e9, p50 / 1e3, p99 / 1e3)

    def servers(self) -> Sequence[int]:
        """Return the pids of the bookies, without ZooKeeper's."""
        return self._servers.pids()

    async def stop(self) -> None:
        """End client and servers."""
        if self._client is not None:
            self._client.kill()
        await asyncio.to_thread(self._servers.__exit__, None, None, None)
