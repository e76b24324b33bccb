"""A disk without a free byte is collected: the ids of dropped ledgers are durable first, in the
space of the reserve, and the reserve is made again from the space that this gives back.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import pytest

from quire.errors import LedgerFencedError, NoSuchLedgerError, ReadOnlyBookieError
from quire.storage.entries.reserve import RESERVE
from tests.sim.disk import Cut
from tests.storage.compaction_scene import FAST, Answers, collector_of, entry_logs, fill
from tests.storage.scene import KEY, Scene, drive, eventually, run_of

OPTIONS = replace(FAST, space_check_seconds=0.01)
ALL = (1, 2, 3, 4, 9)


def fill_up(scene: Scene) -> None:
    """Let the disk have no byte left."""
    scene.disk.capacity_bytes = scene.disk.used_bytes


async def full(seed: int = 1) -> tuple[Scene, dict[int, dict[int, bytes]]]:
    """Return a bookie with flushed ledgers on a disk that is full."""
    scene = Scene(seed=seed, options=OPTIONS)
    held = await fill(scene)
    await eventually(lambda: scene.node._engine._segments.is_ready)
    fill_up(scene)
    return scene, held


async def check_gone(scene: Scene, *ledgers: int) -> None:
    """Ledgers were dropped, and their fences were not."""
    for ledger in ledgers:
        with pytest.raises(NoSuchLedgerError):
            await scene.node.read(ledger, 0, 0)
        with pytest.raises((LedgerFencedError, ReadOnlyBookieError)):
            await scene.node.add(ledger, KEY, run_of(ledger, 99))
        assert ledger in scene.node._storage.retired


def test_a_full_disk_with_nothing_but_deleted_ledgers_frees_itself() -> None:
    async def main() -> None:
        scene, _ = await full()
        assert scene.disk.free_bytes == 0
        before = scene.disk.used_bytes
        collector = collector_of(scene, Answers(*ALL))
        for _ in range(3):
            await collector.round(is_major=True)
        await check_gone(scene, *ALL)
        assert entry_logs(scene) == set()
        assert scene.disk.used_bytes < before
        assert RESERVE in scene.disk.files(), "the reserve is made again"
        assert scene.fatal == []
        await scene.cut(Cut.LOSES)
        await scene.start()
        await check_gone(scene, *ALL)
        await scene.close()

    drive(main())


def test_fences_that_stay_do_not_keep_a_full_disk_from_freeing_itself() -> None:
    async def main() -> None:
        scene, _ = await full()
        collector = collector_of(scene, Answers(1, 2, 3, 4))
        for _ in range(3):
            await collector.round(is_major=True)
        await check_gone(scene, 1, 2, 3, 4)
        assert scene.disk.free_bytes > 0
        assert RESERVE in scene.disk.files()
        assert (await scene.node.read_tail(9)).fenced
        await scene.cut(Cut.LOSES)
        await scene.start()
        assert (await scene.node.read_tail(9)).fenced
        await scene.close()

    drive(main())


def test_the_reserve_is_not_borrowed_where_that_frees_less_than_it_takes() -> None:
    """Ledger 2 has a quarter of each file, and its copies would need more space than there is."""

    async def main() -> None:
        scene, held = await full()
        scene.disk.faults.is_full = True  # others take what the bookie's own looks give back
        collector = collector_of(scene, Answers(1, 3, 4))
        for _ in range(3):
            await collector.round(is_major=True)
        assert collector.counts.rounds_without_space == 2
        assert {ledger: await scene.entries(ledger) for ledger in held} == held
        assert RESERVE in scene.disk.files()
        scene.disk.faults.is_full = False
        scene.disk.capacity_bytes = 1 << 30
        await collector.round(is_major=True)
        await check_gone(scene, 1, 3, 4)
        assert await scene.entries(2) == held[2]
        await scene.close()

    drive(main())


@pytest.mark.parametrize("cut", list(Cut))
def test_the_power_may_fail_at_any_change_of_a_collection_of_a_full_disk(cut: Cut) -> None:
    """Each ledger is whole, or its id is retired."""

    async def main() -> None:
        change, is_done = 0, False
        while not is_done:
            change += 1
            scene, held = await full(seed=change)
            collector = collector_of(scene, Answers(1, 2, 3, 4))
            await collector.round()
            is_done = await scene.cut_short(change, collector.round(is_major=True), cut)
            await scene.node.abort()
            await scene.start()
            for ledger, entries in held.items():
                if ledger in scene.node._storage.retired:
                    await check_gone(scene, ledger)
                else:
                    assert await scene.entries(ledger) == entries, (change, ledger)
            for ledger in (2, 9):
                with pytest.raises((LedgerFencedError, ReadOnlyBookieError)):
                    await scene.node.add(ledger, KEY, run_of(ledger, 99))
            collector = collector_of(scene, Answers(1, 2, 3, 4))
            for _ in range(3):
                await collector.round(is_major=True)
            await check_gone(scene, 1, 2, 3, 4)
            await scene.close()
        assert change > 8

    drive(main())


def test_without_any_space_for_ids_nothing_is_dropped_and_it_resumes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        scene, held = await full()
        # Others take the space of the reserve, and all that the bookie gives back: its own looks at
        # the disk would find some at a moment that no test can choose.
        scene.disk.faults.is_full = True
        scene.node._engine._reserve._held.discard(RESERVE)
        await scene.mount.unlink(RESERVE)
        assert not scene.node.is_writable
        collector = collector_of(scene, Answers(1, 2, 3, 4))
        with caplog.at_level(logging.WARNING):
            for _ in range(3):
                await collector.round(is_major=True)
        assert collector.counts.rounds_without_space == 2
        assert "drops none: free" in caplog.text
        assert "reserve" in caplog.text
        assert {ledger: await scene.entries(ledger) for ledger in held} == held
        assert scene.fatal == []
        scene.disk.faults.is_full = False
        scene.disk.capacity_bytes = 1 << 30
        await collector.round(is_major=True)
        await check_gone(scene, 1, 2, 3, 4)
        await eventually(lambda: scene.node.is_writable)
        await scene.close()

    drive(main())


def test_no_entry_is_taken_until_the_reserve_is_there_again() -> None:
    async def main() -> None:
        scene, _ = await full()
        reserve = scene.node._engine._reserve
        upkeep = scene.node._engine.upkeep
        scene.disk.capacity_bytes += 1 << 30
        await eventually(lambda: scene.node.is_writable)
        await reserve.give_up()
        assert upkeep.has_room
        with pytest.raises(ReadOnlyBookieError):
            await scene.node.add(50, KEY, run_of(50, 0))
        await asyncio.gather(reserve.restore(), reserve.restore())
        await scene.node.add(50, KEY, run_of(50, 0))
        await scene.close()

    drive(main())
