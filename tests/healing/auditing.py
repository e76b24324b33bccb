"""A cluster in memory with auditors, and bookies that make the copies that they are asked for."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from quire.entry import BookieId
from quire.errors import NoSuchLedgerError
from quire.healing.audit import Audit
from quire.healing.summary import Summary, read_summary
from quire.ledger.metadata import LedgerMetadata
from quire.ledger.quorum import Replication
from quire.ledger.stored_records import StoredRecords
from quire.ledger.versioned import change_metadata
from quire.metastore.layout import MOVES
from quire.repair.assignments import ASSIGNMENTS_MAX, Assignment, adopted
from quire.repair.orders import StoredOrders
from tests.support.memory_cluster import MemoryCluster

DELAY = 120.0
ENTRIES = 6


class Scene:
    """See the module. `work` lets time pass: auditors audit, and bookies copy."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self.cluster = cluster
        self.records = StoredRecords(cluster.store, cluster.rng)
        self.gone: set[BookieId] = set()
        self.copied = 0
        """Requests that bookies carried out."""
        self.seen = 0
        """The most open requests that a bookie had."""

    @property
    def now_ms(self) -> int:
        return round(asyncio.get_running_loop().time() * 1000)

    def audit(self, number: int = 0, delay: float = DELAY) -> Audit:
        loop = asyncio.get_running_loop()
        return Audit(
            *(self.cluster.store, self.records, self.cluster.roster),
            name=f"auditor {number}",
            epoch=number,
            delay=delay,
            clock=loop.time,
            rng=random.Random(number),
        )

    async def fill(self, ledgers: int, replication: Replication | None = None) -> list[int]:
        """Make closed ledgers, and return their ids."""
        made = []
        for _ in range(ledgers):
            writer = await self.cluster.catalog.create(replication or Replication(3, 3, 2))
            for _ in range(ENTRIES):
                await writer.append(b"entry")
            await writer.close()
            made.append(writer.ledger)
        return made

    async def lose(self, *bookies: BookieId) -> None:
        """Let bookies vanish, with all that they have."""
        for bookie in bookies:
            await self.cluster.unregister(bookie)
            self.cluster.bookies[bookie].ledgers.clear()
            self.gone.add(bookie)

    async def metadata(self, ledger: int) -> LedgerMetadata:
        return (await self.records.read(ledger)).metadata

    async def requests(self) -> list[Assignment]:
        names = await self.cluster.store.children(MOVES)
        found = [await self._orders(each).read() for each in names]
        return [each for value in found for each in value.open]

    def _orders(self, bookie: BookieId) -> StoredOrders:
        return StoredOrders(self.cluster.store, self.records, bookie)

    async def summary(self) -> Summary:
        found = await read_summary(self.cluster.store)
        assert found is not None
        return found

    async def short(self) -> list[int]:
        """Return the closed ledgers with an entry that is not on its whole write set."""
        found = []
        async for page in self.records.list():
            for ledger in page:
                metadata = await self.metadata(ledger)
                if metadata.is_closed and not self._is_whole(metadata):
                    found.append(ledger)
        return found

    def _is_whole(self, metadata: LedgerMetadata) -> bool:
        last = metadata.last_entry
        assert last is not None
        return all(
            bookie not in self.gone
            and entry in self.cluster.bookies[bookie].look(metadata.ledger).frames
            for entry in range(last + 1)
            for bookie in metadata.write_set(entry)
        )

    async def copy(self) -> None:
        """Let every bookie that is up carry out what it is asked for."""
        for bookie in sorted(set(self.cluster.bookies) - self.gone):
            orders = self._orders(bookie)
            opened = (await orders.read()).open
            self.seen = max(self.seen, len(opened))
            assert len(opened) <= ASSIGNMENTS_MAX
            for each in opened:
                with suppress(NoSuchLedgerError):
                    await self._copy(bookie, each)
                await orders.done(each)
                self.copied += 1

    async def _copy(self, bookie: BookieId, asked: Assignment) -> None:
        wanted = adopted(await self.metadata(asked.ledger), asked.replicas)
        if not wanted.is_closed:
            return
        assert wanted.last_entry is not None
        for entry in range(wanted.last_entry + 1):
            if bookie in wanted.write_set(entry):
                holders = [
                    each
                    for each in self.cluster.holders(asked.ledger, entry)
                    if each not in self.gone
                ]
                source = self.cluster.bookies[holders[0]].look(asked.ledger)
                target = self.cluster.bookies[bookie].ledgers
                target.setdefault(asked.ledger, type(source)()).frames[entry] = source.frames[entry]
        await change_metadata(
            self.records, asked.ledger, lambda newest: adopted(newest, asked.replicas)
        )

    async def work(
        self,
        audit: Audit,
        seconds: float,
        until: Callable[[Summary], bool] = lambda summary: False,
        *,
        copies: bool = True,
    ) -> float:
        """Let an auditor and the bookies work for some seconds, as `Auditor` does, or until a
        summary says something. Return the seconds.
        """
        loop = asyncio.get_running_loop()
        start = loop.time()
        while (left := start + seconds - loop.time()) > 0:
            pause = await audit.round()
            if until(await self.summary()):
                break
            if copies:
                await self.copy()
            await asyncio.sleep(min(pause or 0.001, left))
        return loop.time() - start

    async def until(self, audit: Audit, condition: Callable[[Summary], bool]) -> float:
        """Work until a summary says something, for an hour at most; return the seconds."""
        seconds = await self.work(audit, 3600.0, condition)
        assert seconds < 3600.0, f"not within an hour: {await self.summary()}"
        return seconds


@asynccontextmanager
async def scene(bookies: int, ledgers: int) -> AsyncIterator[tuple[Scene, Audit]]:
    """A cluster with closed ledgers, and an auditor that has read them."""
    async with MemoryCluster(bookies) as cluster:
        made = Scene(cluster)
        await made.fill(ledgers)
        audit = made.audit()
        await audit.build()
        yield made, audit
