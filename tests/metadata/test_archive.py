"""A backup file: what was written comes back, and nothing else is taken for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.errors import ConfigurationError, CorruptStorageError
from quire.metadata.archive import ArchiveWriter, Saved, Summary, read_archive, verify_archive

RECORDS = [
    Saved("/quire/a", b"one"),
    Saved("/quire/b/c", bytes(range(256))),
    Saved("/quire/d", b""),
]
SUMMARY = Summary("cluster", 1, 17, 1_700_000_000_000, len(RECORDS))


def written(target: Path) -> Path:
    with ArchiveWriter(target) as archive:
        for record in RECORDS:
            archive.add(record)
        archive.finish(SUMMARY)
    return target


def test_a_backup_comes_back(tmp_path: Path) -> None:
    source = written(tmp_path / "backup")
    assert verify_archive(source) == SUMMARY
    assert list(read_archive(source)) == RECORDS
    assert source.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["backup"]


def test_a_backup_is_never_replaced(tmp_path: Path) -> None:
    source = written(tmp_path / "backup")
    with pytest.raises(ConfigurationError, match="never replaced"):
        ArchiveWriter(source)
    with pytest.raises(ConfigurationError, match="cannot be written"):
        ArchiveWriter(tmp_path / "missing" / "backup")


def test_one_that_was_not_finished_leaves_nothing(tmp_path: Path) -> None:
    archive = ArchiveWriter(tmp_path / "backup")
    archive.add(RECORDS[0])
    archive.__exit__(KeyError, KeyError(), None)
    assert list(tmp_path.iterdir()) == []


def test_every_beginning_is_refused(tmp_path: Path) -> None:
    data = written(tmp_path / "backup").read_bytes()
    short = tmp_path / "short"
    for size in range(0, len(data), 5):
        short.write_bytes(data[:size])
        with pytest.raises(CorruptStorageError):
            verify_archive(short)


@given(st.data())
def test_every_changed_byte_is_found(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    tmp_path = tmp_path_factory.mktemp("archive")
    source = written(tmp_path / "backup")
    found = bytearray(source.read_bytes())
    at = data.draw(st.integers(0, len(found) - 1))
    found[at] ^= data.draw(st.integers(1, 255))
    source.write_bytes(found)
    with pytest.raises(CorruptStorageError):
        verify_archive(source)


def test_what_follows_the_end_is_refused(tmp_path: Path) -> None:
    source = written(tmp_path / "backup")
    source.write_bytes(source.read_bytes() + b"{}\n")
    with pytest.raises(CorruptStorageError, match="follows its last line"):
        verify_archive(source)


@pytest.mark.parametrize("content", [b"", b"something else\n", b"quire-backup 2\n"])
def test_another_file_is_not_a_backup(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "other").write_bytes(content)
    with pytest.raises(CorruptStorageError, match="not a backup"):
        verify_archive(tmp_path / "other")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        verify_archive(tmp_path / "missing")
