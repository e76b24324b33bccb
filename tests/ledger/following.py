"""Followers on virtual time, and how often bookies are called."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager

from quire.entry import Entry, LedgerId
from quire.ledger.reader import LedgerReader
from quire.metastore.memory import MemoryStore
from tests.support.memory_cluster import MemoryCluster
from tests.support.planted_ledger import PASSWORD, PlantedLedger
from tests.support.virtual import virtually

Body = Callable[[MemoryCluster], Awaitable[None]]


def scenario(size: int, body: Body, store: MemoryStore | None = None) -> None:
    async def main() -> None:
        async with MemoryCluster(size, store=store) as cluster:
            await body(cluster)

    virtually(main)


class Follower:
    """A task that follows and remembers what it saw."""

    def __init__(self, reader: LedgerReader, first: int = 0) -> None:
        self.reader = reader
        self.seen: list[Entry] = []
        self.task = asyncio.create_task(self._run(first))

    async def _run(self, first: int) -> None:
        async with aclosing(self.reader.follow(first)) as entries:
            async for entry in entries:
                self.seen.append(entry)

    @property
    def ids(self) -> list[int]:
        return [entry.entry for entry in self.seen]

    async def cancel(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


async def open_reader(planted: PlantedLedger) -> LedgerReader:
    return await planted.cluster.catalog.open_without_recovery(planted.ledger, password=PASSWORD)


@asynccontextmanager
async def following(planted: PlantedLedger, first: int = 0) -> AsyncIterator[Follower]:
    follower = Follower(await open_reader(planted), first)
    try:
        yield follower
    finally:
        await follower.cancel()


def count_calls(cluster: MemoryCluster) -> Counter[str]:
    counts: Counter[str] = Counter()

    async def before(method: str, ledger: LedgerId) -> None:
        counts[method] += 1

    for bookie in cluster.bookies.values():
        bookie.before = before
    return counts
