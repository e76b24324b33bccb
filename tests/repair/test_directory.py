"""A stopped bookie's directory is repaired under the identity it has, or not at all."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from quire.errors import ConfigurationError, CorruptStorageError, WrongBookieError
from quire.metastore import open_store
from quire.repair.directory import examine_directory, repair_directory
from quire.storage.disk.local import LocalDisk
from quire.storage.identity.cookie import read_cookie
from quire.storage.identity.directories import open_directory
from quire.storage.identity.identity import format_directory
from quire.storage.journal.options import StorageOptions
from quire.storage.node import BookieNode
from quire.storage.offline.check import check_disk
from tests.storage.scene import KEY, run_of
from tests.support.command import quire

SMALL = StorageOptions(segment_bytes=64 * 1024)


def uri_of(path: Path) -> str:
    return f"sqlite://{path}/metadata.db"


def names(path: Path) -> list[Path]:
    return sorted(path.rglob("*"))


def test_a_directory_that_is_nobodys_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        directory = tmp_path / "bookie"
        await format_directory(directory, uri_of(tmp_path))
        for damage, error in (
            (lambda: (directory / "cookie").write_bytes(b"nonsense"), CorruptStorageError),
            ((directory / "cookie").unlink, ConfigurationError),
            (lambda: shutil.rmtree(directory), ConfigurationError),
        ):
            damage()
            before = names(tmp_path)
            for work in (examine_directory, repair_directory):
                with pytest.raises(error):
                    await work(directory, uri_of(tmp_path))
            assert names(tmp_path) == before

    asyncio.run(main())


def test_a_look_at_a_damaged_directory_needs_no_disk_that_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `bookie check` and a dry `bookie repair` do works on a read-only mount."""
    directory, open_file = tmp_path / "bookie", os.open

    def refuse(*_: object, **__: object) -> NoReturn:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    def open_to_read(path: str | Path, flags: int, *more: int, **named: int) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC):
            refuse()
        return open_file(path, flags, *more, **named)

    async def main() -> None:
        await format_directory(directory, uri_of(tmp_path))
        store = await open_store(uri_of(tmp_path))
        (directory / "checkpoint-1").write_bytes(b"nonsense")
        before = names(tmp_path)
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", open_to_read)
            for change in ("unlink", "rename", "replace", "mkdir", "truncate", "ftruncate"):
                patch.setattr(os, change, refuse)
            looked = await examine_directory(directory, uri_of(tmp_path))
            disk = await open_directory(directory, read_only=True)
            checked = await check_disk(disk)
            await disk.close()
            with pytest.raises(ConfigurationError, match="Read-only file system"):
                await repair_directory(directory, uri_of(tmp_path))
        assert looked.damage
        assert checked.damage
        assert names(tmp_path) == before
        await store.close()

    asyncio.run(main())


def test_a_bookie_of_another_cluster_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        (tmp_path / "other").mkdir()
        await format_directory(tmp_path / "bookie", uri_of(tmp_path))
        await format_directory(tmp_path / "second", uri_of(tmp_path / "other"))
        with pytest.raises(WrongBookieError):
            await repair_directory(tmp_path / "bookie", uri_of(tmp_path / "other"))
        names = sorted(path.name for path in (tmp_path / "bookie").iterdir())
        assert names == ["LOCK", "checkpoint-1", "cookie"]

    asyncio.run(main())


def test_a_sound_directory_may_be_doubted_too(tmp_path: Path) -> None:
    """It may be a copy that is older than what it acknowledged."""

    async def main() -> None:
        bookie = await format_directory(tmp_path / "bookie", uri_of(tmp_path))
        looked = await examine_directory(tmp_path / "bookie", uri_of(tmp_path))
        done = await repair_directory(tmp_path / "bookie", uri_of(tmp_path), options=SMALL)
        assert (done.bookie, done.damage, done.aside, done.ledgers) == (bookie, [], [], 0)
        assert looked == done
        looked = await examine_directory(tmp_path / "bookie", uri_of(tmp_path))
        assert looked.damage == []

    asyncio.run(main())


