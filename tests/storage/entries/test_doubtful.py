"""What a bookie says of ledgers of which it may have lost something, until it is whole again."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.entry import key_check
from quire.errors import (
    EntryUnknownError,
    NoSuchEntryError,
    NoSuchLedgerError,
    ReadOnlyBookieError,
    UnauthorizedError,
)
from quire.storage.entries.doubtful import Horizon, decode_ranges
from quire.storage.offline.salvage import Doubt
from tests.sim.disk import Cut
from tests.storage.salvage_scene import loaded, salvaged
from tests.storage.scene import KEY, drive, eventually, run_of


def test_limbo_and_fences_survive_power_cuts_and_flushes() -> None:
    async def main() -> None:
        scene = await loaded()
        await salvaged(scene, Doubt(33, key_check(KEY)))
        scene.disk.power_cut(Cut.LOSES)
        for _ in range(3):
            node = await scene.start()
            for ledger in (7, 33, 50):
                with pytest.raises(EntryUnknownError):
                    await node.read(ledger, 99, 99)
                with pytest.raises(ReadOnlyBookieError):
                    await node.add(ledger, KEY, run_of(ledger, 40))
            await node.add(200, KEY, run_of(200, 0, payload=bytes(3000)))
            await scene.close()

    drive(main())


def test_a_lost_key_is_known_by_its_check() -> None:
    async def main() -> None:
        scene = await loaded()
        await salvaged(scene, Doubt(33, key_check(KEY)))
        node = await scene.start()
        with pytest.raises(UnauthorizedError):
            await node.add(33, b"w" * 20, run_of(33, 0), recovery=True)
        with pytest.raises(UnauthorizedError):
            await node.read_tail(33, fence_key=b"w" * 20)
        await scene.close()
        node = await scene.start()
        with pytest.raises(UnauthorizedError):
            await node.read(33, 0, 0, fence_key=b"w" * 20)
        await node.add(33, KEY, run_of(33, 0), recovery=True)
        await scene.close()
        node = await scene.start()
        assert await node.list_entries(33) == [(0, 0)]
        with pytest.raises(UnauthorizedError):
            await node.add(33, b"w" * 20, run_of(33, 0), recovery=True)
        await scene.close()

    drive(main())


def test_a_ledger_that_is_whole_again_is_believed() -> None:
    async def main() -> None:
        scene = await loaded()
        await salvaged(scene)
        node = await scene.start()
        node._storage.clear(7)
        await scene.close()
        node = await scene.start()
        with pytest.raises(NoSuchEntryError):
            await node.read(7, 99, 99)
        assert (await node.read_tail(7)).fenced
        with pytest.raises(EntryUnknownError):
            await node.read(9, 99, 99)
        await scene.close()

    drive(main())


@pytest.mark.parametrize("ledger", [7, 33], ids=["with entries", "without"])
def test_a_read_that_began_in_limbo_denies_nothing_when_it_ends_outside(ledger: int) -> None:
    """R4: the disk was looked at before the missing entry was put back. The answer is as old as
    the look, so the doubt of that moment counts.
    """

    async def main() -> None:
        scene = await loaded()
        await salvaged(scene, Doubt(33, key_check(KEY)))
        node = await scene.start()
        look = node._storage.read

        async def read(*what: int) -> bytes | None:
            found = await look(*what)
            await node.add(ledger, KEY, run_of(ledger, 60), recovery=True)
            node._storage.clear(ledger)
            return found

        with patch.object(node._storage, "read", read), pytest.raises(EntryUnknownError):
            await node.read(ledger, 60, 60)
        assert list(await scene.entries(ledger, 60)) == [60]
        with pytest.raises(NoSuchEntryError):
            await node.read(ledger, 61, 61)
        await scene.close()

    drive(main())


def test_nobody_waits_for_what_is_unknown() -> None:
    async def main() -> None:
        scene = await loaded()
        await salvaged(scene)
        node = await scene.start()
        before = len(node._storage.states)
        for ledger in range(40, 60):
            with pytest.raises(EntryUnknownError):
                await node.wait_tail(ledger, -1, 60.0)
        assert len(node._storage.states) == before
        await eventually(lambda: True)
        await scene.close()

    drive(main())


def test_ledgers_of_which_nothing_can_be_lost_are_taken_as_always() -> None:
    async def main() -> None:
        scene = await loaded()
        await salvaged(scene, clean=((0, 3), (50, 60)))
        node = await scene.start()
        for ledger in (3, 50, 60):
            with pytest.raises(NoSuchLedgerError):
                await node.read(ledger, 0, 0)
            await node.add(ledger, KEY, run_of(ledger, 0))
        for ledger in (4, 49, 61):
            with pytest.raises(ReadOnlyBookieError):
                await node.add(ledger, KEY, run_of(ledger, 0))
        await scene.close()

    drive(main())


@given(st.sets(st.integers(0, 60)), st.integers(0, 60))
def test_the_horizon_is_around_all_but_the_clean(clean: set[int], below: int) -> None:
    inside = sorted(each for each in clean if each < below)
    horizon = Horizon.around([(each, each) for each in inside], below)
    assert [each for each in range(70) if each not in horizon] == [
        each for each in range(70) if each in inside or each >= below
    ]
    rows = [list(each) for each in horizon.clean]
    assert decode_ranges(rows) == horizon.clean


def horizon(below: int, ids: list[int]) -> Horizon:
    some = sorted(each for each in ids if each < below)
    return Horizon(below, tuple(zip(some[::2], some[1::2], strict=False)))


horizons = st.builds(
    horizon, st.integers(0, 30), st.lists(st.integers(0, 30), unique=True, max_size=8)
)


@given(horizons, horizons)
def test_no_doubt_leaves_with_a_later_repair(newer: Horizon, older: Horizon) -> None:
    joined = newer.joined(older)
    assert decode_ranges([list(each) for each in joined.clean]) == joined.clean
    for ledger in range(-1, 35):
        is_doubted = ledger in newer or ledger in older
        # What neither of them knows of lies below the other: a doubt too many does no harm.
        assert is_doubted <= (ledger in joined)
        if ledger < min(newer.below, older.below):
            assert is_doubted == (ledger in joined)
