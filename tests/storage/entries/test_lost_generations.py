"""A start trusts no generation of a state file that a failed sync of the directory may have lost.

The process dies of the failed sync. The next one finds the file, builds on it, and then the power
fails.
"""

from __future__ import annotations

import pytest

from quire.errors import LedgerFencedError
from quire.storage.entries.checkpoint import read_checkpoint
from quire.storage.entries.retired_file import read_retired
from tests.sim.disk import Cut
from tests.storage.scene import BOOKIE, KEY, SMALL, Scene, drive, run_of
from tests.support.seeds import seeds


async def retiring_fails(scene: Scene, syncs: int) -> bool:
    """Retire a ledger with a sync of the directory that fails; tell whether it met it."""
    scene.disk.fail_sync("", syncs)
    try:
        await scene.node._storage.retire([1])
    except OSError:
        return True
    scene.disk.faults.sync_error = None
    return False


async def dead_of_a_sync(syncs: int) -> Scene | None:
    """Return a bookie whose process died of a failed sync, None if there are fewer syncs."""
    scene = Scene(seed=syncs + 1, options=SMALL)
    await scene.start()
    for ledger in (1, 2, 3):
        await scene.node.add(ledger, KEY, run_of(ledger, 0))
    await scene.node._engine.upkeep.flush()
    await scene.node._storage.retire([3])
    if not await retiring_fails(scene, syncs):
        await scene.close()
        return None
    await scene.kill()
    scene.fatal.clear()
    return scene


async def check(scene: Scene) -> None:
    """The bookie starts, and what it forgot stays forgotten."""
    node, mount = await scene.start(), scene.disk.mounts[0]
    checkpoint, (retired, _) = await read_checkpoint(mount), await read_retired(mount, BOOKIE)
    assert retired.generation >= checkpoint.retired
    assert 3 in node._storage.retired
    await scene.close()


@pytest.mark.parametrize("cut", [Cut.LOSES, Cut.MIXES])
def test_a_later_checkpoint_may_name_a_generation_that_was_lost(cut: Cut) -> None:
    async def main() -> None:
        syncs = 0
        while (scene := await dead_of_a_sync(syncs)) is not None:
            node = await scene.start()
            await node.add(2, KEY, run_of(2, 1))
            await node._engine.upkeep.flush()
            await scene.cut(cut)
            await check(scene)
            syncs += 1
        assert syncs == 4

    drive(main())


@pytest.mark.parametrize("cut", [Cut.LOSES, Cut.MIXES])
@pytest.mark.parametrize("change", seeds(23, 2, first=1))
def test_the_power_may_fail_while_generations_are_renewed(cut: Cut, change: int) -> None:
    async def main() -> None:
        syncs = 0
        while (scene := await dead_of_a_sync(syncs)) is not None:
            assert not await scene.cut_short(change, scene.start(), cut)
            await check(scene)
            syncs += 1

    drive(main())


@pytest.mark.parametrize("left", [0, 200])
def test_a_start_on_a_full_disk_renews_names_in_the_space_of_its_reserve(left: int) -> None:
    """A disk that was full at the sync is full at the next start as well."""

    async def main() -> None:
        scene = Scene(options=SMALL)
        await scene.start()
        for ledger in (1, 2):
            await scene.node.add(ledger, KEY, run_of(ledger, 0))
        await scene.node._storage.retire([2])
        assert await retiring_fails(scene, 1)
        await scene.kill()
        scene.disk.capacity_bytes = scene.disk.used_bytes + left
        await scene.start()
        await scene.cut(Cut.LOSES)
        scene.disk.capacity_bytes = 1 << 30
        node = await scene.start()
        for ledger in (1, 2):
            with pytest.raises(LedgerFencedError):
                await node.add(ledger, KEY, run_of(ledger, 1))
        await scene.close()

    drive(main())
