"""A stopped bookie's directory is repaired under the identity it has, or not at all."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from quire.errors import ConfigurationError, CorruptStorageError, WrongBookieError
from quire.repair.directory import examine_directory, repair_directory
from quire.storage.identity import format_directory
from quire.storage.options import StorageOptions
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
        done = await repair_directory(tmp_path / "bookie", uri_of(tmp_path), options=SMALL)
        assert (done.bookie, done.aside, done.ledgers) == (bookie, [], 0)
        looked = await examine_directory(tmp_path / "bookie", uri_of(tmp_path))
        assert looked.damage == []

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
