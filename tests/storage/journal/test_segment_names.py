"""A name of the journal promises its content, whenever the power fails."""

from __future__ import annotations

import errno
from unittest.mock import patch

import pytest

from quire.storage.journal.record import decode_segment
from quire.storage.journal.segments import JOURNAL, Segments, numbered, segment_path
from tests.sim.disk import Cut, SimMount
from tests.storage.scene import BOOKIE, SMALL, Scene, drive


async def segments_on(scene: Scene) -> Segments:
    mount = scene.disk.mount()
    await mount.make_directory(JOURNAL)
    segments = Segments(mount, BOOKIE, SMALL, scene.rng, scene.fatal.append)
    await segments.load(0)
    return segments


async def numbers_in(mount: SimMount) -> dict[int, int]:
    """Return the number in the header of each segment, by the number in its name."""
    found = {}
    for number in numbered(await mount.list(JOURNAL), ".journal"):
        path = segment_path(number)
        file = await mount.open(path)
        found[number] = decode_segment(path, await file.read(0, 4096)).number
        await file.close()
    return found


@pytest.mark.parametrize("change", range(1, 8))
@pytest.mark.parametrize("cut", [Cut.LOSES, Cut.MIXES])
def test_a_released_segment_has_lost_its_name_before_it_is_written_again(
    change: int, cut: Cut
) -> None:
    async def main() -> None:
        scene = Scene()
        segments = await segments_on(scene)
        first = await segments.create(0)
        second = await segments.create(first.header.identity)

        async def work() -> None:
            await segments.release(second.header.number)
            await segments.create(second.header.identity)

        await scene.disk.mounts[0].sync_directory()
        await scene.cut_short(change, work(), cut)
        found = await numbers_in(scene.disk.mount())
        assert second.header.number in found
        assert all(name == number for name, number in found.items()), found

    drive(main())


def test_the_identity_of_a_segment_is_drawn_anew_in_each_life() -> None:
    """Else records of an earlier life of the file could count as records of this one."""

    async def main() -> None:
        scene = Scene()
        drawn = set()
        for _ in range(3):
            segments = await segments_on(scene)
            made = await segments.create(0)
            assert made.header.number == 1
            drawn.add(made.header.identity)
            await made.file.close()
            await scene.disk.mounts[0].unlink(segment_path(1))
            scene.disk.kill()
        assert len(drawn) == 3

    drive(main())


async def refuse(directory: str = "") -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("is_spare", [True, False])
def test_a_directory_that_cannot_be_synced_for_want_of_space_is_a_failure(is_spare: bool) -> None:
    """The names have changed: after another attempt two segments would follow the same one."""

    async def main() -> None:
        scene = Scene()
        segments = await segments_on(scene)
        await segments.create(0)
        if not is_spare:
            await segments.stock()
        mount = scene.disk.mounts[-1]

        with (
            patch.object(mount, "sync_directory", refuse),
            pytest.raises(OSError, match="cannot be synced") as error,
        ):
            await segments.create(1)
        assert error.value.errno == errno.EIO

    drive(main())


def test_segments_that_lost_their_names_in_a_failed_sync_are_not_forgotten() -> None:
    """They are neither live nor spare then: the bookie ends, and the next start looks for them."""

    async def main() -> None:
        scene = Scene()
        segments = await segments_on(scene)
        first = await segments.create(0)
        second = await segments.create(first.header.identity)
        with (
            patch.object(scene.disk.mounts[-1], "sync_directory", refuse),
            pytest.raises(OSError, match="cannot be synced") as error,
        ):
            await segments.release(second.header.number)
        assert error.value.errno == errno.EIO

    drive(main())
