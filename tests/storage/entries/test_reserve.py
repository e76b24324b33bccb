"""A bookie starts on a disk that is completely full, as often as it has to, and serves reads and
fences there.

The disk is finite and gives room back for what is removed, as a real one does. It is filled by the
entries of recoveries, which the low mark does not stop. Whatever was answered must be there after
each start, and the power fails at every change of a start.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable
from dataclasses import replace
from functools import partial

import pytest

from quire.errors import BookieBusyError, LedgerFencedError, ReadOnlyBookieError
from quire.run import split_run
from quire.storage.entries.reserve import RESERVE
from tests.sim.disk import Cut
from tests.storage.scene import KEY, Scene, eventually, run_of
from tests.storage.test_crash_points import TINY, Promises, crash_in_the_restart
from tests.support.virtual import virtually

OPTIONS = replace(TINY, segment_bytes=32 * 1024, space_check_seconds=0.01, low_space_bytes=1 << 20)
RESERVES = {RESERVE, f"entries/{RESERVE}"}
FENCES = range(100, 103)
LATE_FENCES = range(200, 1000)


def fill_up(scene: Scene, left: int = 0) -> None:
    """Let the disk have so little room left."""
    scene.disk.capacity_bytes = scene.disk.used_bytes + left


def make_room(scene: Scene) -> None:
    scene.disk.capacity_bytes = 1 << 30


async def is_ready(scene: Scene) -> None:
    await eventually(lambda: scene.node._engine._segments.is_ready)


async def store(scene: Scene, promises: Promises, entries: int) -> None:
    """Let a recovery write entries until one is not stored in time."""
    for entry in range(len(promises.stored), len(promises.stored) + entries):
        run = run_of(1, entry, payload=bytes(700), lac=-1)
        ((_, frame),) = split_run(run)
        promises.sent[1, entry] = [frame]
        if not await is_stored(scene.node.add(1, KEY, run, recovery=True)):
            return
        promises.stored[1, entry] = 0


async def is_stored(adding: Awaitable[None]) -> bool:
    try:
        async with asyncio.timeout(0.03):
            await adding
    except (TimeoutError, ReadOnlyBookieError, BookieBusyError):
        return False
    return True


async def fence(scene: Scene, promises: Promises, *ledgers: int) -> None:
    tails = (scene.node.read_tail(ledger, fence_key=KEY) for ledger in ledgers)
    assert all(tail.fenced for tail in await asyncio.gather(*tails))
    promises.fenced.update(ledgers)


async def check(scene: Scene, promises: Promises) -> None:
    """Everything that was answered is there; what is there was sent."""
    held = await scene.entries(1)
    for _, entry in promises.stored:
        assert held.get(entry) == promises.sent[1, entry][0], entry
    assert all(frame in promises.sent[1, entry] for entry, frame in held.items())
    for ledger in sorted(promises.fenced):
        assert (await scene.node.read_tail(ledger)).fenced
        with pytest.raises((LedgerFencedError, ReadOnlyBookieError)):
            await scene.node.add(ledger, KEY, run_of(ledger, 99))
    assert scene.fatal == []


async def filled(seed: int, left: int | None = None) -> tuple[Scene, Promises]:
    """Return a bookie whose disk is full, with entries and fences that are in its journal only."""
    scene, promises = Scene(seed=seed, options=OPTIONS), Promises()
    rng = random.Random(seed)
    await scene.start()
    await is_ready(scene)
    await store(scene, promises, rng.randrange(30))
    drawn = rng.choice([0, rng.randrange(200), rng.randrange(60_000)])
    fill_up(scene, drawn if left is None else left)
    await store(scene, promises, 200)
    await fence(scene, promises, *FENCES)
    return scene, promises


async def end(scene: Scene, seed: int) -> None:
    if seed % 3 == 0:
        await scene.kill()
    else:
        await scene.cut(Cut.MIXES if seed % 3 == 1 else Cut.LOSES)


@pytest.mark.parametrize("seed", range(12))
def test_a_bookie_starts_on_a_full_disk_again_and_again(seed: int) -> None:
    async def main() -> None:
        scene, promises = await filled(seed)
        late = iter(LATE_FENCES)
        for start in range(6):
            await end(scene, seed + start)
            await scene.start()
            await check(scene, promises)
            await store(scene, promises, 5)
            await fence(scene, promises, next(late), next(late))
        make_room(scene)
        await eventually(lambda: scene.node.is_writable)
        assert set(scene.disk.files()) >= RESERVES
        await scene.node.add(2, KEY, run_of(2, 0))
        await scene.close()
        await scene.start()
        await check(scene, promises)
        await scene.close()

    virtually(main)


@pytest.mark.parametrize("cut", list(Cut))
@pytest.mark.parametrize("seed", range(2))
def test_the_power_may_fail_at_any_change_of_a_start_on_a_full_disk(cut: Cut, seed: int) -> None:
    async def main() -> None:
        change, changes = 0, 1
        while change < changes:
            change += 1
            scene, promises = await filled(seed)
            await scene.cut(cut)
            before = scene.disk.changes
            await crash_in_the_restart(scene, change, cut)
            if change == 1:
                changes = await count_changes(scene)
                assert changes > 8
            await scene.start()
            await check(scene, promises)
            await fence(scene, promises, 99)
            assert scene.disk.changes > before
            await scene.cut(cut)
            await scene.start()
            await check(scene, promises)
            await scene.close()

    virtually(main)


async def count_changes(scene: Scene) -> int:
    """Return how many changes of the disk a start makes."""
    before = scene.disk.changes
    await scene.start()
    await scene.cut(Cut.KEEPS)
    return scene.disk.changes - before


@pytest.mark.parametrize("cut", list(Cut))
@pytest.mark.parametrize("seed", range(2))
def test_the_power_may_fail_while_the_reserve_is_made_again(cut: Cut, seed: int) -> None:
    async def main() -> None:
        change = 0
        while True:
            change += 1
            scene, promises = await filled(seed, left=0)
            await scene.cut(cut)
            fill_up(scene, -OPTIONS.segment_bytes)  # other files take what the start frees
            await scene.start()
            assert not scene.node._engine._reserve.is_whole
            before = scene.disk.capacity_bytes
            scene.disk.halt_at(change)
            make_room(scene)
            await eventually(partial(_halts_or_writes, scene))
            if not scene.disk.halted.is_set():
                break
            scene.disk.power_cut(cut)
            await scene.node.abort()
            fill_up(scene)
            scene.disk.capacity_bytes = max(before, scene.disk.capacity_bytes)
            await scene.start()
            await check(scene, promises)
            await scene.close()
        await scene.close()
        assert change > 4

    virtually(main)


def _halts_or_writes(scene: Scene) -> bool:
    return scene.disk.halted.is_set() or scene.node.is_writable


def test_fences_go_ahead_of_recoveries_that_wait_and_of_nothing_else() -> None:
    async def main() -> None:
        scene, promises = await filled(seed=3)
        runs = [run_of(50, entry, payload=bytes(700)) for entry in range(3)]
        waiting = [
            asyncio.ensure_future(scene.node.add(50, KEY, run, recovery=True)) for run in runs
        ]
        await asyncio.sleep(0)
        await fence(scene, promises, 50, 51)
        assert not any(task.done() for task in waiting)
        make_room(scene)
        await asyncio.gather(*waiting)
        assert list(await scene.entries(50)) == [0, 1, 2]
        await check(scene, promises)
        await scene.close()

    virtually(main)


def test_a_reserve_that_was_not_finished_or_has_another_size_is_made_anew() -> None:
    async def main() -> None:
        scene = Scene(options=OPTIONS)
        await scene.start()
        await scene.close()
        sizes = {path: scene.disk.inode(path).size for path in RESERVES}
        scene.disk.resize(RESERVE, 7)
        mount = scene.disk.mount()
        half = await mount.open(f"entries/{RESERVE}.new", create=True)
        await half.write(0, [b"half"])
        await mount.close()
        await scene.start()
        await is_ready(scene)
        files = scene.disk.files()
        assert {path: len(files[path]) for path in RESERVES} == sizes
        assert not any(path.endswith(".new") for path in files)
        await scene.close()

    virtually(main)


def test_a_bookie_of_before_gets_its_reserve_when_it_starts() -> None:
    async def main() -> None:
        scene = Scene(options=OPTIONS)
        await scene.start()
        await scene.close()
        mount = scene.disk.mount()
        for path in RESERVES:
            await mount.unlink(path)
        for name in await mount.list("journal"):
            if name.endswith(".spare"):
                await mount.unlink(f"journal/{name}")
        await mount.close()
        await scene.start()
        await is_ready(scene)
        assert set(scene.disk.files()) >= RESERVES
        await scene.close()

    virtually(main)
