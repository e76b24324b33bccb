"""Orders in a store: read, waited for, and changed by several programs at once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from quire.entry import DigestKind
from quire.errors import StoreOutcomeUnknownError, VersionConflictError
from quire.ledger.metadata import Fragment, LedgerMetadata, LedgerState, Replica
from quire.ledger.quorum import Replication
from quire.ledger.stored_records import StoredRecords
from quire.metastore.layout import ledger_path
from quire.metastore.memory import MemoryStore
from quire.repair.assignments import ASSIGNMENTS_MAX, Assignment
from quire.repair.orders import UNKNOWN_MAX, StoredOrders, stored_orders
from quire.storage.maintenance.replicas_port import Order
from tests.repair.test_copies import Peers, cluster, copies_for
from tests.support.virtual import virtually

MOVE = Assignment(7, (Replica(0, 1, "b", "x"),))


async def with_ledgers(store: MemoryStore) -> None:
    """Create ledger 7, closed, and ledger 8, open."""
    for ledger, state, end in ((7, LedgerState.CLOSED, (9, 1)), (8, LedgerState.OPEN, (None,) * 2)):
        metadata = LedgerMetadata(
            *(ledger, Replication(3, 3, 2), DigestKind.CRC32C, "0" * 40),
            *((Fragment(0, ("a", "b", "c")),), state, *end),
        )
        await store.create(ledger_path(ledger), metadata.encode())


def test_orders_for_open_and_deleted_ledgers_are_given_back() -> None:
    async def main() -> None:
        store = MemoryStore()
        await with_ledgers(store)
        orders = stored_orders(store, "x")
        assert list(await orders.open()) == []
        await orders.add([MOVE, Assignment(8), Assignment(9)])
        assert list(await orders.open()) == [Order(7, "0" * 40)]
        assert (await orders.read()).open == (MOVE,)

    virtually(main)


def test_a_damaged_record_does_not_hold_up_other_orders() -> None:
    async def main() -> None:
        store = MemoryStore()
        await with_ledgers(store)
        await store.create(ledger_path(6), b"")
        orders = stored_orders(store, "x")
        await orders.add([Assignment(6), MOVE])
        assert list(await orders.open()) == [Order(7, "0" * 40)]
        assert (await orders.read()).open == (Assignment(6), MOVE)

    virtually(main)


def test_a_bookie_hears_of_new_orders() -> None:
    async def main() -> None:
        store = MemoryStore()
        await with_ledgers(store)
        orders = stored_orders(store, "x")
        for assignment in (MOVE, Assignment(8)):
            await orders.open()
            waiting = asyncio.ensure_future(orders.changed())
            await asyncio.sleep(1)
            assert not waiting.done()
            await stored_orders(store, "x").add([assignment])
            await waiting

    virtually(main)


def test_nothing_is_lost_between_programs_that_change_the_orders_at_once() -> None:
    async def main(seed: int) -> None:
        store = MemoryStore()
        rng = random.Random(seed)

        def orders() -> StoredOrders:
            return StoredOrders(store, StoredRecords(store, rng), "x")

        more = [orders().add([Assignment(ledger)]) for ledger in range(6)]
        await asyncio.gather(*more)
        await asyncio.gather(*(orders().done(Assignment(each)) for each in range(0, 6, 2)))
        left = (await orders().read()).open
        assert {each.ledger for each in left} == {1, 3, 5}
        assert (await orders().clear()).open == ()

    for seed in range(5):
        virtually(lambda seed=seed: main(seed), seed)  # type: ignore[misc]


class BusyStore(MemoryStore):
    """A store in which another program changes the record before each change of ours."""

    before: Callable[[], Awaitable[object]] | None = None
    unknown: int = 0

    async def put(self, path: str, value: bytes, version: int) -> int:
        if self.unknown:
            self.unknown -= 1
            raise StoreOutcomeUnknownError(path, "no answer")
        if (before := self.before) is not None:
            self.before = None
            await before()
            self.before = before
        return await super().put(path, value, version)


def test_a_bookie_that_is_quick_does_not_keep_others_from_asking() -> None:
    """It takes an assignment away in the time in which another program reads and writes."""

    async def main() -> None:
        store = BusyStore()
        ours, its = stored_orders(store, "x"), stored_orders(store, "x")
        left = [Assignment(ledger) for ledger in range(ASSIGNMENTS_MAX - 1)]
        await ours.add(left)

        async def take_away() -> None:
            if left:
                await its.done(left.pop())

        store.before = take_away
        assert (await ours.add([Assignment(100)])).open == (Assignment(100),)
        assert left == []

    virtually(main)


def test_outcomes_that_stay_unknown_end_a_change() -> None:
    async def main() -> None:
        store = BusyStore()
        orders = stored_orders(store, "x")
        await orders.add([Assignment(1)])
        store.unknown = UNKNOWN_MAX - 1
        assert len((await orders.add([Assignment(2)])).open) == 2
        store.unknown = UNKNOWN_MAX
        with pytest.raises(StoreOutcomeUnknownError):
            await orders.add([Assignment(3)])
        assert store.unknown == 0

    virtually(main)


def test_the_record_names_the_bookie_after_it_took_its_place() -> None:
    async def main() -> None:
        store, peers, _ = await cluster(DigestKind.CRC32C)
        peers.bookies["x"] = peers.bookies["a"]
        orders = stored_orders(store, "x")
        assigned = await orders.add([Assignment(7, (Replica(0, 0, "a", "x"),))])
        copies = copies_for(store, peers, assigned, "x")
        owed = await copies.owed(7)
        assert owed.is_final
        assert list(owed.within(0, 100)) == list(range(10))
        _, brought = await copies.fetch(7, range(10), 1 << 20)
        assert list(brought) == list(range(10))
        for _ in range(2):
            assert await copies.take_places(7) == 1
            record = await store.get(ledger_path(7))
            (fragment,) = LedgerMetadata.decode("", record.value).fragments
            assert fragment.bookies == ("x", "b", "c")
            assert (await orders.read()).open == ()

    virtually(main)


def test_a_place_that_another_took_first_stays_there() -> None:
    async def main() -> None:
        store, peers = (await cluster(DigestKind.CRC32C))[:2]
        both = []
        for name in ("x", "y"):
            move = Assignment(7, (Replica(0, 0, "a", name),))
            assigned = await stored_orders(store, name).add([move])
            copies = copies_for(store, Peers(), assigned, name)
            assert (await copies.owed(7)).is_final
            both.append(copies)
        del peers
        assert sorted(await asyncio.gather(*(each.take_places(7) for each in both))) == [0, 1]
        record = await store.get(ledger_path(7))
        (fragment,) = LedgerMetadata.decode("", record.value).fragments
        assert fragment.bookies in {("x", "b", "c"), ("y", "b", "c")}
        for name in ("x", "y"):
            assert (await stored_orders(store, name).read()).open == ()

    virtually(main)


def test_a_place_that_was_given_back_meanwhile_is_counted_first() -> None:
    """The bookie counts while another has the place; that one gives it back before the change."""

    async def main() -> None:
        store, peers = (await cluster(DigestKind.CRC32C))[:2]
        path = ledger_path(7)
        before = await store.get(path)
        metadata = LedgerMetadata.decode(path, before.value)
        taken = await store.put(path, metadata.with_replica(0, 0, "y").encode(), before.version)
        assigned = await stored_orders(store, "x").add([Assignment(7, (Replica(0, 0, "a", "x"),))])
        copies = copies_for(store, peers, assigned, "x")
        assert (await copies.owed(7)).stretches == ()
        await store.put(path, before.value, taken)
        with pytest.raises(VersionConflictError):
            await copies.take_places(7)
        assert (await store.get(path)).value == before.value
        assert (await stored_orders(store, "x").read()).open == assigned.open
        assert (await copies.owed(7)).stretches != ()
        await copies.take_places(7)
        record = await store.get(path)
        assert LedgerMetadata.decode(path, record.value).fragments[0].bookies == ("x", "b", "c")

    virtually(main)
