"""Which ledgers a bookie may have had, by a clock that is wrong, and after a restore."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from quire.entry import DigestKind
from quire.errors import StoreWentBackError
from quire.ledger.metadata import Fragment, LedgerMetadata
from quire.ledger.quorum import Replication
from quire.metastore.cluster import Cluster
from quire.metastore.layout import CLUSTER, LEDGER_IDS, ledger_path
from quire.metastore.memory import MemoryStore
from quire.metastore.record import encode_record
from quire.repair.census import SETTLED_SECONDS, count
from quire.storage.entries.doubtful import Horizon

DAY_MS = 24 * 3600 * 1000
IN_1970 = -1000 * SETTLED_SECONDS
OPEN = LedgerMetadata(
    *(7, Replication(3, 3, 2), DigestKind.CRC32C, "0" * 64, (Fragment(0, ("a", "b", "c")),))
)


async def store_of(*ledgers: LedgerMetadata) -> MemoryStore:
    """A store with some ledgers, which has given 64 ids out."""
    store = MemoryStore()
    for each in ledgers:
        await store.create(ledger_path(each.ledger), each.encode())
    await store.create(LEDGER_IDS, encode_record("ledger-ids", 1, {"next": 64}))
    return store


def test_a_clock_that_was_put_back_makes_no_deleted_ledger_young() -> None:
    """A machine without a battery begins in 1970, and its repair must not forget a fence."""

    async def main() -> None:
        old = replace(OPEN.closed(4, 50), created_ms=100 * DAY_MS)
        new = replace(OPEN.closed(4, 50), ledger=60, created_ms=200 * DAY_MS)
        store = await store_of(old, new)
        _, horizon = await count(store, "x", IN_1970)
        assert horizon == Horizon(64, ((8, 59), (61, 63)))
        assert await count(store, "x", 199 * DAY_MS) == ([], horizon), "as by a right clock"

    asyncio.run(main())


def test_an_open_ledger_that_is_older_than_the_restore_is_in_doubt() -> None:
    """Its record may lack the ensemble that had this bookie: a denial would cut entries off."""

    async def main() -> None:
        store = await store_of(OPEN, replace(OPEN, ledger=8, incarnation=5))
        await store.create(CLUSTER, Cluster("c", incarnation=5).encode())
        doubts, horizon = await count(store, "x", 0)
        assert doubts == []
        assert 7 in horizon
        assert 8 not in horizon

    asyncio.run(main())


def test_nothing_is_counted_in_a_store_that_went_back() -> None:
    """It knows neither the ledgers nor the ids that were given out after its backup."""

    async def main() -> None:
        store = await store_of(OPEN)
        await store.create(CLUSTER, Cluster("c", incarnation=5, adopted=False).encode())
        with pytest.raises(StoreWentBackError):
            await count(store, "x", 0)

    asyncio.run(main())
