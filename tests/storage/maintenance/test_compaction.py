"""Deleted ledgers give their space back; nothing else is ever touched, crashes included."""

from __future__ import annotations

import asyncio
import errno

import pytest

from quire.errors import LedgerFencedError, StoreUnavailableError
from quire.storage.entries.entry_log import _CHUNK, LedgerChunks, entries_path
from quire.storage.entries.file_set import FileUse, LedgerParts
from quire.storage.journal.options import StorageOptions
from quire.storage.maintenance.compaction import WIDE_FILES_MAX, CompactionPlan, choose
from quire.storage.maintenance.garbage import Collector
from tests.sim.disk import Cut, SimFile
from tests.storage.compaction_scene import (
    FAST,
    PAYLOAD,
    Answers,
    check,
    collector_of,
    entries_bytes,
    entry_logs,
    fill,
    listed,
)
from tests.storage.scene import KEY, Scene, drive, run_of
from tests.support.virtual import virtually

MIB = 1024 * 1024


def use(number: int, size: int, live: int, rows: int = 0, ledgers: int = 1000) -> FileUse:
    return FileUse(number, size, live, rows, ledgers)


@pytest.mark.parametrize(
    ("uses", "plan"),
    [
        ([], None),
        ([use(1, 100, 100)], None),
        ([use(1, 100, 0), use(2, 100, 100), use(3, 9, 0)], CompactionPlan((1, 3), is_empty=True)),
        ([use(1, 100, 0, rows=1)], CompactionPlan((1,))),
        ([use(1, 100, 20), use(2, 100, 19), use(3, 100, 10)], CompactionPlan((3,))),
        ([use(n, 10, 10) for n in range(7)], None),
        ([use(n, 10, 10) for n in range(9)], CompactionPlan(tuple(range(9)))),
        ([use(n, 100, 100) for n in range(20)], CompactionPlan(tuple(range(10)))),
        (
            [use(n, 10, 10) for n in (5, 1, 9, 2, 8, 4, 7, 3)],
            CompactionPlan((5, 1, 9, 2, 8, 4, 7, 3)),
        ),
        ([use(n, 500 if n == 4 else 10, 500 if n == 4 else 10) for n in range(11)], None),
    ],
)
def test_what_is_compacted_next(uses: list[FileUse], plan: CompactionPlan | None) -> None:
    assert choose(uses, 0.2, 1000, 1 << 40) == plan


def test_the_largest_files_that_flushes_write_are_joined() -> None:
    options = StorageOptions()
    most = options.memory_bytes_max
    uses = [use(number, most, most) for number in range(8)]
    plan = choose(uses, options.minor_live_share, options.joined_bytes_max, 1 << 40)
    assert plan == CompactionPlan(tuple(range(8)))


@pytest.mark.parametrize(
    ("size", "ledgers", "are_joined"),
    [
        (128 * MIB, 1, False),
        (16 * MIB, 16, False),
        (16 * MIB, 17, True),
        (16 * MIB - 1, 1, True),
        (32 * MIB, 1000, True),
    ],
)
def test_files_of_large_ledgers_are_not_copied_to_join_them(
    size: int, ledgers: int, are_joined: bool
) -> None:
    options = StorageOptions()
    uses = [use(number, size, size, 1, ledgers) for number in range(8)]
    plan = choose(uses, options.minor_live_share, options.joined_bytes_max, 1 << 40)
    assert plan == (CompactionPlan(tuple(range(8))) if are_joined else None)


def test_files_of_large_ledgers_are_joined_when_there_are_very_many() -> None:
    def plan(count: int) -> CompactionPlan | None:
        uses = [use(number, 32 * MIB, 32 * MIB, 1, 1) for number in range(count)]
        return choose(uses, 0.2, StorageOptions().joined_bytes_max, 1 << 40)

    assert plan(WIDE_FILES_MAX) is None
    assert plan(WIDE_FILES_MAX + 1) == CompactionPlan(tuple(range(32)))


