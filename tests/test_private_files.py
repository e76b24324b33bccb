"""Files and directories are for their owner alone, even with a umask that grants everything."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from quire.cluster import LocalCluster
from quire.metastore.sqlite_file import SqliteFile
from quire.metastore.sqlite_path import Mode
from quire.private_files import complaint, make_directories, make_file
from quire.storage.disk.local import LOCK_NAME, LocalDisk
from quire.storage.identity.directories import open_to_serve


@pytest.fixture(autouse=True)
def generous() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_missing_parents_are_for_their_owner_too(tmp_path: Path) -> None:
    wanted = tmp_path / "a" / "b"
    assert make_directories(wanted) == [tmp_path / "a", wanted]
    assert [_mode(wanted.parent), _mode(wanted)] == [0o700, 0o700]
    assert make_directories(wanted) == []


def test_a_file_in_the_place_of_a_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(FileExistsError):
        make_directories(tmp_path / "a")


def test_what_a_bookie_makes_is_for_its_owner(tmp_path: Path) -> None:
    root = tmp_path / "above" / "bookie"

    async def main() -> None:
        disk = LocalDisk(root, create=True)
        await disk.make_directory("journal")
        await (await disk.open("journal/1", create=True)).close()
        await disk.close()

    asyncio.run(main())
    assert [_mode(each) for each in (root.parent, root, root / "journal")] == [0o700] * 3
    assert [_mode(root / each) for each in (LOCK_NAME, "journal/1")] == [0o600] * 2


def test_a_sqlite_store_and_the_files_beside_it_are_for_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    store = SqliteFile(str(path), lambda: 0.0, Mode.CREATE)
    assert {each.name: _mode(each) for each in tmp_path.iterdir()} == {
        "metadata.db": 0o600,
        "metadata.db-wal": 0o600,
        "metadata.db-shm": 0o600,
    }
    store.close()


def test_a_store_behind_a_symbolic_link_is_for_its_owner(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "metadata.db")
    SqliteFile(str(tmp_path / "link"), lambda: 0.0, Mode.CREATE).close()
    assert _mode(tmp_path / "metadata.db") == 0o600


def test_an_existing_file_keeps_its_bytes_and_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    path.write_bytes(b"kept")
    path.chmod(0o640)
    make_file(str(path))
    assert (path.read_bytes(), _mode(path)) == (b"kept", 0o640)


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o701])
def test_a_wider_directory_is_served_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int
) -> None:
    root = tmp_path / "bookie"
    root.mkdir()

    async def serve() -> None:
        disk = await open_to_serve(root)
        await disk.close()

    root.chmod(0o700)
    asyncio.run(serve())
    assert not caplog.records
    root.chmod(mode)
    asyncio.run(serve())
    assert [each.levelno for each in caplog.records] == [logging.WARNING]
    assert f"run `chmod 0700 {root}`" in caplog.text
    assert _mode(root) == mode, "an operator may have meant it"


def test_a_local_cluster_makes_its_directory_for_its_owner_and_names_a_wider_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "cluster"
    cluster = LocalCluster(directory)
    cluster._make_directory()
    assert _mode(directory) == 0o700
    assert not caplog.records
    (directory / "metadata.db").touch()
    directory.chmod(0o755)
    cluster._make_directory()
    assert f"run `chmod 0700 {directory}`" in caplog.text
    assert f"run `chmod 0600 {directory / 'metadata.db'}`" in caplog.text


def test_what_cannot_be_looked_at_is_not_complained_of(tmp_path: Path) -> None:
    assert complaint(tmp_path / "missing") is None
