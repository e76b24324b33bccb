"""What only the real disk has: a lock, threads, descriptors."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import subprocess
import threading
from pathlib import Path

import pytest

from quire.errors import ConfigurationError, DirectoryInUseError
from quire.storage.disk.local import LocalDisk
from quire.storage.disk.local_file import THREADS
from quire.storage.disk.port import NotAFileError


def test_two_bookies_cannot_share_a_directory(tmp_path: Path) -> None:
    async def main() -> None:
        disk = LocalDisk(tmp_path)
        with pytest.raises(DirectoryInUseError, match=rf"{tmp_path}.*pid {os.getpid()}"):
            LocalDisk(tmp_path)
        await disk.close()
        await disk.close()
        again = LocalDisk(tmp_path)
        assert await again.list() == []
        await again.close()

    asyncio.run(main())


def test_a_directory_that_was_only_looked_at_is_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    left: list[bool] = []

    async def main() -> None:
        for change in (False, True, False):
            disk = LocalDisk(tmp_path)
            with pytest.raises(DirectoryInUseError):
                LocalDisk(tmp_path)
            assert await disk.list() == ["thesis.tex"]
            await (await disk.open("thesis.tex")).close()
            if change:
                await disk.make_directory("entries")
                (tmp_path / "entries").rmdir()
            await disk.close()
            left.append("LOCK" in os.listdir(tmp_path))
        assert left == [False, True, True], "where a bookie lives it stays"

    asyncio.run(main())


def test_a_lock_that_was_removed_locks_nobody_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever had opened it before has the lock of a file that nobody else finds."""
    real_flock = fcntl.flock
    removals = [tmp_path / "LOCK"]

    def late_flock(descriptor: int, operation: int) -> None:
        if removals and removals[0].exists():
            removals.pop().unlink()
        real_flock(descriptor, operation)

    async def main() -> None:
        monkeypatch.setattr(fcntl, "flock", late_flock)
        disk = LocalDisk(tmp_path)
        with pytest.raises(DirectoryInUseError):
            LocalDisk(tmp_path)
        await disk.close()

    asyncio.run(main())


@pytest.mark.parametrize("replace", [False, True])
def test_a_removed_lock_file_lets_no_second_process_in(tmp_path: Path, replace: bool) -> None:
    async def main() -> None:
        disk = LocalDisk(tmp_path)
        (tmp_path / "LOCK").unlink()
        if replace:
            (tmp_path / "LOCK").touch()
        with pytest.raises(DirectoryInUseError) as refused:
            LocalDisk(tmp_path)
        assert refused.value.pid == os.getpid()
        await (await disk.open("a", create=True)).close()  # the first goes on
        await disk.close()
        await LocalDisk(tmp_path).close()

    asyncio.run(main())


def test_a_link_to_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        disk = LocalDisk(tmp_path / "disk", create=True)
        (tmp_path / "link").symlink_to("disk")
        with pytest.raises(DirectoryInUseError):
            LocalDisk(tmp_path / "link")
        await disk.close()

    asyncio.run(main())


def test_a_directory_made_again_under_its_name_is_another_one(tmp_path: Path) -> None:
    """The first bookie keeps its own files, and touches nothing of the second."""

    async def main() -> None:
        first = LocalDisk(tmp_path / "disk", create=True)
        await first.make_directory("entries")
        (tmp_path / "disk").rename(tmp_path / "moved")
        second = LocalDisk(tmp_path / "disk", create=True)
        await (await first.open("entries/1", create=True)).close()
        await first.rename("entries/1", "entries/2")
        await first.sync_directory("entries")
        assert await first.list("entries") == ["2"]
        assert await second.list() == []
        assert (tmp_path / "moved" / "entries" / "2").exists()
        await first.unlink("entries/2")
        await first.close()
        await second.close()

    asyncio.run(main())


