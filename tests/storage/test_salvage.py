"""A bookie that lost something starts again, knows what it holds, and denies nothing."""

from __future__ import annotations

import errno
import random
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.entry import key_check
from quire.errors import (
    CorruptStorageError,
    EntryUnknownError,
    NoSuchEntryError,
    NoSuchLedgerError,
    ReadOnlyBookieError,
    UnauthorizedError,
)
from quire.storage.check import check_disk
from quire.storage.checkpoint import PATHS
from quire.storage.disk import File
from quire.storage.horizon import Horizon, decode_ranges
from quire.storage.ledger_storage import UNFINISHED
from quire.storage.record import (
    BLOCK_BYTES,
    RecordKind,
    SegmentHeader,
    encode_record,
    encode_segment,
)
from quire.storage.salvage import Doubt, Salvage, _records, salvage
from quire.storage.segments import segment_path
from tests.sim.disk import Cut
from tests.storage.scene import BOOKIE, KEY, SMALL, Scene, drive, eventually, run_of
from tests.support.sub_disk import SubDisk

PAYLOAD = bytes(500)
BELOW = 100


async def loaded() -> Scene:
    """Return a killed bookie with ledger 7 in two entry logs and the journal, 8 fenced, 9 in the
    journal only.
    """
    scene = Scene()
    for first in (0, 10, 20):
        node = await scene.start()
        for entry in range(first, first + 10):
            await node.add(7, KEY, run_of(7, entry, payload=PAYLOAD))
        if first == 0:
            await node.read_tail(8, fence_key=KEY)
        if first < 20:
            await scene.close()
    await node.add(9, KEY, run_of(9, 0))
    await scene.kill()
    return scene


async def salvaged(
    scene: Scene, *doubts: Doubt, below: int = BELOW, clean: tuple[tuple[int, int], ...] = ()
) -> Salvage:
    horizon = Horizon(below, clean)
    mount = scene.disk.mount()
    rng = random.Random(1)
    try:
        return await salvage(mount, BOOKIE, doubts, horizon, rng=rng, options=SMALL)
    finally:
        await mount.close()


def entry_logs(scene: Scene) -> list[str]:
    return [path for path in sorted(scene.disk.files()) if path.endswith(".entries")]


def remove(scene: Scene, path: str) -> None:
    directory, _, name = path.rpartition("/")
    for names in (
        scene.disk.directories[directory].names,
        scene.disk.directories[directory].durable,
    ):
        names.pop(name, None)


def cut(scene: Scene, path: str, size: int) -> None:
    inode = scene.disk.inode(path)
    del inode.content[size:]
    del inode.durable[size:]


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


def test_limbo_and_fences_survive_power_cuts_and_flushes() -> None:
    async def main() -> None:
        scene = await loaded()
        await salvaged(scene, Doubt(33, key_check(KEY)))
        scene.disk.power_cut(Cut.LOSES)
        for _ in range(3):
            node = await scene.start()
            for ledger in (7, 33, 50):
                with pytest.raises(EntryUnknownError):
                    await node.read(ledger, 99, 99)
                with pytest.raises(ReadOnlyBookieError):
                    await node.add(ledger, KEY, run_of(ledger, 40))
            await node.add(200, KEY, run_of(200, 0, payload=bytes(3000)))
            await scene.close()

    drive(main())


def test_a_lost_key_is_known_by_its_check() -> None:
    async def main() -> None:
        scene = await loaded()
        await salvaged(scene, Doubt(33, key_check(KEY)))
        node = await scene.start()
        with pytest.raises(UnauthorizedError):
            await node.add(33, b"w" * 20, run_of(33, 0), recovery=True)
        with pytest.raises(UnauthorizedError):
            await node.read_tail(33, fence_key=b"w" * 20)
        await scene.close()
        node = await scene.start()
        with pytest.raises(UnauthorizedError):
            await node.read(33, 0, 0, fence_key=b"w" * 20)
        await node.add(33, KEY, run_of(33, 0), recovery=True)
        await scene.close()
        node = await scene.start()
        assert await node.list_entries(33) == [(0, 0)]
        with pytest.raises(UnauthorizedError):
            await node.add(33, b"w" * 20, run_of(33, 0), recovery=True)
        await scene.close()

    drive(main())


def test_a_ledger_that_is_whole_again_is_believed() -> None:
    async def main() -> None:
        scene = await loaded()
        await salvaged(scene)
        node = await scene.start()
        node._storage.clear(7)
        await scene.close()
        node = await scene.start()
        with pytest.raises(NoSuchEntryError):
            await node.read(7, 99, 99)
        assert (await node.read_tail(7)).fenced
        with pytest.raises(EntryUnknownError):
            await node.read(9, 99, 99)
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


def test_nobody_waits_for_what_is_unknown() -> None:
    async def main() -> None:
        scene = await loaded()
        await salvaged(scene)
        node = await scene.start()
        before = len(node._storage.states)
        for ledger in range(40, 60):
            with pytest.raises(EntryUnknownError):
                await node.wait_tail(ledger, -1, 60.0)
        assert len(node._storage.states) == before
        await eventually(lambda: True)
        await scene.close()

    drive(main())


def test_ledgers_of_which_nothing_can_be_lost_are_taken_as_always() -> None:
    async def main() -> None:
        scene = await loaded()
        await salvaged(scene, clean=((0, 3), (50, 60)))
        node = await scene.start()
        for ledger in (3, 50, 60):
            with pytest.raises(NoSuchLedgerError):
                await node.read(ledger, 0, 0)
            await node.add(ledger, KEY, run_of(ledger, 0))
        for ledger in (4, 49, 61):
            with pytest.raises(ReadOnlyBookieError):
                await node.add(ledger, KEY, run_of(ledger, 0))
        await scene.close()

    drive(main())


@given(st.sets(st.integers(0, 60)), st.integers(0, 60))
def test_the_horizon_is_around_the_doubtful(doubtful: set[int], below: int) -> None:
    inside = sorted(each for each in doubtful if each < below)
    horizon = Horizon.around(inside, below)
    assert [each for each in range(70) if each in horizon] == inside
    rows = [list(each) for each in horizon.clean]
    assert decode_ranges(rows) == horizon.clean


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
    assert [each.sequence for each in _records(data, header.identity)] == [1, 2, 4]


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
