"""A bookie that served has its cookie on the disk, whatever failed when the cookie was written.

The process that writes a cookie dies of a failed sync of the directory. The page cache shows the
name to the next process, which serves; the power cut after that shows whether the disk has it.
"""

from __future__ import annotations

import pytest

from tests.sim.disk import Cut
from tests.storage.scene import KEY, Scene, drive, run_of
from tests.storage.spread_scene import SpreadScene


async def serve_once(scene: Scene, ledger: int) -> None:
    node = await scene.start()
    await node.add(ledger, KEY, run_of(ledger, 0))


async def dies_in_the_start(scene: Scene, syncs: int) -> bool:
    """Start a bookie that may die of a failed sync; tell whether it did."""
    scene.disk.fail_sync("", syncs)
    try:
        await scene.start()
    except OSError:
        scene.disk.kill()
        return True
    finally:
        scene.disk.faults.sync_error = None
    await scene.kill()
    return False


@pytest.mark.parametrize("kind", [Scene, SpreadScene])
@pytest.mark.parametrize("before", [0, 1])
def test_a_bookie_that_served_keeps_its_cookies(kind: type[Scene], before: int) -> None:
    """Its first start formats it; the second adds a part to a bookie that has parts."""

    async def main() -> None:
        syncs = served = 0
        while True:
            scene = kind(seed=syncs)
            for ledger in range(before):
                await serve_once(scene, ledger)
                await scene.kill()
            if not await dies_in_the_start(scene, syncs):
                break
            syncs += 1
            await serve_once(scene, 1)
            await scene.cut(Cut.LOSES)
            await scene.start()  # refuses a directory without its cookie
            assert list(await scene.entries(1)) == [0], syncs
            await scene.close()
            served += 1
        assert served > 3

    drive(main())