async def opened(directory: Path) -> tuple[LocalDisk, BookieNode]:
    """Return a formatted directory and its bookie, both to be closed."""
    disk, failures = LocalDisk(directory), list[BaseException]()
    cookie = await read_cookie(disk)
    assert cookie is not None
    whose = (cookie.bookie, cookie.cluster)
    rng = random.Random(1)
    node = await BookieNode.open(disk, *whose, rng=rng, on_fatal=failures.append, options=SMALL)
    return disk, node


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


def nothing(directory: Path) -> None:
    pass


def checkpoints_and_an_index(directory: Path) -> None:
    for name in ("checkpoint-0", "checkpoint-1"):
        flip(directory / name)
    cut(min((directory / "entries").glob("*.entries")))


def a_segment(directory: Path) -> None:
    cut(max((directory / "journal").glob("*.journal")))


def all_entry_logs(directory: Path) -> None:
    shutil.rmtree(directory / "entries")


@pytest.mark.parametrize("damage", [nothing, checkpoints_and_an_index, a_segment, all_entry_logs])
def test_a_look_says_what_a_repair_will_do(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    """Also of ledgers of which there is only a fence, and with no checkpoint to begin with."""

    async def main() -> None:
        home, uri = tmp_path / "bookie", uri_of(tmp_path)
        await format_directory(home, uri)
        for ledger in range(5):
            disk, node = await opened(home)
            await node.add(ledger, KEY, run_of(ledger, 0))
            await node.read_tail(100 + ledger, fence_key=KEY)
            await (node.close() if ledger < 4 else node.abort())
            await disk.close()
        damage(home)
        before = {path: path.is_file() and path.read_bytes() for path in names(home)}
        looked = await examine_directory(home, uri)
        assert {path: path.is_file() and path.read_bytes() for path in names(home)} == before
        assert looked == await repair_directory(home, uri, options=SMALL)
        assert looked.ledgers >= 2 or damage is all_entry_logs

    asyncio.run(main())


def test_a_look_tells_of_damage_inside_entry_logs_too(tmp_path: Path) -> None:
    async def main() -> None:
        home, uri = tmp_path / "bookie", uri_of(tmp_path)
        await format_directory(home, uri)
        disk, node = await opened(home)
        await node.add(7, KEY, run_of(7, *range(9), payload=bytes(1000)))
        await node.close()
        await disk.close()
        (log,) = (home / "entries").glob("*.entries")
        flip(log)
        (found,) = (await examine_directory(home, uri)).damage
        assert (found.ledger, found.first, found.last) == (7, 0, 8)

    asyncio.run(main())


def test_a_directory_of_a_lost_disk_is_replaced_by_an_empty_one(tmp_path: Path) -> None:
    async def main() -> None:
        home, big, uri = tmp_path / "bookie", tmp_path / "big", uri_of(tmp_path)
        bookie = await format_directory(home, uri, entries=[big])
        shutil.rmtree(big)
        with pytest.raises(ConfigurationError, match="mounted"):
            await repair_directory(home, uri, options=SMALL)
        with pytest.raises(ConfigurationError, match="not one of the bookie's"):
            await repair_directory(home, uri, replaced=[tmp_path / "bigger"], options=SMALL)
        assert not (tmp_path / "bigger").exists()
        done = await repair_directory(home, uri, replaced=[big], options=SMALL)
        assert (done.bookie, done.ledgers) == (bookie, 0)
        assert (await examine_directory(home, uri)).damage == []

    asyncio.run(main())


def test_the_command_asks_for_the_word_before_it_replaces(tmp_path: Path) -> None:
    done = quire("bookie", "repair", str(tmp_path), "--replaced", str(tmp_path / "big"))
    assert done.code == 2
    assert "--accept-loss" in done.err
    assert not (tmp_path / "big").exists()
