"""Every `SegmentStore` under test: quire's ledgers, ledgers of least records, and lists."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Final, TypeAlias

from quire.ledger.catalog import LedgerCatalog
from quire.ledger.records import LedgerRecords
from quire.ledger.stored_records import StoredRecords
from quire.log.segment_store.ledgers import LedgerSegments
from quire.log.segment_store.port import SegmentCapability, SegmentStore
from quire.metastore.memory import MemoryStore
from quire.metastore.store import MetadataStore
from tests.contract.records.subjects import LeastRecords
from tests.contract.segments.least import LeastSegments
from tests.support.memory_cluster import MemoryCluster


@dataclass(frozen=True)
class Subject:
    """Two clients of one engine, and the metadata store that logs of these clients have."""

    one: SegmentStore
    other: SegmentStore
    store: MetadataStore


Check: TypeAlias = Callable[[Subject], Awaitable[None]]
Run: TypeAlias = Callable[[Check], None]
Opener: TypeAlias = Callable[[], AbstractAsyncContextManager[Subject]]


def ledgers(records: Callable[[MetadataStore, random.Random], LedgerRecords]) -> Opener:
    """Ledgers on three bookies in memory."""

    @asynccontextmanager
    async def open_ledgers() -> AsyncIterator[Subject]:
        async with MemoryCluster(3) as cluster:

            def client(seed: int) -> SegmentStore:
                rng = random.Random(seed)
                given = records(cluster.store, rng)
                catalog = LedgerCatalog(
                    given, cluster.roster, rng=rng, clock=lambda: 1.5, options=cluster.options
                )
                return LedgerSegments(catalog)

            yield Subject(client(1), client(2), cluster.store)

    return open_ledgers


@asynccontextmanager
async def lists() -> AsyncIterator[Subject]:
    engine, store = LeastSegments({}), MemoryStore()
    try:
        yield Subject(engine, LeastSegments(engine.shelves), store)
    finally:
        await store.close()


SUBJECTS: Final[dict[str, tuple[Opener, frozenset[SegmentCapability]]]] = {
    "ledgers": (ledgers(StoredRecords), frozenset(SegmentCapability)),
    "ledgers-least": (ledgers(LeastRecords), frozenset()),
    "lists": (lists, LeastSegments.capabilities),
}
