"""`check` and `dump` show what is on a disk, and every kind of damage to it."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from typing import cast

import pytest

from quire.entry import EntryId
from quire.errors import ConfigurationError, CorruptStorageError
from quire.storage.disk.blocks import BLOCK_BYTES
from quire.storage.disk.port import File
from quire.storage.entries.checkpoint import KIND, LOST
from quire.storage.identity.cookie import LAYOUT_OF_PARTS, BookieCookie, write_first_cookie
from quire.storage.journal.record import (
    LAST_OF_BATCH,
    RecordKind,
    SegmentHeader,
    encode_record,
    encode_segment,
)
from quire.storage.journal.segments import segment_path
from quire.storage.offline.check import Findings, check_disk
from quire.storage.offline.dump import Row, describe
from tests.storage.scene import BOOKIE, CLUSTER, KEY, Scene, drive, run_of
from tests.support.sub_disk import SubDisk

PAYLOAD = bytes(500)


async def written(*, is_closed: bool = True) -> Scene:
    """Return a stopped bookie with two entry logs and, unless it was closed, a journal that
    counts.
    """
    scene = Scene()
    for first in (0, 40):
        node = await scene.start()
        for entry in range(first, first + (8 if first else 40)):
            await node.add(7, KEY, run_of(7, entry, payload=PAYLOAD))
        await node.add(8 + first, KEY, run_of(8 + first, 0))
        await node.read_tail(100 + first, fence_key=KEY)
        await (scene.close() if is_closed or not first else scene.kill())
    return scene


async def checked(
    scene: Scene, on_progress: Callable[[int, int], None] = lambda done, total: None
) -> Findings:
    mount = scene.disk.mount()
    try:
        return await check_disk(mount, on_progress)
    finally:
        await mount.close()


def last_segment(scene: Scene) -> str:
    """Return the journal segment that the bookie wrote to last."""
    return segment_path(scene.node._engine._journal.position().segment)


async def rows(path: str, data: bytes) -> list[Row]:
    return [row async for row in describe(path, data)]


async def rows_of_damaged(path: str, data: bytes) -> list[Row]:
    """Return what is described before the damage is told."""
    found: list[Row] = []
    try:
        async for row in describe(path, data):
            found.append(row)  # noqa: PERF401
    except CorruptStorageError:
        return found
    raise AssertionError("no damage was told")


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_sound_disk_is_found_sound_and_left_alone(is_closed: bool) -> None:
    async def main() -> None:
        scene = await written(is_closed=is_closed)
        before = scene.disk.files()
        done: list[tuple[int, int]] = []
        findings = await checked(scene, lambda *progress: done.append(progress))
        logs = [path for path in before if path.endswith(".entries")]
        assert done == [(at, len(logs)) for at in range(1, len(logs) + 1)] != []
        assert findings.damage == []
        assert findings.bookie == BOOKIE
        assert findings.ledgers == {7, 8, 48}
        assert findings.chunks >= 2
        assert (findings.records > 0) is not is_closed
        assert scene.disk.files() == before

    drive(main())


@pytest.mark.parametrize("is_closed", [True, False])
@pytest.mark.parametrize("dropped", [3, 60])
def test_the_highest_ledger_is_the_one_that_the_bookie_says_when_it_serves(
    is_closed: bool, dropped: int
) -> None:
    """One with a fence alone proves nothing; one that was dropped counts."""

    async def main() -> None:
        scene = await written(is_closed=is_closed)
        assert (await checked(scene)).highest == 48
        node = await scene.start()
        await node._storage.retire([dropped])
        assert node.highest() == max(48, dropped)
        await (scene.close() if is_closed else scene.kill())
        assert (await checked(scene)).highest == max(48, dropped)

    drive(main())


def test_a_bookie_that_never_served_has_no_highest_ledger() -> None:
    async def main() -> None:
        scene = Scene()
        await scene.formatted(scene.disk.mount())
        scene.disk.kill()
        assert (await checked(scene)).highest == -1

    drive(main())


def test_a_damaged_chunk_is_named_by_ledger_and_entries() -> None:
    async def main() -> None:
        scene = await written()
        path = next(path for path in scene.disk.files() if path.endswith(".entries"))
        scene.disk.rot(path, 54 + 3000)
        (damage,) = (await checked(scene)).damage
        assert (damage.path, damage.ledger, damage.first) == (path, 7, 0)
        assert damage.last is not None
        assert damage.last >= EntryId(3)

    drive(main())


@pytest.mark.parametrize("kind", ["journal/", "entries/", "checkpoint-0", "checkpoint-1"])
def test_damage_of_every_kind_of_file_is_found(kind: str) -> None:
    async def main() -> None:
        scene = await written(is_closed=False)
        if kind == "journal/":
            paths = [last_segment(scene)]
        else:
            paths = [path for path in scene.disk.files() if path.startswith(kind)]
        for path in paths:
            scene.disk.rot(path, 4096 + 60 if kind == "journal/" else 30)
        assert any(damage.path in paths for damage in (await checked(scene)).damage)

    drive(main())


def test_a_disk_with_nothing_but_a_cookie_is_found_damaged() -> None:
    async def main() -> None:
        scene = await written()
        mount = scene.disk.mount()
        for path in scene.disk.files():
            if path != "cookie":
                await mount.unlink(path)
        await mount.close()
        assert [(each.path, each.reason) for each in (await checked(scene)).damage] == [
            (KIND, LOST)
        ]

    drive(main())


def test_a_damaged_or_missing_cookie_is_refused() -> None:
    async def main() -> None:
        scene = await written()
        scene.disk.rot("cookie", 50)
        with pytest.raises(CorruptStorageError, match="cookie"):
            await checked(scene)
        scene = Scene()
        with pytest.raises(ConfigurationError, match="no cookie"):
            await checked(scene)

    drive(main())


def test_a_part_of_a_bookie_is_no_bookie_that_lost_what_it_had() -> None:
    async def main() -> None:
        scene = Scene()
        mount = scene.disk.mount()
        cookie = BookieCookie(BOOKIE, CLUSTER, LAYOUT_OF_PARTS, part="p" * 32)
        await write_first_cookie(mount, cookie)
        with pytest.raises(ConfigurationError, match="name its main directory"):
            await check_disk(mount)

    drive(main())


def test_every_kind_of_file_is_described() -> None:
    async def main() -> None:
        scene = await written(is_closed=False)
        parts: dict[str, set[object]] = {}
        for path, data in scene.disk.files().items():
            for row in await rows(path, data):
                parts.setdefault(path.split("/")[0].split("-")[0], set()).add(row["part"])
        assert parts["cookie"] == {"cookie"}
        assert parts["checkpoint"] == {"checkpoint"}
        assert parts["journal"] >= {"segment", "run", "ledger", "fence", "end"}
        assert parts["entries"] == {"entry-log", "chunk", "state", "reserve"}
        assert parts["reserve"] == {"reserve"}

    drive(main())


def test_damage_ends_a_description() -> None:
    async def main() -> None:
        scene = await written(is_closed=False)
        files = scene.disk.files()
        journal = last_segment(scene)
        with pytest.raises(CorruptStorageError, match="match no file"):
            await rows("notes.txt", b"hello")
        for path, at in ((journal, 4096 + 50), ("cookie", 60), ("checkpoint-0", 60)):
            damaged = bytearray(files[path])
            damaged[at] ^= 1
            with pytest.raises(CorruptStorageError):
                await rows(path, bytes(damaged))

    asyncio.run(main())


def test_a_description_finds_what_a_check_does() -> None:
    async def main() -> None:
        scene = await written()
        path = next(each for each in scene.disk.files() if each.endswith(".entries"))
        scene.disk.rot(path, 54 + 30)
        found = await rows_of_damaged(path, scene.disk.files()[path])
        assert [row["damaged"] for row in found if row["part"] == "chunk"].count(True) == 1
        assert found[-1]["part"] == "state"
        path = last_segment(scene)
        whole = scene.disk.files()[path]
        with pytest.raises(CorruptStorageError, match="cut"):
            await rows(path, whole[:-BLOCK_BYTES])

    drive(main())


def test_garbage_that_begins_as_a_state_file_does_is_damage() -> None:
    async def main() -> None:
        with pytest.raises(CorruptStorageError, match="not the title"):
            await rows("x", b"quire x v" + b"9" * 5000 + b" crc32c=00000000\n")

    drive(main())


def test_a_record_of_a_later_version_ends_a_description() -> None:
    """It is an error that names the file, and no ValueError."""
    header = SegmentHeader(1, 3, 0, 2 * BLOCK_BYTES, "b")
    record = encode_record(cast("RecordKind", 9), b"", 1, 0, 3, LAST_OF_BATCH)
    data = (encode_segment(header) + record).ljust(2 * BLOCK_BYTES, b"\0")

    with pytest.raises(CorruptStorageError, match=r"later\.journal.*unknown kind"):
        drive(rows("later.journal", data))


@pytest.mark.parametrize("kind", ["entries", "checkpoint"])
def test_a_file_that_cannot_be_read_is_damage_and_the_rest_is_looked_at(kind: str) -> None:
    async def main() -> None:
        scene = await written()
        mount = scene.disk.mount()
        bad = next(path for path in sorted(scene.disk.files()) if path.startswith(kind))

        class Unreadable(SubDisk):
            async def open(self, path: str, *, create: bool = False) -> File:
                if path == bad:
                    raise OSError(errno.EIO, "for the test", path)
                return await mount.open(path, create=create)

            def _at(self, path: str) -> str:
                return path

        findings = await check_disk(Unreadable(mount, ""))
        await mount.close()
        assert [each.path for each in findings.damage] == [bad]
        assert findings.chunks or kind == "checkpoint"

    drive(main())


def test_retired_ids_are_shown_and_their_loss_is_reported() -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        await node._storage.retire([3, 4, 9])
        await node._storage.retire([5])
        await scene.close()
        assert (await checked(scene)).damage == []
        rows = [row async for row in describe("retired-0", scene.disk.files()["retired-0"])]
        assert rows[0] == {
            "part": "retired-ids",
            "generation": 2,
            "agreed": 0,
            "bookie": BOOKIE,
            "bytes": len(scene.disk.files()["retired-0"]),
        }
        assert rows[1:] == [
            {"part": "deleted", "first": 3, "last": 5},
            {"part": "deleted", "first": 9, "last": 9},
        ]
        mount = scene.disk.mount()
        await mount.unlink("retired-0")
        await mount.close()
        (damage,) = (await checked(scene)).damage
        assert (damage.path, damage.reason) == (
            "retired-0",
            "the checkpoint needs generation 2, the newest found is 1",
        )

    drive(main())
