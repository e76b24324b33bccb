"""A heal waits for bookies, and tells a copy that was made from one that was taken back."""

from __future__ import annotations

import asyncio
import random

import pytest

from quire.entry import DigestKind
from quire.ledger.metadata import Fragment, LedgerMetadata, LedgerState, Replica
from quire.ledger.quorum import Replication
from quire.ledger.stored_records import StoredRecords
from quire.metastore.layout import ledger_path
from quire.metastore.memory import MemoryStore
from quire.repair.assignments import Assignment
from quire.repair.healing import Healing, open_healing
from quire.repair.orders import stored_orders
from quire.repair.plan import Plan
from tests.support.memory_cluster import MemoryCluster
from tests.support.virtual import virtually

CLOSED = LedgerMetadata(
    *(7, Replication(3, 3, 2), DigestKind.CRC32C, "0" * 64),
    *((Fragment(0, ("a", "b", "c")),), LedgerState.CLOSED, 9, 100),
)
WANTED = Assignment(7, (Replica(0, 0, "a", "d"),))


@pytest.mark.parametrize("is_made", [True, False])
def test_an_order_that_was_taken_back_is_no_copy(is_made: bool) -> None:
    async def main() -> None:
        store = MemoryStore()
        records, orders = StoredRecords(store, random.Random(1)), stored_orders(store, "d")
        made = await records.create(CLOSED)
        plan = Plan()
        plan.ask("d", WANTED)
        async with open_healing(store) as healing:
            carrying = asyncio.ensure_future(healing.carry_out(plan, patience=60.0))
            while not (await orders.read()).open:
                await orders.changed()
            if is_made:
                await records.change(CLOSED.with_replica(0, 0, "d"), made.version)
                await orders.done(WANTED)
            else:
                await healing.cancel()
            found = await carrying
        assert (found.done, found.left) == ((1, {}) if is_made else (0, {"d": [7]}))

    virtually(main)


def test_a_record_that_is_damaged_meanwhile_is_no_copy() -> None:
    async def main() -> None:
        store = MemoryStore()
        records, orders = StoredRecords(store, random.Random(1)), stored_orders(store, "d")
        made = await records.create(CLOSED)
        plan = Plan()
        plan.ask("d", WANTED)
        async with open_healing(store) as healing:
            carrying = asyncio.ensure_future(healing.carry_out(plan, patience=60.0))
            while not (await orders.read()).open:
                await orders.changed()
            await store.put(ledger_path(7), b"", made.version)
            await orders.done(WANTED)
            found = await carrying
        assert (found.done, found.left) == (0, {"d": [7]})

    virtually(main)


def test_a_damaged_record_keeps_no_other_ledger_from_its_copies() -> None:
    async def main() -> None:
        async with MemoryCluster(4) as cluster:
            writers = [await cluster.catalog.create() for _ in range(3)]
            for writer in writers:
                await writer.close()
            path = ledger_path(0)
            await cluster.store.put(path, b"", (await cluster.store.get(path)).version)
            records = StoredRecords(cluster.store, random.Random(1))
            healing = Healing(cluster.store, records, cluster.roster, random.Random(1))
            plan = await healing.plan([], finds_holes=True)
            assert list(plan.damaged) == [0]
            assert path in plan.damaged[0]
            assert plan.leaves_something
            assert plan.assignments == 0

    virtually(main)
