"""A bookie whose cookie is lost, or one of whose directories is on a new and empty disk."""

from __future__ import annotations

import errno
import random

import pytest

from quire.errors import (
    ConfigurationError,
    CorruptStorageError,
    EntryUnknownError,
    QuireError,
    WrongBookieError,
)
from quire.metastore.layout import cookie_path
from quire.metastore.memory import MemoryStore, MemoryTree
from quire.repair.reclaim import reclaim, restore_cookie, restore_parts
from quire.storage.disk.blocks import BLOCK_BYTES
from quire.storage.disk.port import File
from quire.storage.entries.doubtful import Horizon
from quire.storage.entries.ledger_storage import UNFINISHED
from quire.storage.identity.cookie import COOKIE, Role
from quire.storage.identity.directories import with_parts
from quire.storage.identity.identity import NewPart, format_disk, identify
from quire.storage.journal.record import SegmentHeader, encode_segment
from quire.storage.journal.segments import segment_path
from quire.storage.offline.salvage import Doubt, salvage
from tests.storage.salvage_scene import remove
from tests.storage.scene import KEY, Scene, drive, run_of
from tests.storage.spread_scene import SpreadScene
from tests.storage.test_crash_points import TINY
from tests.support.sub_disk import SubDisk

PAYLOAD = bytes(500)
FAST, BIG = "fast-1", "big-1"
LOST = 33
"""A ledger of which nothing is left."""


async def loaded(*, first: int = 0) -> SpreadScene:
    """Return a killed bookie of three directories, with entries in entry logs and in the journal;
    in the journal only when the first one is 10.
    """
    scene = SpreadScene()
    for start in range(first, 20, 10):
        scene.starts = 0  # nothing is added to it
        node = await scene.start()
        for entry in range(start, start + 10):
            payload = b"" if start else PAYLOAD  # what is large is flushed
            await node.add(7, KEY, run_of(7, entry, payload=payload))
        await (scene.kill() if start else scene.close())
    return scene


def wipe(scene: SpreadScene, directory: str) -> None:
    for path in [each for each in scene.disk.files() if each.startswith(f"{directory}/")]:
        remove(scene, path)
    for inner in ("journal", "entries"):
        scene.disk.directories.pop(f"{directory}/{inner}", None)
        remove(scene, f"{directory}/{inner}")


async def restored(scene: SpreadScene, *replaced: str) -> None:
    """Reclaim and salvage, as `quire bookie repair` does."""
    mount, store = scene.disk.mount(), MemoryStore(scene.tree)
    try:
        main = SubDisk(mount, "main")
        await reclaim(main, store, scene.rng, replaced, lambda path: SubDisk(mount, path))
        await restore_parts(main, store, lambda path: SubDisk(mount, path))
        disk = await with_parts(main, lambda path: SubDisk(mount, path))
        cookie = await identify(disk, store)
        doubts = [Doubt(7), Doubt(LOST)]
        rng = random.Random(1)
        await salvage(disk, cookie.bookie, doubts, Horizon(100, ()), rng=rng, options=TINY)
    finally:
        await mount.close()


async def begun(scene: SpreadScene) -> None:
    """Start it, with no directory added."""
    scene.starts = 0
    await scene.start()


async def refused(scene: SpreadScene, *errors: type[QuireError]) -> None:
    with pytest.raises(errors):
        await begun(scene)
    await scene.mount.close()


async def denies_nothing(scene: SpreadScene) -> set[int]:
    """Start it and return which entries it has; all others are unknown."""
    await begun(scene)
    held = set(await scene.entries(7))
    for ledger, entries in ((7, set(range(25)) - held), (LOST, {0})):
        for entry in entries:
            with pytest.raises(EntryUnknownError):
                await scene.node.read(ledger, entry, entry)
    await scene.close()
    return held


@pytest.mark.parametrize(
    ("lost", "kept", "gone"), [(BIG, range(10, 20), range(10)), (FAST, range(10), range(19, 20))]
)
def test_a_directory_on_a_new_disk_is_taken_for_lost(lost: str, kept: range, gone: range) -> None:
    async def main() -> None:
        scene = await loaded()
        wipe(scene, lost)
        await refused(scene, WrongBookieError)
        with pytest.raises(WrongBookieError, match="no cookie"):
            await restored(scene)
        await restored(scene, lost)
        held = await denies_nothing(scene)
        assert set(kept) <= held
        assert held.isdisjoint(gone)
        await restored(scene, lost)  # again: nothing more is lost by it
        assert await denies_nothing(scene) == held

    drive(main())


