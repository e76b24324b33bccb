"""The real disk: one directory of a local file system, behind port 3.

Blocking calls run on two small thread pools, one for reads and one for everything else, so that a
slow flush never queues in front of a read. They are the only threads of a bookie; a small read of
what the page cache holds needs none. A synced write is
one hop: `pwritev` and `fdatasync` in the same job, because a hop costs as much as a small write.

Invariants: paths never leave the root; the directory is locked while a `LocalDisk` is open, so two
bookies cannot share it; a file descriptor is closed only after its last job ended, even when the
task that started the job was cancelled (a descriptor closed too early is soon the number of another
file).
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future as Job
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from quire.errors import ConfigurationError
from quire.storage.disk import DiskSpace

LOCK_NAME: Final = "LOCK"
BUFFERS_MAX: Final = 1024
"""IOV_MAX on Linux: buffers one `pwritev` may take."""

THREADS: Final = 4
"""Per pool: journal, next segment, flush and one to spare; reads gain little beyond four."""

AT_ONCE_BYTES_MAX: Final = 256 * 1024
"""A read of so much is tried without a thread first: copying from the page cache takes less than
the way to another thread and back. After so many bytes others get their turn."""

READ_COST_BYTES: Final = 16 * 1024
"""What a read costs however small it is, in bytes copied."""

T = TypeVar("T")


def _check_path(path: str) -> str:
    parts = path.split("/")
    if path and ("\0" in path or any(part in ("", ".", "..") for part in parts)):
        raise ConfigurationError(f"path {path!r} leaves the disk or is not in plain form")
    if path == LOCK_NAME:
        raise ConfigurationError(f"path {path!r} is the disk's own lock")
    return path


def _make_durably(directory: Path) -> None:
    """Make a directory and what is missing above it; what is synced in it must not lose its name.

    Raises OSError.
    """
    missing = [each for each in (directory, *directory.parents) if not each.exists()]
    directory.mkdir(parents=True, exist_ok=True)
    for made in missing:
        descriptor = os.open(made.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _close_unclaimed(opening: Job[tuple[int, int]]) -> None:
    """Close what was opened for a task that is gone."""
    if not opening.cancelled() and opening.exception() is None:
        os.close(opening.result()[0])


def _write_all(descriptor: int, offset: int, data: Sequence[bytes | memoryview]) -> None:
    for at in range(0, len(data), BUFFERS_MAX):
        buffers: list[bytes | memoryview] = list(data[at : at + BUFFERS_MAX])
        while buffers:
            written = os.pwritev(descriptor, buffers, offset)
            offset += written
            while buffers and written >= len(buffers[0]):
                written -= len(buffers.pop(0))
            if buffers and written:
                buffers[0] = memoryview(buffers[0])[written:]


def _done(job: Callable[[], T]) -> T:
    """Do a job. A quota that is used up is a full disk, to those who know what to do then."""
    try:
        return job()
    except OSError as error:
        if error.errno == errno.EDQUOT:
            raise OSError(errno.ENOSPC, error.strerror, error.filename) from error
        raise


def _resolve(answer: asyncio.Future[T], result: T) -> None:
    if not answer.done():
        answer.set_result(result)


def _reject(answer: asyncio.Future[T], error: BaseException) -> None:
    if not answer.done():
        answer.set_exception(error)


class _Pace:
    """Whoever reads in a loop without ever waiting lets others run now and then."""

    def __init__(self) -> None:
        self._bytes = 0

    def is_due(self, size: int) -> bool:
        self._bytes += size + READ_COST_BYTES
        if self._bytes < AT_ONCE_BYTES_MAX:
            return False
        self._bytes = 0
        return True


class LocalFile:
    """An open file of a `LocalDisk`."""

    def __init__(
        self,
        descriptor: int,
        size: int,
        readers: ThreadPoolExecutor,
        writers: ThreadPoolExecutor,
        pace: _Pace,
        path: Path,
    ) -> None:
        self._pace = pace
        self._path = path
        self._descriptor = descriptor
        self._size = size
        self._readers = readers
        self._writers = writers
        self._guard = threading.Lock()
        self._jobs = 0
        self._is_closed = False
        self._reads_at_once = hasattr(os, "RWF_NOWAIT")

    @property
    def size(self) -> int:
        return self._size

    async def write(
        self, offset: int, data: Sequence[bytes | memoryview], *, sync: bool = False
    ) -> None:
        def job() -> None:
            _write_all(self._descriptor, offset, data)
            if sync:
                os.fdatasync(self._descriptor)

        end = offset + sum(map(len, data))
        await self._run(self._writers, job)
        self._size = max(self._size, end)

    async def sync(self) -> None:
        await self._run(self._writers, lambda: os.fdatasync(self._descriptor))

    async def read(self, offset: int, size: int) -> bytes:
        if size <= AT_ONCE_BYTES_MAX and self._reads_at_once:
            data = self._read_at_once(offset, size)
            if data is not None:
                if self._pace.is_due(size):
                    await asyncio.sleep(0)
                return data
        return await self._run(self._readers, lambda: self._read_all(offset, size))

    def _read_at_once(self, offset: int, size: int) -> bytes | None:
        """Return what the page cache holds; None when a disk would have to be waited for."""
        if self._is_closed:
            raise OSError(errno.EBADF, "file is closed")
        buffer = bytearray(size)
        try:
            got = os.preadv(self._descriptor, [buffer], offset, os.RWF_NOWAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                raise
            self._reads_at_once = False  # this file system always waits
            return None
        return bytes(buffer) if got == size else None

    def _read_all(self, offset: int, size: int) -> bytes:
        first = os.pread(self._descriptor, size, offset)
        if len(first) == size or not first:
            return first
        parts, got = [first], len(first)
        while got < size:
            part = os.pread(self._descriptor, size - got, offset + got)
            if not part:
                break
            parts.append(part)
            got += len(part)
        return b"".join(parts)

    async def truncate(self, size: int) -> None:
        await self._run(self._writers, lambda: os.ftruncate(self._descriptor, size))
        self._size = size

    async def close(self) -> None:
        with self._guard:
            if self._is_closed:
                return
            self._is_closed = True
            is_idle = self._jobs == 0
        if is_idle:
            os.close(self._descriptor)

    async def _run(self, pool: ThreadPoolExecutor, job: Callable[[], T]) -> T:
        with self._guard:
            if self._is_closed:
                raise OSError(errno.EBADF, "file is closed")
            self._jobs += 1
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        try:
            pool.submit(self._do, job, loop, answer)
        except RuntimeError:
            self._finished()
            raise OSError(errno.EBADF, "disk is closed") from None
        try:
            return await answer
        except OSError as error:
            error.filename = error.filename or str(self._path)  # which disk it was
            raise

    def _do(
        self, job: Callable[[], T], loop: asyncio.AbstractEventLoop, answer: asyncio.Future[T]
    ) -> None:
        """Do a job in a thread: `wrap_future` would cost as much again as a small write."""
        try:
            settle = partial(_resolve, answer, _done(job))
        except BaseException as error:
            settle = partial(_reject, answer, error)
        self._finished()
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(settle)

    def _finished(self) -> None:
        with self._guard:
            self._jobs -= 1
            must_close = self._is_closed and self._jobs == 0
        if must_close:
            os.close(self._descriptor)


class LocalDisk:
    """A directory that belongs to one bookie.

    Raises `ConfigurationError` when the directory is missing (unless `create`), locked by another
    process or not to be written. `close` must be called by the owner.
    """

    def __init__(self, root: str | Path, *, create: bool = False) -> None:
        self.root: Final = Path(root)
        try:
            if create:
                _make_durably(self.root)
            if not self.root.is_dir():
                raise ConfigurationError(
                    f"{self.root} is not a directory: format a bookie there first"
                )
            self._lock = self._take_lock()
        except OSError as error:
            raise ConfigurationError(f"{self.root} cannot be used: {error.strerror}") from error
        self._pace = _Pace()
        self._readers = ThreadPoolExecutor(THREADS, "quire-disk-read")
        self._writers = ThreadPoolExecutor(THREADS, "quire-disk-write")

    def _take_lock(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(self.root / LOCK_NAME, flags, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            raise ConfigurationError(
                f"{self.root} is in use by another bookie process: stop it or use another directory"
            ) from error
        return descriptor

    async def open(self, path: str, *, create: bool = False) -> LocalFile:
        full = self.root / _check_path(path)
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT | os.O_EXCL if create else 0)

        def job() -> tuple[int, int]:
            descriptor = os.open(full, flags, 0o644)
            return descriptor, os.fstat(descriptor).st_size

        opening = self._submit(job)
        try:
            descriptor, size = await asyncio.wrap_future(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close_unclaimed)
            raise
        return LocalFile(descriptor, size, self._readers, self._writers, self._pace, full)

    async def list(self, directory: str = "") -> list[str]:
        full = self.root / _check_path(directory)
        names = await self._run(lambda: sorted(os.listdir(full)))
        return [name for name in names if directory or name != LOCK_NAME]

    async def make_directory(self, path: str) -> None:
        full = self.root / _check_path(path)
        await self._run(lambda: full.mkdir(exist_ok=True))

    async def rename(self, old: str, new: str) -> None:
        source, target = self.root / _check_path(old), self.root / _check_path(new)
        await self._run(lambda: source.replace(target))

    async def unlink(self, path: str) -> None:
        full = self.root / _check_path(path)
        await self._run(full.unlink)

    async def sync_directory(self, directory: str = "") -> None:
        full = self.root / _check_path(directory)

        def job() -> None:
            descriptor = os.open(full, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

        await self._run(job)

    async def space(self) -> DiskSpace:
        def job() -> DiskSpace:
            status = os.statvfs(self.root)
            return DiskSpace(status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize)

        return await self._run(job)

    async def _run(self, job: Callable[[], T]) -> T:
        return await asyncio.wrap_future(self._submit(job))

    def _submit(self, job: Callable[[], T]) -> Job[T]:
        try:
            return self._writers.submit(_done, job)
        except RuntimeError:
            raise OSError(errno.EBADF, f"disk {self.root} is closed") from None

    async def close(self) -> None:
        """Wait for jobs under way, stop the threads, give up the lock. Harmless when repeated."""
        if self._lock < 0:
            return
        descriptor, self._lock = self._lock, -1
        for pool in (self._readers, self._writers):
            await asyncio.to_thread(pool.shutdown)
        os.close(descriptor)
