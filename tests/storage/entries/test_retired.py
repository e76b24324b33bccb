"""Retired ids: the set, its files, and a bookie that keeps them through crashes and repairs."""

from __future__ import annotations

import asyncio
import errno
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.errors import (
    CorruptStorageError,
    LedgerDisownedError,
    LedgerFencedError,
    LedgerRetiredError,
    NoSuchLedgerError,
    ReadOnlyBookieError,
)
from quire.storage.disk.state_file import TEMPORARY_SUFFIX
from quire.storage.entries.checkpoint import PATHS as CHECKPOINTS
from quire.storage.entries.checkpoint import decode_checkpoint
from quire.storage.entries.doubtful import Horizon
from quire.storage.entries.retired import Intervals, RetiredIds
from quire.storage.entries.retired_file import PATHS, RetiredFile, decode_retired, encode_retired
from quire.storage.offline.salvage import Doubt, salvage
from tests.sim.disk import Cut
from tests.storage.compaction_scene import FAST, Answers, collector_of, fill
from tests.storage.scene import BOOKIE, KEY, OTHER_KEY, SMALL, Scene, drive, run_of
from tests.storage.spread_scene import SpreadScene

RANGES = st.tuples(st.integers(0, 60), st.integers(0, 6)).map(lambda each: (each[0], sum(each)))
EVERY_CUT = list(Cut)


# -- the set


@given(st.lists(RANGES, max_size=12))
def test_intervals_are_the_set_of_their_ids(ranges: list[tuple[int, int]]) -> None:
    ids = {each for first, last in ranges for each in range(first, last + 1)}
    for found in (Intervals.of(ranges), Intervals.of(reversed(ranges))):
        assert [each for each in range(80) if each in found] == sorted(ids)
        assert found.are_sound()
        assert found.highest == max(ids, default=-1)
        runs = sum(each - 1 not in ids for each in ids)
        assert len(found) == runs, "neighbours are one interval"


@pytest.mark.parametrize(("first", "last"), [(-1, 3), (4, 3)])
def test_what_is_not_a_range_is_refused(first: int, last: int) -> None:
    with pytest.raises(ValueError, match="not a range"):
        Intervals().add(first, last)


def test_dropped_ledgers_are_refused_by_what_became_of_them() -> None:
    ids = RetiredIds(disowned=Intervals.of([(3, 3)])).joined([(5, 6)])
    ids.check_kept(4)
    ids.check_writer(4)
    with pytest.raises(LedgerDisownedError):
        ids.check_kept(3)
    with pytest.raises(LedgerFencedError):
        ids.check_writer(3)
    with pytest.raises(LedgerRetiredError):
        ids.check_kept(5)
    with pytest.raises(LedgerFencedError):
        ids.check_writer(6)
    assert (3 in ids, 4 in ids, ids.highest) == (False, False, 6)
    assert [ids.is_dropped(each) for each in (3, 4, 5)] == [True, False, True]


# -- the file


@given(
    st.lists(RANGES, max_size=8),
    st.lists(RANGES, max_size=8),
    st.integers(1, 2**64 - 1),
    st.integers(0, 2**64 - 1),
)
def test_a_file_says_what_was_written(
    deleted: list[tuple[int, int]], disowned: list[tuple[int, int]], generation: int, agreed: int
) -> None:
    ids = RetiredIds(Intervals.of(deleted), Intervals.of(disowned))
    file = RetiredFile(generation, agreed, ids)
    assert decode_retired("f", BOOKIE, encode_retired(BOOKIE, file)) == file


def test_any_changed_or_missing_byte_of_a_file_is_noticed() -> None:
    ids = RetiredIds(Intervals.of([(1, 2), (9, 9)]), Intervals.of([(4, 4)]))
    data = encode_retired(BOOKIE, RetiredFile(3, 1, ids))
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 0x10
        for damaged in (bytes(changed), data[:at]):
            with pytest.raises(CorruptStorageError, match="f is corrupt"):
                decode_retired("f", BOOKIE, damaged)
    with pytest.raises(CorruptStorageError, match="belongs to bookie"):
        decode_retired("f", "another", data)


def test_intervals_that_no_program_writes_are_refused() -> None:
    wrong = Intervals(Intervals.of([(5, 5)]).firsts, Intervals.of([(4, 4)]).lasts)
    data = encode_retired(BOOKIE, RetiredFile(1, 0, RetiredIds(wrong)))
    with pytest.raises(CorruptStorageError, match="not ascending"):
        decode_retired("f", BOOKIE, data)


# -- the bookie


async def collect(scene: Scene, *deleted: int) -> None:
    collector = collector_of(scene, Answers(*deleted))
    await collector.round()
    await collector.round(is_major=True)


