"""What a start on a full disk has to write: a segment, and an entry log of all that the last
process took.

Elsewhere entries are small and each has a block of the journal for itself (test_reserve.py), so
entry logs are much smaller than segments. Here a segment is full of entries, as under load, and its
entry log takes most of the reserve. On the smallest disk that a bookie starts on there is space
for nothing else.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.sim.disk import Cut
from tests.storage.entries.test_reserve import OPTIONS, fence
from tests.storage.scene import KEY, Scene, drive, eventually, run_of
from tests.storage.test_crash_points import Promises

DENSE = replace(
    OPTIONS,
    segment_bytes=128 * 1024,
    batch_bytes_max=128 * 1024,
    write_cache_bytes=1 << 20,
    memory_bytes_max=1 << 21,
)
PAYLOAD = bytes(1000)
ENTRIES = (DENSE.segment_bytes - DENSE.last_bytes) * 9 // 10 // 1050
"""So many fit into a segment before the next one is there, with some space left."""


async def smallest() -> Scene:
    """Return a bookie on a disk that has space for its first start and for nothing else."""
    trial = Scene(options=DENSE)
    await trial.start()
    used = trial.disk.used_bytes
    await trial.kill()
    scene = Scene(options=DENSE)
    scene.disk.capacity_bytes = used
    return scene


async def start_and_offer(scene: Scene, ledger: int, promises: Promises) -> bool:
    """Start, and let a recovery offer a run before the bookie knows whether the disk has space for
    a next segment. Return whether the run is stored when the bookie knows.
    """
    await scene.start()
    scene.disk.faults.is_hung = True  # the answer about the space, and all that is written
    engine = scene.node._engine
    run = run_of(ledger, *range(ENTRIES), payload=PAYLOAD, lac=-1)
    adding = asyncio.ensure_future(scene.node.add(ledger, KEY, run, recovery=True))
    await eventually(lambda: engine._journal._busy_since is not None or engine._segments.is_starved)
    scene.disk.release()
    await eventually(lambda: engine._segments.is_starved)
    await fence(scene, promises, 1000 + ledger)
    is_stored = adding.done()
    adding.cancel()
    await asyncio.gather(adding, return_exceptions=True)
    return is_stored


@pytest.mark.parametrize("cut", list(Cut))
def test_a_start_on_the_smallest_disk_has_space_for_what_was_taken(cut: Cut) -> None:
    """The first start ends with all of its space; after that the reserve is gone."""

    async def main() -> None:
        scene, promises, stored = await smallest(), Promises(), []
        for ledger in range(4):
            if await start_and_offer(scene, ledger, promises):
                stored.append(ledger)
            await scene.cut(cut)
        await scene.start()
        for ledger in stored:
            assert len(await scene.entries(ledger)) == ENTRIES
        for ledger in sorted(promises.fenced):
            assert (await scene.node.read_tail(ledger)).fenced
        assert stored == [0], "only the space of a whole reserve may be used up"
        assert scene.fatal == []
        await scene.kill()

    drive(main())
