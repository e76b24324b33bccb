"""A disk without space for another name: a rename fails, at each place where a bookie makes one.

A new name may need a block of its directory, and a file system that copies on write needs one for
each change. Such a disk stops no start, and ends no bookie that serves.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, field, replace

from quire.errors import BookieBusyError, ReadOnlyBookieError
from quire.storage.disk.port import Disk
from quire.storage.disk.renewal import RENEWED_SUFFIX
from quire.storage.disk.state_file import TEMPORARY_SUFFIX
from quire.storage.entries.reserve import RESERVE
from quire.storage.journal.segments import SPARE_SUFFIX
from tests.sim.disk import Cut, SimMount
from tests.storage.compaction_scene import Answers, collector_of
from tests.storage.scene import KEY, SMALL, Scene, drive, eventually, run_of

OPTIONS = replace(
    SMALL, low_space_bytes=0, high_space_bytes=0, space_check_seconds=0.001, spare_segments_max=2
)
PAYLOAD = bytes(800)


@dataclass
class NamelessScene(Scene):
    """A bookie whose disk has no space for a name: at the rename number `at`, from 1, or at each
    rename of a file that `never` is in the new name of.
    """

    at: int = 0
    never: str | None = None
    failed: list[str] = field(default_factory=list)

    async def formatted(self, mount: SimMount) -> tuple[Disk, str, str]:
        """See `Scene.formatted`."""
        renaming = mount.rename

        async def rename(old: str, new: str) -> None:
            self.at -= 1
            if self.at == 0 or (self.never is not None and self.never in new):
                self.failed.append(f"{old} to {new}")
                raise OSError(errno.ENOSPC, "no space for a name, by order of the test", new)
            await renaming(old, new)

        mount.rename = rename  # type: ignore[method-assign]
        return await super().formatted(mount)

    async def write(self, first: int, last: int) -> None:
        """Write entries of ledger 1; an entry that is refused is written again."""
        for entry in range(first, last + 1):
            run = run_of(1, entry, payload=PAYLOAD)
            while True:
                try:
                    await self.node.add(1, KEY, run)
                    break
                except (BookieBusyError, ReadOnlyBookieError):
                    await eventually(lambda: self.node.is_writable)

    async def check(self, last: int) -> None:
        """Compare the entries, the fence and the files of a bookie that starts after a cut."""
        assert self.fatal == [], self.failed
        await self.cut(Cut.LOSES)
        self.at, self.never = 0, None
        await self.start()
        assert list(await self.entries(1)) == list(range(last + 1)), self.failed
        assert (await self.node.read_tail(2)).fenced
        left = [path for path in self.disk.files() if path.endswith(RENEWED_SUFFIX)]
        assert left == []
        await self.close()


async def served() -> NamelessScene:
    """Return a bookie that has served, and has stopped."""
    scene = NamelessScene(options=OPTIONS)
    await scene.start()
    await scene.write(0, 99)
    await scene.node.read_tail(2, fence_key=KEY)
    await eventually(lambda: scene.node._engine._segments.is_ready)
    await scene.close()
    return scene


def test_a_rename_that_finds_no_space_stops_no_start_and_ends_no_bookie() -> None:
    async def main(at: int) -> bool:
        scene = await served()
        scene.at = at
        await scene.start()
        await scene.write(100, 160)
        await collector_of(scene, Answers()).round(is_major=True)
        await eventually(lambda: scene.node.is_writable and scene.node._engine._segments.is_ready)
        await scene.check(160)
        return bool(scene.failed)

    async def everywhere() -> None:
        at = 1
        while await main(at):
            at += 1
        assert at > 20

    drive(everywhere())


def test_files_keep_their_names_while_there_is_no_space_for_others() -> None:
    """Each start meets it anew, and so does a flush that gives segments back."""

    async def main() -> None:
        for never in (RENEWED_SUFFIX, SPARE_SUFFIX, RESERVE):
            scene = await served()
            scene.never = never
            for start in range(3):
                await scene.start()
                await scene.write(100 + 20 * start, 119 + 20 * start)
                if start < 2:
                    await scene.close()
            assert scene.failed, never
            await scene.check(159)

    drive(main())


def test_a_reserve_that_was_not_finished_is_begun_anew_by_the_same_process() -> None:
    """A collection that is stopped while it makes the reserve leaves an unfinished file."""

    async def main() -> None:
        scene = await served()
        node = await scene.start()
        reserve = node._engine._reserve
        await reserve.give_up()
        file = await scene.mount.open(RESERVE + TEMPORARY_SUFFIX, create=True)
        await file.close()
        await reserve.restore()
        assert reserve.is_whole
        assert RESERVE + TEMPORARY_SUFFIX not in scene.disk.files()
        await scene.check(99)

    drive(main())
