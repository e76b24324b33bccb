"""Every crash point of a short workload: the power fails in each change the bookie makes to its
disk.

The workload crosses everything that has an order on disk: the first start, group commits, fences of
known and unknown ledgers, a flush, a checkpoint, recycled segments, replacement by recovery, a
clean stop and a second start. After each cut, and after a second cut in the middle of the restart,
nothing acknowledged is gone, no fence is forgotten, no key changed, and nothing is there that was
never sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest

from quire.entry import EntryId, LedgerId
from quire.errors import (
    BookieUnavailableError,
    LedgerFencedError,
    UnauthorizedError,
)
from quire.run import split_run
from quire.storage.journal.options import StorageOptions
from tests.sim.disk import Cut, SimDisk
from tests.storage.scene import KEY, Scene, drive, run_of
from tests.support.seeds import TURNS, in_turns

TINY = StorageOptions(
    segment_bytes=16 * 1024,
    batch_bytes_max=4 * 1024,
    write_cache_bytes=6 * 1024,
    memory_bytes_max=32 * 1024,
    journal_segments_max=3,
    spare_segments_max=2,
    low_space_bytes=0,
)


@dataclass
class Promises:
    """What the bookie was asked for, and what it acknowledged."""

    sent: dict[tuple[LedgerId, EntryId], list[bytes]] = field(default_factory=dict)
    stored: dict[tuple[LedgerId, EntryId], int] = field(default_factory=dict)
    """Which of the frames sent for an entry was acknowledged last; that or a later one must be
    there.
    """
    fenced: set[LedgerId] = field(default_factory=set)


async def add(
    scene: Scene, promises: Promises, ledger: LedgerId, *ids: EntryId, recovery: bool = False
) -> None:
    run = run_of(ledger, *ids, payload=b"%d" % len(promises.sent) * 150, lac=-1)
    for entry, frame in split_run(run):
        promises.sent.setdefault((ledger, entry), []).append(frame)
    await scene.node.add(ledger, KEY, run, recovery=recovery)
    for entry in ids:
        promises.stored[ledger, entry] = len(promises.sent[ledger, entry]) - 1


async def fence(scene: Scene, promises: Promises, ledger: LedgerId) -> None:
    await scene.node.read(ledger, 0, 0, fence_key=KEY)
    promises.fenced.add(ledger)


async def workload(scene: Scene, promises: Promises) -> None:
    await scene.start()
    await asyncio.gather(
        add(scene, promises, 1, 0, 1, 2), add(scene, promises, 2, 0), add(scene, promises, 1, 3)
    )
    await scene.node.read_tail(3, fence_key=KEY)
    promises.fenced.add(3)
    for entry in range(4, 20, 2):
        await add(scene, promises, 1, entry, entry + 1)
    await asyncio.gather(*(add(scene, promises, 4, entry) for entry in range(6)))
    await fence(scene, promises, 1)
    await add(scene, promises, 1, 18, 19, recovery=True)
    await scene.close()
    await scene.start()
    await add(scene, promises, 1, 19, 20, recovery=True)
    await add(scene, promises, 2, 1)
    await fence(scene, promises, 2)
    for entry in range(6, 40):
        await add(scene, promises, 4, entry)


async def until_halted(scene: Scene, promises: Promises) -> bool:
    """Run the workload until the disk halts; tell whether it did."""
    running = asyncio.ensure_future(workload(scene, promises))
    halted = asyncio.ensure_future(scene.disk.halted.wait())
    try:
        await asyncio.wait((running, halted), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
        return halted.done()
    finally:
        for task in (running, halted):
            task.cancel()
        await asyncio.gather(running, halted, return_exceptions=True)
        if hasattr(scene, "node"):
            await scene.node.abort()


async def crash_in_the_restart(scene: Scene, changes: int, cut: Cut) -> None:
    """Start again, and cut the power in the middle of that."""
    scene.disk.halt_at(changes)
    starting = asyncio.ensure_future(scene.start())
    halted = asyncio.ensure_future(scene.disk.halted.wait())
    await asyncio.wait((starting, halted), return_when=asyncio.FIRST_COMPLETED)
    if starting.done():
        await starting.result().abort()
    for task in (starting, halted):
        task.cancel()
    await asyncio.gather(starting, halted, return_exceptions=True)
    scene.disk.power_cut(cut)


async def check(scene: Scene, promises: Promises) -> None:
    node = await scene.start()
    held = {ledger: await scene.entries(ledger) for ledger in (1, 2, 3, 4)}
    for (ledger, entry), index in promises.stored.items():
        assert held[ledger].get(entry) in promises.sent[ledger, entry][index:], (ledger, entry)
    for ledger, frames in held.items():
        for entry, frame in frames.items():
            assert frame in promises.sent[ledger, entry]
    for ledger in sorted(promises.fenced):
        assert (await node.read_tail(ledger)).fenced
        with pytest.raises(LedgerFencedError):
            await node.add(ledger, KEY, run_of(ledger, 99))
    for ledger in sorted({ledger for ledger, _ in promises.stored} | promises.fenced):
        with pytest.raises(UnauthorizedError):
            await node.add(ledger, b"other", run_of(ledger, 99))
    await node.add(9, KEY, run_of(9, 0))
    assert scene.fatal == []
    await scene.close()


@in_turns
@pytest.mark.parametrize(
    ("cut", "seed"), [(Cut.LOSES, 1), (Cut.KEEPS, 1), (Cut.MIXES, 1), (Cut.MIXES, 2)]
)
def test_nothing_acknowledged_is_lost_at_any_crash_point(cut: Cut, seed: int, turn: int) -> None:
    async def main() -> None:
        change, starts = turn - TURNS, set()
        is_halted = True
        while is_halted:
            change += TURNS
            scene, promises = Scene(seed=1000 * seed + change, options=TINY), Promises()
            scene.disk.halt_at(change)
            try:
                is_halted = await until_halted(scene, promises)
                starts.add(scene.starts)
                scene.disk.power_cut(cut)
                await crash_in_the_restart(scene, scene.rng.randrange(1, 40), cut)
                await check(scene, promises)
            except BaseException as error:
                error.add_note(f"crash in change {change}, {cut}, seed {seed}")
                raise
        assert starts == {1, 2}, "both lives of the workload must be cut"
        assert change > 120

    drive(main())


def test_a_crash_with_the_page_cache_kept_loses_nothing_either() -> None:
    async def main() -> None:
        for change in range(1, 150, 3):
            scene, promises = Scene(seed=change, options=TINY), Promises()
            scene.disk.halt_at(change)
            await until_halted(scene, promises)
            scene.disk.kill()
            await check(scene, promises)

    drive(main())


class Ends(list[BaseException]):
    """What ends the process, which does nothing after it."""

    def __init__(self, disk: SimDisk) -> None:
        super().__init__()
        self._disk = disk
        self.happened = asyncio.Event()

    def append(self, error: BaseException) -> None:
        super().append(error)
        self._disk.kill()
        self.happened.set()


async def until_it_ends(work: Coroutine[Any, Any, None], ends: Ends) -> None:
    working = asyncio.ensure_future(work)
    ending = asyncio.ensure_future(ends.happened.wait())
    await asyncio.wait((working, ending), return_when=asyncio.FIRST_COMPLETED)
    for task in (working, ending):
        task.cancel()
    for result in await asyncio.gather(working, ending, return_exceptions=True):
        if not isinstance(result, OSError | BookieUnavailableError | asyncio.CancelledError):
            assert not isinstance(result, BaseException), result


def test_a_failed_sync_anywhere_fails_the_process_and_loses_nothing() -> None:
    async def main() -> None:
        for path in ("journal", "entries", "checkpoint", ""):
            for skipped in range(12):
                scene, promises = Scene(seed=skipped, options=TINY), Promises()
                scene.fatal = ends = Ends(scene.disk)
                scene.disk.fail_sync(path, skipped)
                await until_it_ends(workload(scene, promises), ends)
                if hasattr(scene, "node"):
                    await scene.node.abort()
                scene.fatal.clear()
                scene.disk.faults.sync_error = None
                scene.disk.power_cut()
                await check(scene, promises)

    drive(main())