def test_a_nearly_full_disk_is_not_filled_by_compaction() -> None:
    uses = [use(1, 1000, 150), use(2, 100, 0)]
    assert choose(uses, 0.2, 1000, 100) == CompactionPlan((2,), is_empty=True)
    assert choose(uses[:1], 0.2, 1000, 100) is None
    fitting = [use(1, 1000, 101), use(3, 500, 90)]
    assert choose(fitting, 0.2, 1000, 100) == CompactionPlan((3,)), (
        "though the other one has less that lives"
    )


def test_parts_of_a_ledger_are_found_without_looking_at_all() -> None:
    spans = [(0, 9), (10, 19), (5, 7), (20, 29), (15, 40), (30, 35), (50, 59)]
    parts = [LedgerChunks(1, _CHUNK.pack(first, last, 0, 9, 1, 0)) for first, last in spans]
    found = LedgerParts(parts)
    assert found.last == 59
    for first in range(-1, 62):
        for last in range(first, 62):
            wanted = [part for part in parts if part.first <= last and part.last >= first]
            assert found.overlapping(first, last) == wanted


def test_space_of_deleted_ledgers_comes_back_and_the_rest_stays() -> None:
    async def main() -> None:
        scene = Scene(options=FAST)
        held = await fill(scene)
        before = entries_bytes(scene)
        answers = Answers(1, 3, 4)
        collector = collector_of(scene, answers)
        await collector.round(is_major=True)
        await check(scene, held)
        assert collector.counts.ledgers_dropped == 0, "once is not enough"
        await collector.round(is_major=True)
        assert collector.counts.ledgers_dropped == 3
        await check(scene, held, 1, 3, 4)
        assert entries_bytes(scene) < before / 2
        for _ in range(2):
            await scene.close()
            await scene.start()
            await check(scene, held, 1, 3, 4)
        await scene.close()

    drive(main())


def test_everything_deleted_leaves_no_entry_bytes() -> None:
    async def main() -> None:
        scene = Scene(options=FAST)
        await fill(scene)
        collector = collector_of(scene, Answers(*range(20)))
        for _ in range(2):
            await collector.round()
        assert entries_bytes(scene) == 0
        assert await scene.node.list_entries(1) == []
        await scene.close()

    drive(main())


def test_an_error_of_the_store_deletes_nothing_and_is_no_first_time() -> None:
    async def main() -> None:
        scene = Scene(options=FAST)
        held = await fill(scene)
        answers = Answers(1, 2, 3, 4)
        collector = collector_of(scene, answers)
        await collector.round()
        answers.error = StoreUnavailableError("memory:", "it is away")
        await collector.round()
        answers.error = None
        await collector.round()
        await check(scene, held)
        answers.gone = []
        await collector.round()
        answers.gone = [1]
        await collector.round()
        await check(scene, held)
        assert collector.counts.rounds_failed == 1
        await scene.close()

    drive(main())


def test_many_small_files_become_one_and_read_the_same() -> None:
    async def main() -> None:
        scene = Scene(options=FAST)
        held = await fill(scene, lives=12)
        files = len(scene.node._storage.checkpoint.files)
        assert files >= 12
        await collector_of(scene, Answers()).round()
        assert len(scene.node._storage.checkpoint.files) < files - 6
        await check(scene, held)
        await scene.close()
        await scene.start()
        await check(scene, held)
        await scene.close()

    drive(main())


def test_small_files_are_joined_between_rounds() -> None:
    async def main() -> None:
        scene = Scene(options=FAST)
        held = await fill(scene, lives=12)
        await scene.node._storage.retire([3])
        answers = Answers()
        collector = collector_of(scene, answers)
        collector.start()
        await asyncio.sleep(2 * FAST.space_check_seconds)
        assert len(scene.node._storage.checkpoint.files) < 8
        assert answers.asked == [[1, 2, 4]], "only of what is joined"
        await check(scene, held, 3)
        await scene.node.read_tail(11, fence_key=KEY)
        for life in range(8):
            await scene.node._engine.upkeep.flush()  # the first holds a fence and no entries
            await scene.node.add(5, KEY, run_of(5, life, payload=PAYLOAD))
        await scene.node._engine.upkeep.flush()
        await asyncio.sleep(FAST.collect_seconds)
        assert len(answers.asked) == 3, "the rounds come all the same: one soon after the start"
        await check(scene, held, 3)
        await collector.close()
        counts = collector._compactor.counts
        assert counts.files_written == 2
        assert counts.bytes_reclaimed > 0
        await scene.close()
        await scene.start()
        del held[3]
        await check(scene, held)
        with pytest.raises(LedgerFencedError):
            await scene.node.add(11, KEY, run_of(11, 0))
        await scene.close()

    virtually(main)


