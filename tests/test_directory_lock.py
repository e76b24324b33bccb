"""A lock on a directory: which process holds it, and where locks are not to be had."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from quire.directory_lock import find_holder, lock_directory, unlock_directory
from quire.errors import DirectoryInUseError

LOCKS = """\
1: POSIX  ADVISORY  WRITE 17 {device} 0 EOF
2: FLOCK  ADVISORY  WRITE 4711 {device} 0 EOF
3: -> FLOCK  ADVISORY  WRITE 4712 {device} 0 EOF
4: FLOCK  ADVISORY  WRITE 12 00:00:1 0 EOF
"""


def _device(path: Path) -> str:
    status = path.stat()
    major, minor = os.major(status.st_dev), os.minor(status.st_dev)
    return f"{major:02x}:{minor:02x}:{status.st_ino}"


@pytest.mark.parametrize(
    ("locks", "holder"),
    [
        (LOCKS, 4711),
        ("", None),
        ("1: FLOCK  ADVISORY  WRITE 0 {device} 0 EOF\n", None),
        ("1: FLOCK  ADVISORY  WRITE -1 {device} 0 EOF\n", None),
        ("nonsense\n\n2:\n", None),
    ],
)
def test_the_holder_is_found(tmp_path: Path, locks: str, holder: int | None) -> None:
    text = locks.format(device=_device(tmp_path))
    assert find_holder(tmp_path.stat(), text) == holder


def test_a_second_lock_is_refused_at_once_with_the_pid(tmp_path: Path) -> None:
    descriptor = lock_directory(tmp_path, "another test")
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(DirectoryInUseError, match=rf"another test \(pid {os.getpid()}\)"):
        lock_directory(tmp_path, "another test")
    assert len(os.listdir("/proc/self/fd")) == before, "a refusal leaks no descriptor"
    unlock_directory(descriptor)
    unlock_directory(lock_directory(tmp_path, "another test"))


def test_a_forked_child_does_not_keep_the_lock(tmp_path: Path) -> None:
    descriptor = lock_directory(tmp_path, "another test")
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        os.write(ready[1], b"x")
        os.read(go[0], 1)
        os._exit(0)
    try:
        os.read(ready[0], 1)
        with pytest.raises(DirectoryInUseError):
            lock_directory(tmp_path, "another test")
        unlock_directory(descriptor)
        unlock_directory(lock_directory(tmp_path, "another test"))
    finally:
        os.write(go[1], b"x")
        os.waitpid(child, 0)
        for end in (*ready, *go):
            os.close(end)


@pytest.mark.parametrize("code", [errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_such_locks_is_used_without(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    code: int,
) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", refuse)
    unlock_directory(lock_directory(tmp_path, "another test"))
    assert "cannot be locked" in caplog.text


def test_another_error_of_the_lock_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int, operation: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(fcntl, "flock", fail)
    with pytest.raises(OSError, match="Input/output"):
        lock_directory(tmp_path, "another test")