async def check_refused(scene: Scene, ledger: int) -> None:
    """What a deposed leader, a rival and a recovery meet."""
    for key in (KEY, OTHER_KEY):
        with pytest.raises(LedgerFencedError):
            await scene.node.add(ledger, key, run_of(ledger, 99))
        with pytest.raises(LedgerRetiredError):
            await scene.node.add(ledger, key, run_of(ledger, 99), recovery=True)
        with pytest.raises(LedgerRetiredError):
            await scene.node.read_tail(ledger, fence_key=key)
    assert ledger not in scene.node._storage.states


def test_a_collected_ledger_takes_no_add_through_restarts_flushes_and_compactions() -> None:
    """The deposed leader of a trimmed segment, cut off from the metadata store, appends again."""

    async def main() -> None:
        scene = Scene(options=FAST)
        await fill(scene)
        await collect(scene, 2, 9)
        await check_refused(scene, 2)
        for _ in range(3):
            await scene.node.add(1, KEY, run_of(1, 99))
            await scene.close()
            await scene.start()
            await check_refused(scene, 2)
            await check_refused(scene, 9)
        await collect(scene, 1, 2, 3, 9)
        await scene.kill()
        await scene.start()
        for ledger in (1, 2, 3, 9):
            await check_refused(scene, ledger)
        await scene.node.add(4, KEY, run_of(4, 99))
        await scene.close()

    drive(main())


def test_a_bookie_of_several_directories_keeps_retired_ids_in_the_main_one() -> None:
    async def main() -> None:
        scene = SpreadScene(options=FAST)
        node = await scene.start()
        await node.add(1, KEY, run_of(1, 0))
        await node._storage.retire([1])
        await scene.kill()
        await scene.start()
        await check_refused(scene, 1)
        paths = [path for path in scene.disk.files() if path.rpartition("/")[2] in PATHS]
        assert len(paths) == 1
        await scene.close()

    drive(main())


@pytest.mark.parametrize("cut", EVERY_CUT)
def test_at_every_crash_point_the_ledger_is_fenced_or_its_id_is_retired(cut: Cut) -> None:
    async def main() -> None:
        change, done, seen = 1, False, set[bool]()
        while not done:
            scene = Scene(seed=change, options=FAST)
            await fill(scene, lives=2)
            await scene.node.read_tail(2, fence_key=KEY)
            done = await scene.cut_short(change, scene.node._storage.retire([2]), cut)
            await scene.node.abort()
            await scene.start()
            with pytest.raises(LedgerFencedError):
                await scene.node.add(2, KEY, run_of(2, 99))
            seen.add(2 in scene.node._storage.retired)
            assert 2 in scene.node._storage.retired or await scene.entries(2)
            await scene.close()
            change += 1
        assert seen == {False, True}, "it happens before the last change or it does not"
        assert change > 4

    drive(main())


def test_runs_in_the_queue_when_their_ledger_is_dropped_bring_nothing_back() -> None:
    """A queued run must not make a ledger anew, without its key and fence."""

    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        await node.add(5, KEY, run_of(5, 0))
        before = node._engine.gate.bytes
        await scene.node._storage.flush(node._engine._journal.position)
        adding = [node.add(5, KEY, run_of(5, entry, payload=bytes(900))) for entry in range(1, 9)]
        taken = node._engine.gate.bytes
        assert taken > before
        node._storage._retired = node._storage._retired.next(
            ids=node._storage.retired.joined([(5, 5)])
        )
        node._storage._drop(5)
        await asyncio.gather(*adding)
        await check_refused(scene, 5)
        await node._engine.upkeep.flush()
        assert node._engine.gate.bytes < taken, "their memory is given back"
        await scene.close()
        assert scene.fatal == []

    drive(main())


def test_memory_is_given_back_when_ledgers_are_retired_under_load() -> None:
    async def main() -> None:
        scene = Scene(options=SMALL)
        node = await scene.start()
        for ledger in range(1, 120):
            adding = [node.add(ledger, KEY, run_of(ledger, e, payload=bytes(2000))) for e in (0, 1)]
            retiring = asyncio.ensure_future(node._storage.retire([ledger]))
            await asyncio.gather(*adding, retiring)
        await node._engine.upkeep.flush()
        assert node._engine.gate.bytes == 0
        await scene.close()

    drive(main())


def test_ledgers_wait_for_space_for_their_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        scene = Scene(options=FAST)
        held = await fill(scene)
        collector = collector_of(scene, Answers(1))
        await collector.round()
        storage = scene.node._storage
        whole = storage._list

        async def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, "no space left")

        monkeypatch.setattr(storage, "_list", full)
        await collector.round()
        assert collector.counts.ledgers_dropped == 0
        assert await scene.entries(1) == held[1]
        monkeypatch.setattr(storage, "_list", whole)
        await collector.round()
        assert collector.counts.ledgers_dropped == 1
        await check_refused(scene, 1)
        await scene.close()

    drive(main())