def test_the_old_disk_of_a_replaced_directory_is_refused() -> None:
    """It lacks what was stored since."""

    async def main() -> None:
        scene = await loaded()
        old = scene.disk.files()[f"{BIG}/{COOKIE}"]
        wipe(scene, BIG)
        await restored(scene, BIG)
        cookie = scene.disk.inode(f"{BIG}/{COOKIE}")
        cookie.content[:], cookie.durable[:] = old, old
        await refused(scene, WrongBookieError)

    drive(main())


def test_only_empty_directories_of_the_bookie_replace_any() -> None:
    async def main() -> None:
        scene = await loaded()
        before = scene.disk.files()
        with pytest.raises(ConfigurationError, match=rf"elsewhere.*{FAST}, {BIG}"):
            await restored(scene, "elsewhere")
        assert scene.disk.files() == before
        fast = scene.disk.inode(f"{FAST}/{COOKIE}")
        big = scene.disk.inode(f"{BIG}/{COOKIE}")
        big.content[:], big.durable[:] = fast.content, fast.content
        with pytest.raises(ConfigurationError, match="holds another of the bookie's directories"):
            await restored(scene, BIG)
        remove(scene, f"{BIG}/{COOKIE}")
        with pytest.raises(ConfigurationError, match="no cookie but holds"):
            await restored(scene, BIG)

    drive(main())


@pytest.mark.parametrize("how", ["rotten", "removed"])
def test_a_lost_cookie_is_written_anew_when_the_journal_says_whose_it_was(how: str) -> None:
    async def main() -> None:
        scene = SpreadScene()
        mount = scene.disk.mount()
        store = MemoryStore(scene.tree)
        home = SubDisk(mount, await scene._directory("main"))
        more = SubDisk(mount, await scene._directory("more"))
        parts = [NewPart(Role.ENTRIES, "more", more)]
        bookie = await format_disk(home, store, scene.rng, parts)
        await mount.close()
        await begun(scene)
        for entry in range(10):
            await scene.node.add(7, KEY, run_of(7, entry, payload=PAYLOAD))
        await scene.close()
        whole = scene.disk.files()[f"main/{COOKIE}"]
        lose_cookie(scene, how)
        mount = scene.disk.mount()
        await restore_cookie(SubDisk(mount, "main"), store)
        await mount.close()
        await refused(scene, CorruptStorageError)  # half a repair is none
        await restored(scene)
        assert scene.disk.files()[f"main/{COOKIE}"] == whole
        assert await denies_nothing(scene) == set(range(10))

        lose_cookie(scene, how)
        await store.delete(cookie_path(bookie))
        with pytest.raises(WrongBookieError, match="another cluster"):
            await restored(scene)

    drive(main())


def lose_cookie(scene: SpreadScene, how: str, directory: str = "main") -> None:
    if how == "rotten":
        scene.disk.rot(f"{directory}/{COOKIE}", 30)
    else:
        remove(scene, f"{directory}/{COOKIE}")


@pytest.mark.parametrize("part", [FAST, BIG])
@pytest.mark.parametrize("how", ["rotten", "removed"])
def test_the_cookie_of_a_part_is_written_anew_beside_files_of_its_bookie(
    part: str, how: str
) -> None:
    async def main() -> None:
        scene = await loaded()
        before = scene.disk.files()
        lose_cookie(scene, how, part)
        with pytest.raises((CorruptStorageError, WrongBookieError), match=part):
            await begun(scene)
        await scene.mount.close()
        await restored(scene)
        assert scene.disk.files()[f"{part}/{COOKIE}"] == before[f"{part}/{COOKIE}"]
        assert await denies_nothing(scene) == set(range(20))

    drive(main())


@pytest.mark.parametrize("how", ["rotten", "removed"])
def test_a_part_without_files_and_cookie_may_be_anybodys(how: str) -> None:
    async def main() -> None:
        scene = await loaded()
        for path in [each for each in scene.disk.files() if each.startswith(f"{BIG}/entries/")]:
            remove(scene, path)
        lose_cookie(scene, how, BIG)
        before = scene.disk.files()
        with pytest.raises((CorruptStorageError, WrongBookieError), match=BIG):
            await restored(scene)
        assert scene.disk.files() == before
        scene.disk.directories.pop(f"{BIG}/entries", None)
        remove(scene, f"{BIG}/entries")
        await restored(scene, BIG)
        assert await denies_nothing(scene) == set(range(10, 20))

    drive(main())