def test_files_of_deleted_ledgers_are_dropped_and_not_joined() -> None:
    async def main() -> None:
        scene = Scene(options=FAST)
        held = await fill(scene, lives=12)
        collector = collector_of(scene, Answers(1, 2, 3))
        collector.start()
        await asyncio.sleep(FAST.first_collect_seconds)
        counts = collector._compactor.counts
        assert (counts.files_written, collector.counts.ledgers_dropped) == (0, 0)
        await asyncio.sleep(FAST.collect_seconds + FAST.space_check_seconds)
        assert collector.counts.ledgers_dropped == 3
        assert counts.bytes_copied < 2 * len(held[4]) * len(PAYLOAD), (
            "only of the ledger that is left"
        )
        await check(scene, held, 1, 2, 3)
        await collector.close()
        await scene.close()

    virtually(main)


@pytest.mark.parametrize("away", [True, False])
def test_files_are_joined_while_it_is_not_known_what_is_deleted(away: bool) -> None:
    """And if only a small part is: one ledger of four."""

    async def main() -> None:
        scene = Scene(options=FAST)
        held = await fill(scene, lives=12)
        answers = Answers(3)
        answers.error = StoreUnavailableError("memory:", "it is away") if away else None
        collector = collector_of(scene, answers)
        collector.start()
        await asyncio.sleep(2 * FAST.space_check_seconds)
        assert collector._compactor.counts.files_written == 1
        await check(scene, held)
        await collector.close()
        await scene.close()

    virtually(main)


def test_reads_and_writes_go_on_while_files_are_replaced() -> None:
    async def main() -> None:
        scene = Scene(options=FAST)
        held = await fill(scene, lives=12)
        done = False

        async def read() -> None:
            while not done:
                for ledger in (1, 2, 3, 4):
                    assert await scene.entries(ledger, last=130) == held[ledger]

        async def write() -> None:
            for entry in range(1000, 1200):
                await scene.node.add(7, KEY, run_of(7, entry, payload=PAYLOAD))

        reading, writing = asyncio.ensure_future(read()), asyncio.ensure_future(write())
        await collector_of(scene, Answers()).round()
        await writing
        done = True
        await reading
        assert list(await scene.entries(7)) == list(range(1000, 1200))
        await scene.close()
        await scene.start()
        await check(scene, held)
        assert list(await scene.entries(7)) == list(range(1000, 1200))
        await scene.close()

    drive(main())


def test_damage_is_never_compacted_away() -> None:
    async def main() -> None:
        scene = Scene(options=FAST)
        held = await fill(scene)
        path = min(path for path in scene.disk.files() if path.endswith(".entries"))
        scene.disk.rot(path, 54 + 400)
        collector = collector_of(scene, Answers(3, 4))
        for _ in range(3):
            await collector.round(is_major=True)
        assert path in scene.disk.files()
        assert collector._compactor.counts.files_damaged == 1
        assert await scene.entries(2) == held[2]
        await scene.close()

    drive(main())


@pytest.mark.parametrize("cut", [Cut.LOSES, Cut.MIXES])
def test_a_crash_at_any_point_of_compaction_loses_nothing(cut: Cut) -> None:
    async def main() -> None:
        is_halted, change = True, 0
        while is_halted:
            change += 1
            scene = Scene(seed=change, options=FAST)
            held = await fill(scene)
            collector = collector_of(scene, Answers(3, 4))
            scene.disk.halt_at(change)
            working = asyncio.ensure_future(twice(collector))
            halted = asyncio.ensure_future(scene.disk.halted.wait())
            await asyncio.wait((working, halted), return_when=asyncio.FIRST_COMPLETED)
            is_halted = halted.done()
            for task in (working, halted):
                task.cancel()
            await asyncio.gather(working, halted, return_exceptions=True)
            scene.disk.power_cut(cut)
            await scene.node.abort()
            await scene.start()
            await check(scene, {ledger: held[ledger] for ledger in (1, 2)})
            await scene.close()
        assert change > 8

    async def twice(collector: Collector) -> None:
        for _ in range(2):
            await collector.round(is_major=True)

    drive(main())


