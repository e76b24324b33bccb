"""A heal waits for bookies, and tells a copy that was made from one that was taken back."""

from __future__ import annotations

import asyncio
import random

import pytest

from quire.entry import DigestKind
from quire.ledger.metadata import Fragment, LedgerMetadata, LedgerState, Replica
from quire.ledger.quorum import Replication
from quire.ledger.stored_records import StoredRecords
from quire.metastore.memory import MemoryStore
from quire.repair.assignments import Assignment
from quire.repair.healing import open_healing
from quire.repair.orders import stored_orders
from quire.repair.plan import Plan
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
