"""A start trusts no name that a failed sync of a directory may have lost.

The process dies of the failed sync. The page cache shows the next process every name, and the power
cut after that shows which of them the disk has.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from quire.storage.disk.renewal import RENEWED_SUFFIX
from quire.storage.entries.reserve import RESERVE
from quire.storage.journal.segments import SPARE_SUFFIX
from tests.sim.disk import Cut
from tests.storage.scene import SMALL, Scene, drive, eventually

OPTIONS = replace(SMALL, segment_bytes=32 * 1024, space_check_seconds=0.01)
RESERVES = {RESERVE, f"entries/{RESERVE}"}


def promised(scene: Scene) -> set[str]:
    """Return the files that a start on a full disk needs, as the process sees them."""
    files = scene.disk.files()
    return {path for path in files if path in RESERVES or path.endswith(SPARE_SUFFIX)}


async def without_reserve(seed: int) -> Scene:
    """Return a bookie that has served, and has neither reserve nor spares."""
    scene = Scene(seed=seed, options=OPTIONS)
    await scene.start()
    await scene.close()
    mount = scene.disk.mount()
    for path in promised(scene):
        await mount.unlink(path)
    for directory in ("", "entries", "journal"):
        await mount.sync_directory(directory)
    await mount.close()
    assert not promised(scene)
    return scene


async def fails_in(scene: Scene, syncs: int) -> bool:
    """Start a bookie that dies of a failed sync; tell whether it met it."""
    scene.disk.fail_sync("", syncs)
    try:
        await scene.start()
        await eventually(lambda: bool(scene.fatal) or scene.node._engine._segments.is_ready)
    except OSError:
        scene.disk.kill()
        return True
    if scene.fatal:
        await scene.kill()
        return True
    return False


@pytest.mark.parametrize("cut", [Cut.LOSES, Cut.MIXES])
def test_what_a_served_bookie_keeps_for_its_next_start_is_on_the_disk(cut: Cut) -> None:
    async def main() -> None:
        syncs = 0
        while True:
            scene = await without_reserve(syncs + 1)
            if not await fails_in(scene, syncs):
                scene.disk.faults.sync_error = None
                await scene.close()
                break
            syncs += 1
            scene.disk.faults.sync_error = None
            scene.fatal.clear()
            node = await scene.start()
            await eventually(lambda: node.is_writable and node._engine._segments.is_ready)  # noqa: B023
            before = promised(scene)
            assert before >= RESERVES
            await scene.cut(cut)
            assert promised(scene) == before, syncs
            await scene.start()
            await scene.close()
        assert syncs > 8

    drive(main())


def test_the_power_may_fail_while_names_are_renewed() -> None:
    async def main() -> None:
        scene = Scene(options=OPTIONS)
        await scene.start()
        await eventually(lambda: scene.node._engine._segments.is_ready)
        await scene.close()
        change = 0
        while True:
            change += 1
            is_done = await scene.cut_short(change, scene.start())
            if is_done:
                break
            files = scene.disk.files()
            renewed = {path.removesuffix(RENEWED_SUFFIX) for path in files}
            assert renewed >= RESERVES, change
        await scene.node.abort()
        await scene.start()
        await scene.close()
        assert change > 8

    drive(main())
