"""The first checkpoint is believed only of a bookie that never served."""

from __future__ import annotations

import pytest

from quire.errors import CorruptStorageError, NoSuchLedgerError
from quire.storage.disk.blocks import BLOCK_BYTES
from quire.storage.entries.checkpoint import FIRST, PATHS, read_checkpoint, write_checkpoint
from quire.storage.offline.check import check_disk
from tests.storage.scene import KEY, Scene, drive, run_of

EARLY, LATER = PATHS[FIRST.generation % 2], PATHS[(FIRST.generation + 1) % 2]


async def back_to_first(scene: Scene) -> None:
    """Leave a stopped bookie only the checkpoint that it was formatted with."""
    mount = scene.disk.mount()
    for path in PATHS:
        await mount.unlink(path)
    await write_checkpoint(mount, FIRST)
    await mount.close()


@pytest.mark.parametrize("starts", [1, 2, 3])
def test_a_bookie_that_served_does_not_forget_for_want_of_a_checkpoint(starts: int) -> None:
    """Found by the simulator: with nothing in its journal it took itself for a new one."""

    async def main() -> None:
        scene = Scene()
        for number in range(starts):
            node = await scene.start()
            if number == 0:
                await node.add(7, KEY, run_of(7, 0))
            await scene.close()
        await back_to_first(scene)
        with pytest.raises(CorruptStorageError, match="lost or damaged"):
            await scene.start()
        scene.disk.kill()
        mount = scene.disk.mount()
        assert [each.path for each in (await check_disk(mount)).damage] == [LATER]
        await mount.close()

    drive(main())


def test_the_first_checkpoint_is_gone_before_anybody_is_served() -> None:
    async def main() -> None:
        scene = Scene()
        await scene.start()
        await scene.kill()  # a tidy end would write checkpoints too
        mount = scene.disk.mount()
        await mount.unlink(LATER)
        assert (await read_checkpoint(mount)).position != FIRST.position
        await mount.close()

    drive(main())


def test_a_bookie_that_never_served_starts() -> None:
    async def main() -> None:
        scene = Scene()
        for _ in range(2):
            await scene.start()
            await scene.close()
            await back_to_first(scene)
        node = await scene.start()
        with pytest.raises(NoSuchLedgerError):
            await node.read(7, 0, 0)
        await scene.close()

    drive(main())


def test_garbage_in_a_segment_is_no_sign_that_the_bookie_served() -> None:
    """A power cut left an unfinished spare; the start that made a segment of it was cut too."""

    async def main() -> None:
        scene = Scene()
        await scene.start()
        await scene.close()
        await back_to_first(scene)
        for path in scene.disk.files():
            if path.startswith("journal/"):
                inode = scene.disk.inode(path)
                inode.write(BLOCK_BYTES, scene.rng.randbytes(inode.size - BLOCK_BYTES))
                inode.sync()
        await scene.start()
        await scene.close()

    drive(main())


def test_a_record_in_a_segment_is_a_sign_that_the_bookie_served() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        await node.read_tail(7, fence_key=KEY)
        await scene.kill()
        await back_to_first(scene)
        assert not any(path.endswith(".entries") for path in scene.disk.files())
        with pytest.raises(CorruptStorageError, match="is used"):
            await scene.start()
        scene.disk.kill()

    drive(main())