def test_a_disk_that_fills_between_two_checkpoints_costs_nothing() -> None:
    async def main() -> None:
        scene = Scene(options=FAST)
        held = await fill(scene, lives=12)
        storage = scene.node._storage
        opened = scene.mount.open
        states: list[str] = []

        async def open_full(path: str, *, create: bool = False) -> SimFile:
            if create and path.endswith(".new"):
                states.append(path)
                if len(states) == 2:
                    raise OSError(errno.ENOSPC, "no space left", path)
            return await opened(path, create=create)

        scene.mount.open = open_full  # type: ignore[method-assign]
        await collector_of(scene, Answers()).round()
        assert len(states) == 2
        present = set(scene.disk.files())
        assert {entries_path(number) for number in storage.checkpoint.files} <= present
        assert entry_logs(scene) > listed(scene), "the older checkpoint lists what was replaced"
        await check(scene, held)
        await scene.node.add(7, KEY, run_of(7, 0))
        await scene.node._engine.upkeep.flush()
        assert entry_logs(scene) == listed(scene)
        await check(scene, held)
        await scene.cut()
        await scene.start()
        await check(scene, held)
        assert await scene.node.list_entries(7) == [(0, 0)]
        await scene.close()

    drive(main())


def test_a_copy_that_meets_damage_leaves_nothing_behind() -> None:
    async def main() -> None:
        scene = Scene(options=FAST)
        held = await fill(scene)
        scene.disk.rot(min(entry_logs(scene)), 54 + 400)
        collector = collector_of(scene, Answers(3, 4))
        for _ in range(2):
            await collector.round(is_major=True)
        assert collector._compactor.counts.files_damaged == 1
        assert entry_logs(scene) == listed(scene)
        assert await scene.entries(2) == held[2]
        await scene.close()

    drive(main())


def test_files_beside_a_damaged_one_are_joined_all_the_same() -> None:
    async def main() -> None:
        scene = Scene(options=FAST)
        await fill(scene, lives=12)
        damaged = min(entry_logs(scene))
        scene.disk.rot(damaged, 54 + 400)
        collector = collector_of(scene, Answers())
        await collector.round()
        assert collector._compactor.counts.files_damaged == 1
        assert damaged in entry_logs(scene)
        assert len(listed(scene)) <= 4
        await scene.close()

    drive(main())


def test_a_damaged_file_goes_with_the_last_ledger_in_it() -> None:
    async def main() -> None:
        scene = Scene(options=FAST)
        held = await fill(scene)
        damaged = min(entry_logs(scene))
        scene.disk.rot(damaged, 54 + 400)
        answers = Answers(3, 4)
        collector = collector_of(scene, answers)
        for _ in range(2):
            await collector.round(is_major=True)
        assert damaged in entry_logs(scene)
        answers.gone = [1, 2, 3, 4]
        for _ in range(2):
            await collector.round(is_major=True)
        assert damaged not in entry_logs(scene)
        assert entries_bytes(scene) < sum(map(len, held[1].values())) / 2
        await scene.close()

    drive(main())


def test_a_file_that_is_removed_while_it_is_opened_is_not_held_open() -> None:
    async def main() -> None:
        scene = Scene(options=FAST)
        await fill(scene)
        storage = scene.node._storage
        chunk = storage.chunks(1)[0]
        await storage._files.close()  # others are open by now
        reading = asyncio.ensure_future(storage.reads.verify(1, chunk))
        await asyncio.sleep(0)
        await storage._files.drop(chunk.file)
        assert await reading is None
        assert chunk.file not in storage._files._files
        await scene.kill()

    drive(main())
