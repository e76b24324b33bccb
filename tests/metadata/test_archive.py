"""A backup file: what was written comes back, and nothing else is taken for it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.errors import ConfigurationError, CorruptStorageError
from quire.metadata.archive import Archive, ArchiveWriter, Saved, Summary, verify_archive

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
    with Archive(source) as archive:
        assert list(archive.records()) == RECORDS
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


def test_two_backups_to_one_name_never_mix(tmp_path: Path) -> None:
    target = tmp_path / "backup"

    def write_slowly() -> None:
        with ArchiveWriter(target) as slow:
            slow.add(RECORDS[0])
            written(target)
            slow.finish(SUMMARY)

    with pytest.raises(ConfigurationError, match="never replaced"):
        write_slowly()
    assert verify_archive(target) == SUMMARY
    assert [each.name for each in tmp_path.iterdir()] == ["backup"]


@pytest.mark.parametrize("name", ["", ".", "..", "/"])
def test_a_directory_is_never_replaced(name: str) -> None:
    with pytest.raises(ConfigurationError, match="never replaced"):
        ArchiveWriter(Path(name))


def test_a_long_name_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be written"):
        written(tmp_path / ("x" * 256))
    assert written(tmp_path / ("x" * 255)).exists()
    assert len(list(tmp_path.iterdir())) == 1


def test_a_full_disk_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    """`/dev/full` says what a full disk says, also when the file is closed."""

    def write_to_a_full_disk() -> None:
        with ArchiveWriter(tmp_path / "backup") as archive:
            full = os.open("/dev/full", os.O_WRONLY)
            os.dup2(full, archive._file.fileno())
            os.close(full)
            archive.finish(SUMMARY)

    with pytest.raises(ConfigurationError, match="backup cannot be written: No space left"):
        write_to_a_full_disk()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP])
def test_a_file_system_without_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(source: Path, target: Path) -> None:
        raise OSError(code, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    assert verify_archive(written(tmp_path / "backup")) == SUMMARY
    assert [each.name for each in tmp_path.iterdir()] == ["backup"]


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


def test_a_disk_that_fails_while_a_backup_is_read_is_named() -> None:
    failing = Path("/proc/self/mem")  # it opens, and its first byte cannot be read
    with pytest.raises(ConfigurationError, match=r"^/proc/self/mem cannot be read: Input/output"):
        verify_archive(failing)


def test_a_line_nested_without_end_is_damage(tmp_path: Path) -> None:
    source = tmp_path / "deep"
    source.write_bytes(b"quire-backup 1\n" + b"[" * 100_000 + b"\n")
    with pytest.raises(CorruptStorageError, match="line 2 is not a record"):
        verify_archive(source)
