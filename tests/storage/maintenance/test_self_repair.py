"""A bookie in limbo takes what it lost from others, and says when it is whole."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from quire.entry import EntryId, LedgerId, key_check
from quire.errors import (
    EntryUnknownError,
    NoSuchEntryError,
    QuireError,
    ReadOnlyBookieError,
    StoreUnavailableError,
    UnauthorizedError,
)
from quire.storage.journal.options import StorageOptions
from quire.storage.maintenance.read_repair import WAITED_SECONDS_MAX
from quire.storage.maintenance.replicas_port import Order, Owed, Stretch
from quire.storage.maintenance.self_repair import Mender
from quire.storage.offline.salvage import Doubt
from quire.tracing.spans import BOOKIE, LEDGER, MOVE, PLACES, Note, Spans, Value, Values
from tests.storage.maintenance.fakes import FAST, FakeCopies, FakeOrders, all_to
from tests.storage.salvage_scene import entry_logs, loaded, remove, salvaged
from tests.storage.scene import KEY, OTHER_KEY, SMALL, Scene, drive, eventually, run_of
from tests.support.virtual import virtually


async def in_limbo(options: StorageOptions = FAST) -> Scene:
    """Return a served bookie that lost an entry log with ten entries of ledger 7."""
    scene = await loaded()
    remove(scene, entry_logs(scene)[-1])
    scene.options = options
    await salvaged(scene, Doubt(33))
    await scene.start()
    return scene


def mender_of(scene: Scene, copies: FakeCopies) -> Mender:
    return scene.node.mender(copies.open)


def test_what_is_missing_is_fetched_and_the_ledger_is_believed() -> None:
    async def main() -> None:
        scene = await in_limbo()
        lost = set(range(30)) - (await scene.entries(7)).keys()
        assert len(lost) == 10
        copies = FakeCopies({7: all_to(29), 8: all_to(-1), 9: all_to(0), 33: all_to(4)})
        await mender_of(scene, copies).round()
        assert {entry for ledger, entry in copies.asked if ledger == 7} <= lost
        assert (await scene.entries(7)).keys() == set(range(30))
        assert (await scene.entries(33)).keys() == set(range(5))
        assert (await scene.node.info()).in_limbo == 0
        for ledger, end in ((7, 30), (9, 1), (33, 5)):
            with pytest.raises(NoSuchEntryError):
                await scene.node.read(ledger, end, end)
            assert (await scene.node.read_tail(ledger)).fenced
        await scene.close()
        await scene.start()
        assert (await scene.node.info()).in_limbo == 0
        assert (await scene.entries(7)).keys() == set(range(30))
        await scene.close()

    drive(main())


@pytest.mark.parametrize("options", [FAST, replace(FAST, list_bytes_max=1)])
def test_an_entry_that_nobody_has_keeps_its_ledger_in_limbo(options: StorageOptions) -> None:
    async def main() -> None:
        scene = await in_limbo(options)
        lost = sorted(set(range(30)) - (await scene.entries(7)).keys())
        copies = FakeCopies({7: all_to(29), 9: all_to(0)}, gone={lost[4]})
        mender = mender_of(scene, copies)
        await mender.round()
        with pytest.raises(EntryUnknownError):
            await scene.node.read(7, lost[4], lost[4])
        assert mender.counts.failures == 1
        assert set(range(30)) - (await scene.entries(7)).keys() == {lost[4]}
        assert mender.counts.entries == len(lost) - 1
        assert 7 in scene.node._storage.limbo()
        assert 9 not in scene.node._storage.limbo()
        copies.gone.clear()
        await mender.round()
        assert 7 not in scene.node._storage.limbo()
        await scene.close()

    drive(main())


def test_an_open_ledger_stays_and_a_deleted_one_is_left_alone() -> None:
    async def main() -> None:
        scene = await in_limbo()
        copies = FakeCopies({7: all_to(29, is_final=False)})
        mender = mender_of(scene, copies)
        await mender.round()
        assert (await scene.entries(7)).keys() == set(range(30))
        assert scene.node._storage.limbo() == [7, 8, 9, 33]
        assert mender.counts.failures == 0
        copies.ledgers[7] = all_to(29)
        await mender.round()
        assert scene.node._storage.limbo() == [8, 9, 33]
        await scene.close()

    drive(main())


def test_it_works_by_itself_through_outages_and_ends_with_its_owner() -> None:
    async def main() -> None:
        scene = await in_limbo()
        copies = FakeCopies({7: all_to(29), 8: all_to(-1), 9: all_to(0), 33: all_to(0)})
        copies.is_away = True
        mender = mender_of(scene, copies)
        mender.start()
        await eventually(lambda: mender.counts.failures > 2)
        copies.is_away = False
        await eventually(lambda: not scene.node._storage.limbo())
        await mender.close()
        assert scene.fatal == []
        await scene.close()

    drive(main())


def test_a_crash_meanwhile_costs_nothing() -> None:
    async def main() -> None:
        scene = await in_limbo()
        copies = FakeCopies({7: all_to(29)}, gone={25})
        await mender_of(scene, copies).round()
        await scene.cut()
        await scene.start()
        assert 7 in scene.node._storage.limbo()
        with pytest.raises(EntryUnknownError):
            await scene.node.read(7, 99, 99)
        copies.gone.clear()
        await mender_of(scene, copies).round()
        await scene.node.add(200, KEY, run_of(200, 0))
        await scene.cut()
        await scene.start()
        assert (await scene.entries(7)).keys() == set(range(30))
        await scene.close()

    drive(main())


def test_a_bookie_that_runs_short_of_room_takes_no_more_copies() -> None:
    async def main() -> None:
        scene = await in_limbo()
        copies = FakeCopies({33: all_to(999)})
        upkeep = scene.node._engine.upkeep
        fetch = copies.fetch

        async def fetch_until_full(*wanted: Any) -> tuple[bytes, Sequence[EntryId]]:
            if len(copies.asked) == 10:
                scene.disk.capacity_bytes = scene.disk.taken_bytes = 1 << 30
                await upkeep.look_for_room()
            return await fetch(*wanted)

        copies.fetch = fetch_until_full  # type: ignore[method-assign, assignment]
        await mender_of(scene, copies).round()
        assert not upkeep.is_writable
        assert len(copies.asked) == 11
        await scene.close()

    drive(main())


def test_a_ledger_that_is_forgotten_when_it_is_whole_stops_no_flush() -> None:
    async def main() -> None:
        scene = await in_limbo()
        with pytest.raises(EntryUnknownError):
            await scene.node.read_tail(44, fence_key=KEY)
        copies = FakeCopies({44: Owed((), True)})
        await mender_of(scene, copies).round()
        assert 44 not in scene.node._storage.limbo()
        with pytest.raises(EntryUnknownError):
            await scene.node.wait_tail(44, 0, 0.001)
        await scene.node._engine.upkeep.flush()
        await scene.close()

    drive(main())


def test_a_large_ledger_is_compared_piece_by_piece() -> None:
    async def main() -> None:
        scene = await in_limbo(replace(FAST, list_bytes_max=1))
        for entry in (*range(0, 300, 5), 700):  # with gaps: each chunk has to be looked into
            await scene.node.add(200, KEY, run_of(200, entry, payload=bytes(2000)))
        await scene.node._engine.upkeep.flush()
        listed: list[int] = []
        some = scene.node._storage.lists.some

        async def counted(ledger: LedgerId, first: EntryId = 0) -> list[tuple[EntryId, EntryId]]:
            held = await some(ledger, first)
            if ledger == 200:
                listed.append(len(held))
            return held

        scene.node._storage.lists.some = counted  # type: ignore[method-assign, assignment]
        scene.node._storage.state(200).in_limbo = True
        copies = FakeCopies({200: Owed((Stretch(0, 700, 5, (0, 1)),), True)})
        mender = mender_of(scene, copies)
        await mender.round()
        owed = {entry for entry in range(701) if entry % 5 < 2}
        assert (await scene.entries(200)).keys() == owed
        assert mender.counts.entries == len(owed) - 61
        assert 200 not in scene.node._storage.limbo()
        assert len(listed) > 2
        assert max(listed) < 61
        await scene.close()

    drive(main())


def test_those_who_do_not_answer_are_not_asked_for_every_entry() -> None:
    """The rest of a fragment waits for them; others may have those of the next."""

    async def main() -> None:
        scene = await in_limbo()
        fragments = (Stretch(0, 9999, 1, (0,)), Stretch(10_000, 10_099, 1, (0,)))
        copies = FakeCopies({33: Owed(fragments, True)}, gone=set(range(5, 10_000)), patience=10)
        mender = mender_of(scene, copies)
        await mender.round()
        asked = [entry for ledger, entry in copies.asked if ledger == 33 and entry < 10_000]
        assert len(asked) == 2 + WAITED_SECONDS_MAX / copies.patience
        assert mender.counts.entries == 105
        assert 33 in scene.node._storage.limbo()
        await scene.close()

    virtually(main)


def test_those_who_do_not_answer_keep_nothing_of_others_away() -> None:
    """Of a fragment with several write sets only those wait that they are in."""

    async def main() -> None:
        scene = await in_limbo()
        owed = Owed((Stretch(0, 299, 3, (0, 1)),), True)
        gone = {entry for entry in range(300) if entry % 3 == 1}
        copies = FakeCopies({33: owed}, gone=gone, patience=10)
        mender = mender_of(scene, copies)
        await mender.round()
        assert mender.counts.entries == 100
        assert len(copies.asked) < 100
        await scene.close()

    virtually(main)


def test_entries_that_nobody_has_keep_none_behind_them_away() -> None:
    """However many they are: whoever answers is asked for the next one."""

    async def main() -> None:
        scene = await in_limbo()
        copies = FakeCopies({33: all_to(5999)}, gone=set(range(100, 5900)))
        mender = mender_of(scene, copies)
        await mender.round()
        assert mender.counts.entries == 200
        assert 33 in scene.node._storage.limbo()
        await scene.close()

    drive(main())


@dataclass
class KeptSpans(Spans):
    """Spans by heart: name, attributes at the end, and the error."""

    kept: list[tuple[str, dict[str, Value], str]] = field(default_factory=list)

    @contextmanager
    def begin(self, name: str, attributes: Values, *, alone: bool = False) -> Iterator[Note]:
        noted = dict(attributes)
        failed = ""
        try:
            yield noted.__setitem__
        except QuireError as error:
            failed = type(error).__name__
            raise
        finally:
            self.kept.append((name, noted, failed))


def test_a_move_is_told_as_a_span_and_other_mending_is_not() -> None:
    async def main() -> None:
        scene = await in_limbo()
        spans = KeptSpans()
        copies = FakeCopies({33: all_to(5999), 50: all_to(9)})
        orders = FakeOrders([Order(50, key_check(KEY)), Order(51, key_check(KEY))])
        mender = scene.node.mender(copies.open, orders, spans)
        mender.start()
        await eventually(lambda: mender.counts.ledgers_cleared == 2)
        await mender.close()
        about = {LEDGER: 50, BOOKIE: scene.node.bookie}
        gone = {LEDGER: 51, BOOKIE: scene.node.bookie}
        assert spans.kept[:2] == [
            (MOVE, {**about, PLACES: 1}, ""),
            (MOVE, gone, "NoSuchLedgerError"),
        ]
        assert {each[1][LEDGER] for each in spans.kept} == {50, 51}
        await scene.close()

    virtually(main)


def test_ordered_copies_are_made_and_then_the_record_names_the_bookie() -> None:
    """The ledger is fenced and has one key before the record names the bookie, also after a power
    cut in that very moment.
    """

    async def main() -> None:
        scene = Scene(options=replace(SMALL, mend_seconds=3600.0, mend_seconds_max=3600.0))
        node = await scene.start()
        copies, orders = FakeCopies({50: all_to(9)}), FakeOrders([])

        async def take_places(ledger: LedgerId) -> int:
            copies.taken.append(ledger)
            assert (await scene.node.info()).in_limbo == 1
            await scene.cut()
            raise StoreUnavailableError("store", "the power failed")

        copies.take_places = take_places  # type: ignore[method-assign]
        mender = node.mender(copies.open, orders)
        mender.start()
        await asyncio.sleep(10)
        orders.orders.append(Order(50, key_check(KEY)))
        orders.news.set()
        await eventually(lambda: bool(copies.taken))
        await mender.close()
        await scene.start()
        assert scene.node._storage.limbo() == [50]
        assert (await scene.entries(50)).keys() == set(range(10))
        with pytest.raises(UnauthorizedError):
            await scene.node.add(50, OTHER_KEY, run_of(50, 10))
        with pytest.raises(ReadOnlyBookieError):
            await scene.node.add(50, KEY, run_of(50, 10))
        del copies.take_places
        again = scene.node.mender(copies.open, orders)
        again.start()
        await eventually(lambda: again.counts.ledgers_cleared == 1)
        assert copies.taken == [50, 50]
        await again.close()
        await scene.close()

    virtually(main)


def test_a_full_disk_enters_no_record() -> None:
    async def main() -> None:
        scene = Scene(options=replace(FAST, space_check_seconds=0.01))
        node = await scene.start()
        copies, orders = FakeCopies({50: all_to(9)}), FakeOrders([Order(50, key_check(KEY))])
        mender = node.mender(copies.open, orders)
        check_room = scene.disk.check_room

        def is_full(growth: int) -> None:
            if any(path.startswith("entries/") for path in scene.disk.files()):
                raise OSError(errno.ENOSPC, "no space for the states of ledgers")
            check_room(growth)

        flush = mender._flush

        async def on_a_full_disk() -> bool:
            scene.disk.check_room = is_full  # type: ignore[method-assign]
            try:
                return await flush()
            finally:
                scene.disk.check_room = check_room  # type: ignore[method-assign]

        mender._flush = on_a_full_disk
        await mender._take_orders()
        await mender.round()
        assert mender.counts.entries == 10
        assert copies.taken == []
        mender._flush = flush
        mender.start()
        await eventually(lambda: copies.taken == [50])
        await mender.close()
        await scene.close()

    virtually(main)


def test_orders_that_cannot_be_read_now_are_read_later() -> None:
    async def main() -> None:
        scene = Scene(options=FAST)
        node = await scene.start()
        copies = FakeCopies({50: all_to(9)})
        orders = FakeOrders([Order(50, key_check(KEY))], is_away=True)
        mender = node.mender(copies.open, orders)
        mender.start()
        await asyncio.sleep(1)
        assert copies.asked == []
        orders.is_away = False
        await eventually(lambda: copies.taken == [50])
        await mender.close()
        await scene.close()

    virtually(main)


def test_a_retired_ledger_is_not_begun_again() -> None:
    async def main() -> None:
        scene = Scene(options=FAST)
        node = await scene.start()
        await node._storage.retire([50])
        copies, orders = FakeCopies({50: all_to(9)}), FakeOrders([Order(50, key_check(KEY))])
        mender = node.mender(copies.open, orders)
        mender.start()
        await asyncio.sleep(1)
        assert copies.asked == []
        assert copies.taken == []
        await mender.close()
        await scene.close()

    virtually(main)


def test_the_key_of_an_ordered_ledger_is_known_behind_the_horizon_of_a_repair() -> None:
    """A repair doubts ids without records too, and learns no key of these."""

    async def main() -> None:
        scene = await loaded()
        await salvaged(scene)
        node = await scene.start()
        assert node.doubts(50)
        copies, orders = FakeCopies({50: all_to(9)}), FakeOrders([Order(50, key_check(KEY))])
        mender = node.mender(copies.open, orders)
        await mender._take_orders()
        await mender.round()
        assert copies.taken == [50]
        await scene.cut()
        node = await scene.start()
        with pytest.raises(UnauthorizedError):
            await node.add(50, OTHER_KEY, run_of(50, 10), recovery=True)
        await scene.close()

    drive(main())


def test_an_order_that_came_back_is_as_durable_as_a_new_one() -> None:
    """It is taken away and comes back while its ledger waits for copies, behind the bookie's back:
    the bookie reads its orders before it opens the way to copies.
    """

    async def main() -> None:
        scene = Scene(options=FAST)
        node = await scene.start()
        copies, orders = FakeCopies({}), FakeOrders([Order(50, key_check(KEY))])
        mender = node.mender(copies.open, orders)
        await mender._take_orders()
        orders.orders.clear()
        await mender._take_orders()
        copies.ledgers[50] = all_to(9)
        await mender.round()
        assert copies.taken == [50]
        await scene.cut()
        node = await scene.start()
        with pytest.raises(UnauthorizedError):
            await node.add(50, OTHER_KEY, run_of(50, 10), recovery=True)
        await scene.close()

    drive(main())
