"""A bookie that lost something starts again, knows what it holds, and denies nothing."""

from __future__ import annotations

import errno
import random
from typing import cast

import pytest

from quire.errors import (
    ConfigurationError,
    CorruptStorageError,
    EntryUnknownError,
    NoSuchLedgerError,
    ReadOnlyBookieError,
)
from quire.storage.disk.blocks import BLOCK_BYTES
from quire.storage.disk.port import File
from quire.storage.entries.checkpoint import PATHS, decode_checkpoint
from quire.storage.entries.doubtful import Horizon
from quire.storage.entries.ledger_storage import UNFINISHED
from quire.storage.journal.record import RecordKind, SegmentHeader, encode_record, encode_segment
from quire.storage.journal.segments import segment_path
from quire.storage.offline.check import check_disk
from quire.storage.offline.salvage import (
    Doubt,
    Salvage,
    _records,
    examine,
    mark_unfinished,
    salvage,
)
from tests.storage.salvage_scene import BELOW, cut, entry_logs, loaded, remove, salvaged
from tests.storage.scene import BOOKIE, KEY, SMALL, Scene, drive, run_of
from tests.support.sub_disk import SubDisk


def damage(scene: Scene, what: str) -> str:
    """Hurt one file so that the bookie refuses; return its path."""
    kind, how = what.split()
    journal = segment_path(scene.node._engine._journal.position().segment)
    path = {"journal": journal, "entries": entry_logs(scene)[-1]}.get(kind, kind)
    if how == "removed":
        remove(scene, path)
    elif how == "cut":
        cut(scene, path, scene.disk.inode(path).size // 2)
    elif how == "middle":
        scene.disk.rot(path, 4096 + 60)
    else:
        scene.disk.rot(path, 30 if how == "head" else scene.disk.inode(path).size - 20)
    return path


REFUSED = (
    "journal removed",
    "journal cut",
    "journal middle",
    "journal head",
    "entries removed",
    "entries cut",
    "entries head",
    "entries tail",
)


@pytest.mark.parametrize("what", REFUSED)
def test_a_refused_bookie_serves_after_a_salvage_and_denies_nothing(what: str) -> None:
    async def main() -> None:
        scene = await loaded()
        path = damage(scene, what)
        with pytest.raises(CorruptStorageError):
            await scene.start()
        await scene.mount.close()
        found = await salvaged(scene, Doubt(7), Doubt(33))
        assert any(each.path == path for each in found.damage)
        node = await scene.start()
        held = await scene.entries(7)
        assert held
        for entry in range(31):
            if entry in held:
                assert await node.read(7, entry, entry)
            else:
                with pytest.raises(EntryUnknownError):
                    await node.read(7, entry, entry)
        for ledger in (7, 8, 9, 33, 50, BELOW - 1):
            with pytest.raises(EntryUnknownError):
                await node.read_tail(ledger, fence_key=KEY)
            with pytest.raises(EntryUnknownError):
                await node.wait_tail(ledger, -1, 1.0)
            with pytest.raises(EntryUnknownError):
                await node.read(ledger, 1000, 1000)
            with pytest.raises(ReadOnlyBookieError, match="may have lost"):
                await node.add(ledger, KEY, run_of(ledger, 77))
        with pytest.raises(NoSuchLedgerError):
            await node.read(BELOW, 0, 0)
        await node.add(BELOW, KEY, run_of(BELOW, 0))
        assert scene.fatal == []
        await scene.close()

    drive(main())


async def looked(scene: Scene) -> Salvage:
    mount = scene.disk.mount()
    try:
        return await examine(mount, BOOKIE, [], Horizon(BELOW, ()))
    finally:
        await mount.close()


async def judged(scene: Scene) -> tuple[bool, bool, bool]:
    """Whether a check, the look of a repair and a start of the bookie accept its disk."""
    mount = scene.disk.mount()
    found = await check_disk(mount)
    await mount.close()
    seen = await looked(scene)
    try:
        await scene.start()
    except CorruptStorageError:
        await scene.mount.close()
        return not found.damage, not seen.damage, False
    await scene.close()
    return not found.damage, not seen.damage, True


@pytest.mark.parametrize("what", REFUSED)
def test_a_check_a_look_and_a_start_agree_about_damage(what: str) -> None:
    async def main() -> None:
        scene = await loaded()
        damage(scene, what)
        assert await judged(scene) == (False, False, False)

    drive(main())


async def hurt_behind(at: range) -> tuple[Scene, str]:
    """Return a bookie that was closed, with damage in the segment that it wrote to last, before the
    checkpoint's position.
    """
    scene = await loaded()
    node = await scene.start()
    for entry in range(30, 40):
        await node.add(7, KEY, run_of(7, entry, payload=bytes(500)))
    path = segment_path(node._engine._journal.position().segment)
    await scene.close()
    for byte in at:
        scene.disk.rot(path, byte)
    return scene, path


async def held(scene: Scene) -> set[int]:
    """Start and close the bookie; return its entries of ledger 7."""
    await scene.start()
    found = set(await scene.entries(7))
    await scene.close()
    return found


@pytest.mark.parametrize("at", [BLOCK_BYTES, BLOCK_BYTES + 60, 2 * BLOCK_BYTES])
def test_damage_that_the_checkpoint_covers_costs_nothing_by_itself(at: int) -> None:
    async def main() -> None:
        scene, path = await hurt_behind(range(at, at + 50))
        assert (await looked(scene)).aside == []
        mount = scene.disk.mount()
        await mark_unfinished(mount)
        await mount.close()
        assert path in [each.path for each in (await looked(scene)).damage], "it may be needed"
        remove(scene, UNFINISHED)
        assert await judged(scene) == (True, True, True)
        assert await held(scene) == set(range(40))

    drive(main())


def test_damage_that_the_checkpoint_covers_counts_beside_other_damage() -> None:
    async def main() -> None:
        scene, path = await hurt_behind(range(2 * BLOCK_BYTES, 2 * BLOCK_BYTES + 50))
        before = scene.disk.files()[path]
        remove(scene, entry_logs(scene)[-1])
        assert path in [each.path for each in (await looked(scene)).damage]
        found = await salvaged(scene)
        assert path in [each.path for each in found.damage]
        assert found.aside == [path.replace(".journal", ".damaged")]
        assert scene.disk.files()[found.aside[0]] == before
        assert len(await held(scene) & set(range(30, 40))) == 9, "the journal has all but one"

    drive(main())


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_believed_is_set_aside_and_the_rest_is_kept(what: str) -> None:
    async def main() -> None:
        scene = await loaded()
        before = scene.disk.files()
        path = damage(scene, what)
        found = await salvaged(scene)
        assert [name.partition(".")[0] for name in found.aside] == (
            [] if "removed" in what else [path.partition(".")[0]]
        )
        assert all(name in scene.disk.files() for name in found.aside)
        await scene.start()
        kept = await scene.entries(7)
        if what in ("journal middle", "journal cut"):
            assert set(range(20)) < set(kept)  # of a damaged segment only what is damaged is lost
        elif what.startswith("journal"):
            assert set(kept) == set(range(20))
        else:
            assert set(range(20, 30)) < set(kept)
        assert before.keys() - scene.disk.files().keys() - {path} <= {
            each for each in before if each.startswith("journal/")
        }
        await scene.close()

    drive(main())


def test_a_middle_that_is_damaged_costs_one_batch() -> None:
    async def main() -> None:
        scene = await loaded()
        damage(scene, "journal middle")
        await salvaged(scene)
        await scene.start()
        assert len(await scene.entries(7)) == 29
        assert len(await scene.entries(9)) == 1
        await scene.close()

    drive(main())


@pytest.mark.parametrize("block", [3, 11], ids=["amidst", "the last batch"])
def test_a_bad_sector_under_the_journal_costs_one_batch(block: int) -> None:
    """Block by block: header, ten of ledger 7, one of ledger 9."""

    async def main() -> None:
        scene = await loaded()
        path = segment_path(scene.node._engine._journal.position().segment)
        scene.disk.faults.read_error = path
        scene.disk.faults.bad_bytes = range(block * BLOCK_BYTES + 700, block * BLOCK_BYTES + 1212)
        found = await salvaged(scene)
        assert [each.path for each in found.damage] == [path]
        assert len(found.aside) == 1
        scene.disk.faults.read_error = None
        node = await scene.start()
        assert len(await scene.entries(7)) == (29 if block == 3 else 30)
        if block == 3:
            assert await node.read(9, 0, 0)
        with pytest.raises(EntryUnknownError):
            await node.read(*((7, 22, 22) if block == 3 else (9, 0, 0)))
        await scene.close()

    drive(main())


def test_lost_checkpoints_are_made_again() -> None:
    async def main() -> None:
        scene = await loaded()
        for path in ("checkpoint-0", "checkpoint-1"):
            remove(scene, path)
        with pytest.raises(CorruptStorageError, match="missing"):
            await scene.start()
        await scene.mount.close()
        await salvaged(scene)
        await scene.start()
        assert len(await scene.entries(7)) == 30
        await scene.close()

    drive(main())


def test_a_salvage_that_is_cut_short_lets_nobody_start_and_is_done_again() -> None:
    """At every change of the disk: half a repair would deny what it did not get to doubt."""

    async def main() -> None:
        change = 0
        while True:
            change += 1
            scene = await loaded()
            damage(scene, "journal head")
            is_done = await scene.cut_short(change, salvaged(scene, Doubt(33)))
            try:
                node = await scene.start()
            except CorruptStorageError:
                assert not is_done
                await scene.mount.close()
                await salvaged(scene, Doubt(33))
                node = await scene.start()
            with pytest.raises(EntryUnknownError):
                await node.read(33, 0, 0)
            with pytest.raises(EntryUnknownError):
                await node.read(9, 5, 5)
            assert set(await scene.entries(7)) >= set(range(20))
            await scene.close()
            if is_done:
                return

    drive(main())


def test_a_salvage_that_is_done_again_keeps_as_much_as_one_that_was_not_cut_short() -> None:
    """What is set aside is not read any more: its sound records must be somewhere else by then."""

    async def main() -> None:
        change, is_done = 0, False
        while not is_done:
            change += 1
            scene = await loaded()
            damage(scene, "journal middle")
            is_done = await scene.cut_short(change, salvaged(scene, Doubt(33)))
            if not is_done:
                await salvaged(scene, Doubt(33))
            await scene.start()
            assert any(path.endswith(".damaged") for path in scene.disk.files()), change
            assert len(await scene.entries(7)) == 29, change
            assert len(await scene.entries(9)) == 1, change
            await scene.close()
        assert change > 10

    drive(main())


def test_a_start_that_is_refused_leaves_a_repair_as_much_as_there_was() -> None:
    """Also entry logs that the older checkpoint, on which it falls back, does not list."""

    async def main() -> None:
        scene = await loaded()
        await scene.start()  # what was replayed is in a file, and its journal may go
        await scene.kill()
        found = {path: scene.disk.files()[path] for path in PATHS}
        newest = max(PATHS, key=lambda path: decode_checkpoint(path, found[path]).generation)
        scene.disk.rot(newest, 60)
        before = entry_logs(scene)
        with pytest.raises(CorruptStorageError):
            await scene.start()
        await scene.mount.close()
        assert entry_logs(scene) == before
        await salvaged(scene)
        await scene.start()
        assert len(await scene.entries(7)) == 30
        await scene.close()

    drive(main())


def test_a_salvage_that_cannot_begin_leaves_no_mark() -> None:
    async def main() -> None:
        scene = await loaded()
        mount = scene.disk.mount()

        class Ambiguous(SubDisk):
            async def list(self, directory: str = "") -> list[str]:
                if directory == "entries":
                    raise ConfigurationError("for the test")
                return await mount.list(directory)

            def _at(self, path: str) -> str:
                return path

        with pytest.raises(ConfigurationError):
            await salvage(
                Ambiguous(mount, ""),
                BOOKIE,
                [],
                Horizon(BELOW),
                rng=random.Random(1),
                options=SMALL,
            )
        await mount.close()
        await scene.start()
        await scene.close()

    drive(main())


def test_a_second_salvage_keeps_the_doubts_of_the_first() -> None:
    async def main() -> None:
        scene = await loaded()
        await salvaged(scene)
        await salvaged(scene, below=3)
        node = await scene.start()
        with pytest.raises(EntryUnknownError):
            await node.read(BELOW - 1, 0, 0)
        await scene.close()
        mount = scene.disk.mount()
        assert (await check_disk(mount)).damage == []
        await mount.close()

    drive(main())


def test_a_checkpoint_that_cannot_be_read_is_made_again() -> None:
    """A bad sector under it: the repair would otherwise fail for ever."""

    async def main() -> None:
        scene = await loaded()
        mount = scene.disk.mount()

        class Unreadable(SubDisk):
            async def open(self, path: str, *, create: bool = False) -> File:
                if path == PATHS[0]:
                    raise OSError(errno.EIO, "for the test", path)
                return await mount.open(path, create=create)

            def _at(self, path: str) -> str:
                return path

        doubts, horizon = [Doubt(7)], Horizon(BELOW)
        disk, rng = Unreadable(mount, ""), random.Random(1)
        found = await salvage(disk, BOOKIE, doubts, horizon, rng=rng, options=SMALL)
        await mount.close()
        assert [each.path for each in found.damage] == [PATHS[0]]
        await scene.start()
        assert len(await scene.entries(7)) == 30
        await scene.close()

    drive(main())


def test_what_stands_before_a_record_of_an_unknown_kind_is_kept() -> None:
    header = SegmentHeader(1, 3, 0, 3 * BLOCK_BYTES, BOOKIE)

    def encoded(kind: int, sequence: int) -> bytes:
        return encode_record(cast("RecordKind", kind), b"", sequence, sequence - 1, 3, 0)

    batch = encoded(RecordKind.MARK, 1) + encoded(RecordKind.MARK, 2) + encoded(9, 3)
    data = (encode_segment(header) + batch).ljust(2 * BLOCK_BYTES, b"\0")
    data += encoded(RecordKind.MARK, 4).ljust(BLOCK_BYTES, b"\0")
    assert [each.sequence for _, each in _records(data, header.identity)] == [1, 2, 4]


def test_what_may_not_be_opened_is_not_set_aside() -> None:
    """It says nothing about the file: the repair ends, and can be begun again."""

    async def main() -> None:
        scene = await loaded()
        mount = scene.disk.mount()
        whole = scene.disk.files().keys()

        class Forbidden(SubDisk):
            async def open(self, path: str, *, create: bool = False) -> File:
                if path == entry_logs(scene)[0]:
                    raise OSError(errno.EACCES, "for the test", path)
                return await mount.open(path, create=create)

            def _at(self, path: str) -> str:
                return path

        doubts, horizon = [Doubt(7)], Horizon(BELOW)
        disk, rng = Forbidden(mount, ""), random.Random(1)
        with pytest.raises(OSError, match="for the test"):
            await salvage(disk, BOOKIE, doubts, horizon, rng=rng, options=SMALL)
        await mount.close()
        assert scene.disk.files().keys() - {UNFINISHED} == whole

    drive(main())