def test_the_checkpoint_names_the_generation_and_the_named_file_is_never_overwritten() -> None:
    async def main() -> None:
        scene = Scene()
        await scene.start()
        for ledger in range(1, 6):
            await scene.node._storage.retire([ledger])
            files = scene.disk.files()
            found = [decode_checkpoint(path, files[path]) for path in CHECKPOINTS]
            named = max(found, key=lambda each: each.generation).retired
            file = decode_retired("f", BOOKIE, files[PATHS[named % 2]])
            assert (named, file.generation) == (ledger, ledger)
            assert list(file.ids.deleted) == [(1, ledger)]
        await scene.close()

    drive(main())


@pytest.mark.parametrize("how", ["lost", "damaged", "an older copy"])
def test_a_bookie_whose_retired_ids_are_older_than_its_checkpoint_does_not_start(how: str) -> None:
    async def main() -> None:
        scene = Scene()
        await scene.start()
        await scene.node._storage.retire([3])
        older = scene.disk.files()[PATHS[1]]
        await scene.node._storage.retire([4])
        await scene.node._storage.retire([5])
        await scene.close()
        mount = scene.disk.mount()
        for path in PATHS:
            await mount.unlink(path)
        if how != "lost":
            file = await mount.open(PATHS[1], create=True)
            await file.write(0, [older if how == "an older copy" else b"rot" * 99], sync=True)
            await file.close()
        await mount.close()
        with pytest.raises(CorruptStorageError, match=PATHS[1]):
            await scene.start()

    drive(main())


def test_one_generation_that_rots_is_made_up_for_by_a_newer_one() -> None:
    async def main() -> None:
        scene = Scene()
        await scene.start()
        await scene.node._storage.retire([3])
        await scene.node._storage.retire([4])
        await scene.close()
        mount = scene.disk.mount()
        await mount.unlink(PATHS[1])
        await mount.close()
        await scene.start()
        for ledger in (3, 4):
            await check_refused(scene, ledger)
        await scene.close()

    drive(main())


def test_a_disk_of_an_older_program_opens_and_the_agreement_is_kept() -> None:
    async def main() -> None:
        scene = Scene()
        await scene.start()
        assert (scene.node._storage.retired_generation, scene.node._storage.agreed) == (0, 0)
        await scene.node.add(1, KEY, run_of(1, 0))
        await scene.node._storage.agree(7)
        await scene.node._storage.retire([3])
        await scene.kill()
        await scene.start()
        assert scene.node._storage.agreed == 7
        assert await scene.entries(1)
        await scene.close()
        assert not any(path.endswith(TEMPORARY_SUFFIX) for path in scene.disk.files())

    drive(main())


# -- repair


async def repaired(scene: Scene, horizon: Horizon, *doubts: Doubt) -> list[str]:
    """Repair the disk, start the bookie; return the names that the repair set aside."""
    mount = scene.disk.mount()
    found = await salvage(mount, BOOKIE, doubts, horizon, rng=random.Random(1), options=SMALL)
    await mount.close()
    await scene.start()
    return found.aside


def test_a_repair_keeps_retired_ids_and_they_win_over_limbo() -> None:
    async def main() -> None:
        scene = Scene(options=FAST)
        await fill(scene)
        await collect(scene, 2)
        await scene.node._storage.agree(4)
        await scene.close()
        assert await repaired(scene, Horizon(10), Doubt(2)) == []
        await check_refused(scene, 2)
        assert 2 not in scene.node._storage.limbo()
        assert scene.node._storage.agreed == 4
        await scene.close()
        await scene.start()
        await check_refused(scene, 2)
        await scene.close()

    drive(main())


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_repair_that_finds_no_retired_ids_doubts_every_id_without_a_record(
    is_damaged: bool,
) -> None:
    async def main() -> None:
        scene = Scene(options=FAST)
        await fill(scene)
        await collect(scene, 2)
        await scene.close()
        mount = scene.disk.mount()
        for path in PATHS:
            if path in await mount.list():
                await mount.unlink(path)
        if is_damaged:
            for path in PATHS:
                file = await mount.open(path, create=True)
                await file.write(0, [b"rot" * 99], sync=True)
                await file.close()
        await mount.close()
        aside = await repaired(scene, Horizon.around([(7, 7)], 10))
        assert len(aside) == 2 * is_damaged
        with pytest.raises((ReadOnlyBookieError, LedgerFencedError), match="may have lost"):
            await scene.node.add(2, KEY, run_of(2, 99))
        await scene.node.add(7, KEY, run_of(7, 0))
        await scene.node._storage.retire([2])
        await scene.close()
        await scene.start()
        await check_refused(scene, 2)
        with pytest.raises(NoSuchLedgerError):
            await scene.node.read(12, 0, 0)
        await scene.close()

    drive(main())


def test_a_read_error_of_the_retired_ids_ends_one_start_and_is_no_damage() -> None:
    async def main() -> None:
        scene = Scene()
        await scene.start()
        await scene.node._storage.retire([3])
        await scene.close()
        scene.disk.faults.read_error = PATHS[1]
        with pytest.raises(OSError, match="injected read error"):
            await scene.start()
        await scene.mount.close()
        scene.disk.faults.read_error = None
        await scene.start()
        await check_refused(scene, 3)
        await scene.close()

    drive(main())