def test_disks_at_each_others_places_are_left_alone() -> None:
    async def main() -> None:
        scene = await loaded()
        lose_cookie(scene, "removed", BIG)
        before = scene.disk.files()
        mount, store = scene.disk.mount(), MemoryStore(scene.tree)
        places = {BIG: FAST, FAST: BIG}
        await restore_parts(
            SubDisk(mount, "main"), store, lambda path: SubDisk(mount, places[path])
        )
        await mount.close()
        assert scene.disk.files() == before
        await restored(scene)
        assert await denies_nothing(scene) == set(range(20))

    drive(main())


def test_the_cookie_of_a_part_stays_lost_beside_files_of_others() -> None:
    async def main() -> None:
        scene = await loaded()
        (path, *_) = [each for each in scene.disk.files() if each.endswith(".journal")]
        assert path.startswith(f"{FAST}/journal/")
        header = SegmentHeader(1, 3, 0, BLOCK_BYTES, "d" * 32)
        scene.disk.inode(path).content[:BLOCK_BYTES] = encode_segment(header)
        lose_cookie(scene, "removed", FAST)
        before = scene.disk.files()
        with pytest.raises(WrongBookieError, match="no cookie"):
            await restored(scene)
        assert scene.disk.files() == before

    drive(main())


@pytest.mark.parametrize(
    ("how", "error"), [("rotten", CorruptStorageError), ("removed", ConfigurationError)]
)
def test_a_lost_cookie_stays_lost_where_nothing_tells_whose_it_was(
    how: str, error: type[QuireError]
) -> None:
    async def main() -> None:
        scene = await loaded()  # its journal is elsewhere
        lose_cookie(scene, how)
        before = scene.disk.files()
        with pytest.raises(error):
            await restored(scene)
        assert scene.disk.files() == before

    drive(main())


@pytest.mark.parametrize("first", [0, 10])
def test_whatever_interrupts_it_nobody_starts_before_it_is_done_again(first: int) -> None:
    """At every change of the disks: it would deny what it was about to doubt, even where no file
    that is missed was on the lost disk.
    """

    async def main() -> None:
        change, is_done, refusals = 0, False, 0
        while not is_done:
            change += 1
            scene = await loaded(first=first)
            wipe(scene, BIG)
            is_done = await scene.cut_short(change, restored(scene, BIG))
            try:
                await begun(scene)
                await scene.close()
            except (WrongBookieError, CorruptStorageError):
                refusals += 1
                assert not is_done
                await scene.mount.close()
                await restored(scene, BIG)
            assert await denies_nothing(scene) == set(range(10, 20))
        assert refusals > 10

    drive(main())


def test_a_journal_that_is_a_part_is_not_taken_for_the_main_directory() -> None:
    async def main() -> None:
        scene = await loaded()
        remove(scene, f"{FAST}/{COOKIE}")
        before = scene.disk.files()
        mount = scene.disk.mount()
        with pytest.raises(ConfigurationError, match="main directory"):
            await restore_cookie(SubDisk(mount, FAST), MemoryStore(scene.tree))
        await mount.close()
        assert scene.disk.files() == before

    drive(main())


def test_the_old_disk_does_not_replace_the_new_one_with_what_it_holds() -> None:
    async def main() -> None:
        scene = await loaded()
        old = scene.disk.files()[f"{BIG}/{COOKIE}"]
        wipe(scene, BIG)
        await restored(scene, BIG)
        await denies_nothing(scene)
        cookie = scene.disk.inode(f"{BIG}/{COOKIE}")
        cookie.content[:], cookie.durable[:] = old, old
        before = scene.disk.files()
        with pytest.raises(ConfigurationError, match="holds entries"):
            await restored(scene, BIG)
        assert scene.disk.files() == before

    drive(main())


def test_a_cookie_on_a_bad_sector_is_written_anew_though_a_segment_is_on_another() -> None:
    async def main() -> None:
        scene, tree = Scene(), MemoryTree()
        mount, store = scene.disk.mount(), MemoryStore(tree)
        bookie = await format_disk(mount, store, random.Random(1))
        await mount.make_directory("journal")
        for number in (1, 2):
            file = await mount.open(segment_path(number), create=True)
            header = SegmentHeader(number, 3, 0, BLOCK_BYTES, bookie)
            await file.write(0, [encode_segment(header)], sync=True)
            await file.close()
        bad = [COOKIE, segment_path(1)]

        class Unreadable(SubDisk):
            async def open(self, path: str, *, create: bool = False) -> File:
                if path in bad:
                    raise OSError(errno.EIO, "for the test", path)
                return await mount.open(path, create=create)

            def _at(self, path: str) -> str:
                return path

        await restore_cookie(Unreadable(mount, ""), store)
        assert (await identify(mount, store)).bookie == bookie
        assert UNFINISHED in await mount.list()
        await mount.close()

    drive(main())