@pytest.mark.parametrize("read_only", [False, True])
def test_a_pipe_or_a_device_is_not_opened_as_a_file(tmp_path: Path, read_only: bool) -> None:
    """A pipe without a writer would hold whoever opens it to read, for good."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/null")

    async def main() -> None:
        disk = LocalDisk(tmp_path, read_only=read_only)
        before = len(os.listdir("/proc/self/fd"))
        for name in ("pipe", "device"):
            with pytest.raises(NotAFileError, match=f"a {name} and not a file"):
                await disk.open(name)
        assert len(os.listdir("/proc/self/fd")) == before
        await disk.close()

    asyncio.run(main())


def test_a_child_process_does_not_keep_the_lock(tmp_path: Path) -> None:
    with asyncio.Runner() as runner:

        async def opened() -> LocalDisk:
            return LocalDisk(tmp_path)

        disk = runner.run(opened())
        with subprocess.Popen(["cat"], stdin=subprocess.PIPE, close_fds=False) as child:
            runner.run(disk.close())
            runner.run(runner.run(opened()).close())
            assert child.stdin is not None
            child.stdin.close()


def test_a_disk_that_is_only_read_needs_nothing_written(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"kept")

    async def main() -> None:
        disk = LocalDisk(tmp_path, read_only=True)
        assert sorted(os.listdir(tmp_path)) == ["a"], "a lock file is a file too"
        with pytest.raises(DirectoryInUseError):
            LocalDisk(tmp_path)
        file = await disk.open("a")
        assert await file.read(0, 4) == b"kept"
        with pytest.raises(OSError, match="Bad file descriptor"):
            await file.write(0, [b"lost"])
        await file.close()
        await disk.close()

    asyncio.run(main())


def test_a_file_is_opened_to_be_read_however_much_is_being_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = threading.Event()
    real_sync = os.fdatasync

    def slow_sync(descriptor: int) -> None:
        go.wait()
        real_sync(descriptor)

    async def main() -> None:
        disk = LocalDisk(tmp_path)
        (tmp_path / "a").write_bytes(b"old")
        file = await disk.open("b", create=True)
        monkeypatch.setattr(os, "fdatasync", slow_sync)
        writing = [asyncio.ensure_future(file.sync()) for _ in range(2 * THREADS)]
        try:
            async with asyncio.timeout(10):
                old = await disk.open("a")
        finally:
            go.set()
        assert await old.read(0, 3) == b"old"
        await asyncio.gather(*writing)
        await disk.close()

    asyncio.run(main())


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="absent"):
        LocalDisk(tmp_path / "absent")


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="file/disk cannot be used: Not a directory"):
        LocalDisk(tmp_path / "file" / "disk", create=True)


def test_create_makes_the_directory(tmp_path: Path) -> None:
    async def main() -> None:
        disk = LocalDisk(tmp_path / "a" / "b", create=True)
        await disk.close()
        assert (tmp_path / "a" / "b").is_dir()

    asyncio.run(main())


def test_a_closed_disk_refuses(tmp_path: Path) -> None:
    async def main() -> None:
        disk = LocalDisk(tmp_path)
        file = await disk.open("a", create=True)
        await disk.close()
        with pytest.raises(OSError, match="closed"):
            await disk.list()
        with pytest.raises(OSError, match="closed"):
            await file.sync()
        await file.close()

    asyncio.run(main())


def test_a_cancelled_write_keeps_its_descriptor_until_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closing under a running job would hand its file number to another file."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        started, go = asyncio.Event(), asyncio.Event()
        closed: list[int] = []
        real_close, real_write = os.close, os.pwritev

        def slow_write(descriptor: int, buffers: list[bytes], offset: int) -> int:
            loop.call_soon_threadsafe(started.set)
            asyncio.run_coroutine_threadsafe(go.wait(), loop).result()
            assert not closed
            return real_write(descriptor, buffers, offset)

        monkeypatch.setattr(os, "pwritev", slow_write)
        disk = LocalDisk(tmp_path)
        file = await disk.open("a", create=True)
        writing = asyncio.ensure_future(file.write(0, [b"late"]))
        await started.wait()
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing

        def recorded_close(descriptor: int) -> None:
            closed.append(descriptor)
            real_close(descriptor)

        monkeypatch.setattr(os, "close", recorded_close)
        await file.close()
        assert closed == []
        go.set()
        await disk.close()
        assert len(closed) == 3, "the file, the lock file, the directory"
        assert (tmp_path / "a").read_bytes() == b"late"

    asyncio.run(main())


def test_an_open_that_is_cancelled_leaves_no_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go = threading.Event(), threading.Event()
    real_open = os.open

    def slow_open(
        path: str | Path, flags: int, mode: int = 0o777, *, dir_fd: int | None = None
    ) -> int:
        if Path(path).name == "a":
            begun.set()
            go.wait()
        return real_open(path, flags, mode, dir_fd=dir_fd)

    async def main() -> None:
        disk = LocalDisk(tmp_path)
        (tmp_path / "a").touch()
        before = len(os.listdir("/proc/self/fd"))
        monkeypatch.setattr(os, "open", slow_open)
        opening = asyncio.ensure_future(disk.open("a"))
        await asyncio.to_thread(begun.wait)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        go.set()
        await disk.close()
        locks, pools = 2, len(os.listdir("/proc/self/fd"))
        assert pools <= before - locks

    asyncio.run(main())


def test_a_directory_that_is_made_is_there_after_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a bookie syncs in it is lost with its name."""
    synced: list[Path] = []

    def fsync(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())

    monkeypatch.setattr(os, "fsync", fsync)

    async def main() -> None:
        await LocalDisk(tmp_path / "new" / "bookie", create=True).close()
        assert set(synced) == {tmp_path, tmp_path / "new"}
        await LocalDisk(tmp_path / "new" / "bookie", create=True).close()
        assert len(synced) == 2, "nothing was made"

    asyncio.run(main())


@pytest.mark.parametrize("call", ["open", "pwritev"])
def test_a_quota_that_is_used_up_is_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    async def main() -> None:
        disk = LocalDisk(tmp_path)
        file = await disk.open("file", create=True)

        async def use() -> None:
            if call == "open":
                await disk.open("other", create=True)
            else:
                await file.write(0, [b"x"], sync=True)

        with monkeypatch.context() as patch:
            patch.setattr(os, call, refuse)
            with pytest.raises(OSError, match="quota") as caught:
                await use()
        assert caught.value.errno == errno.ENOSPC
        await file.close()
        await disk.close()

    asyncio.run(main())


def test_a_full_disk_needs_no_lock_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_open = os.open

    def full(path: str | Path, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & os.O_CREAT:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real_open(path, flags, mode, dir_fd=dir_fd)

    async def main() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", full)
            disk = LocalDisk(tmp_path)
        with pytest.raises(DirectoryInUseError):
            LocalDisk(tmp_path)
        await disk.close()

    asyncio.run(main())


def test_a_link_in_place_of_the_lock_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "LOCK").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigurationError, match="cannot be used"):
        LocalDisk(tmp_path / "disk")
    assert not (tmp_path / "elsewhere").exists()
