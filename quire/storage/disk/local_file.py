"""An open file of the real disk (local.py).

A read of bytes in the page cache needs no thread. A synced write is one hop, write and sync
in the same job, because a hop costs as much as a small write; where it can it goes past the page
cache (direct_io.py).

A descriptor is closed only after its last job ended, even when the task that started the job was
cancelled: a descriptor closed too early is soon the number of another file.
"""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from quire.storage.disk.direct_io import Blocks, DirectWrites, fits
from quire.storage.disk.threads import DiskThreads

BUFFERS_MAX: Final = 1024
"""IOV_MAX on Linux: buffers one `pwritev` may take."""

THREADS: Final = 4
"""Per pool: journal, next segment, flush and one to spare; reads gain little beyond four."""

AT_ONCE_BYTES_MAX: Final = 1024 * 1024
"""A read of so much is tried without a thread first: copying from the page cache takes less than
the way to another thread and back, where the job waits until the loop has nothing to do."""

TURN_BYTES: Final = 256 * 1024
"""After so many bytes read without waiting others get their turn."""

READ_COST_BYTES: Final = 16 * 1024
"""Cost of any read, however small, in bytes copied."""

T = TypeVar("T")


class Pace:
    """A caller that reads in a loop without ever waiting lets others run now and then."""

    def __init__(self) -> None:
        self._bytes = 0

    def is_due(self, size: int) -> bool:
        """Count a read that did not wait; return whether it is the turn of others."""
        self._bytes += size + READ_COST_BYTES
        if self._bytes < TURN_BYTES:
            return False
        self._bytes = 0
        return True


class Means:
    """What all files of a disk share."""

    def __init__(self) -> None:
        self.readers: Final = DiskThreads("quire-disk-read", THREADS)
        self.writers: Final = DiskThreads("quire-disk-write", THREADS)
        self.direct: Final = DirectWrites()
        self.pace: Final = Pace()
        self.scratch: Final = memoryview(bytearray(AT_ONCE_BYTES_MAX))
        """The buffer of a read at once: used by the event loop, during that read only."""

    async def close(self) -> None:
        """Wait for the jobs under way and stop the threads."""
        for threads in (self.readers, self.writers):
            await threads.close()


class LocalFile:
    """An open file of a `LocalDisk`."""

    def __init__(self, descriptor: int, size: int, path: Path, means: Means) -> None:
        self._means = means
        self._path = path
        self._descriptor = descriptor
        self._direct: int | None = None
        self._size = size
        self._guard = threading.Lock()
        self._opening = threading.Lock()
        """Never taken by the event loop, which must not wait for a disk."""
        self._jobs = 0
        self._is_closed = False
        self._reads_at_once = hasattr(os, "RWF_NOWAIT")

    @property
    def size(self) -> int:
        return self._size

    def write(
        self, offset: int, data: Sequence[bytes | memoryview], *, sync: bool = False
    ) -> asyncio.Future[None]:
        size = sum(map(len, data))
        blocks = None
        if sync and fits(offset, size, self._size):
            blocks = self._means.direct.copy(data, size)

        def job() -> None:
            if blocks is None:
                _write_all(self._descriptor, offset, data)
            else:
                self._write_directly(offset, blocks)
            if sync:
                os.fdatasync(self._descriptor)
            with self._guard:
                self._size = max(self._size, offset + size)

        return self._run(self._means.writers, job)

    def _write_directly(self, offset: int, blocks: Blocks) -> None:
        """Write whole blocks past the page cache, or the ordinary way where that is not known."""
        direct = self._means.direct
        try:
            descriptor = self._open_directly()
            try:
                _write_all(descriptor, offset, [blocks.filled])
            except OSError as error:
                if descriptor == self._descriptor:
                    raise
                direct.give_up(error)
                _write_all(self._descriptor, offset, [blocks.filled])
        finally:
            direct.give_back(blocks)

    def _open_directly(self) -> int:
        """Return the descriptor for direct writes; the ordinary one without direct writes."""
        with self._opening:
            if self._direct is None:
                self._direct = self._means.direct.open(self._descriptor)
            return self._descriptor if self._direct is None else self._direct

    def sync(self) -> asyncio.Future[None]:
        return self._run(self._means.writers, lambda: os.fdatasync(self._descriptor))

    async def read(self, offset: int, size: int) -> bytes:
        if size <= AT_ONCE_BYTES_MAX and self._reads_at_once:
            data = self._read_at_once(offset, size)
            if data is not None:
                if self._means.pace.is_due(size):
                    await asyncio.sleep(0)
                return data
        return await self._run(self._means.readers, lambda: self._read_all(offset, size))

    def will_read(self, offset: int, size: int) -> None:
        """See `File.will_read`. Nothing is begun while the disk keeps all callers waiting: if it
        hangs, the event loop must not fill its queue and wait for a place in it.
        """
        if self._is_closed or self._means.readers.are_busy or not hasattr(os, "posix_fadvise"):
            return
        with suppress(OSError):
            os.posix_fadvise(self._descriptor, offset, size, os.POSIX_FADV_WILLNEED)

    def _read_at_once(self, offset: int, size: int) -> bytes | None:
        """Return the bytes from the page cache; None when the disk would have to be waited for."""
        if self._is_closed:
            raise OSError(errno.EBADF, "file is closed")
        buffer = self._means.scratch[:size]
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
        await self._run(self._means.writers, lambda: os.ftruncate(self._descriptor, size))
        self._size = size

    async def close(self) -> None:
        with self._guard:
            if self._is_closed:
                return
            self._is_closed = True
            is_idle = self._jobs == 0
        if is_idle:
            self._close_descriptors()

    def _run(self, threads: DiskThreads, job: Callable[[], T]) -> asyncio.Future[T]:
        def counted() -> T:
            try:
                return job()
            except OSError as error:
                error.filename = error.filename or str(self._path)  # which disk it was
                raise
            finally:
                self._finished()

        with self._guard:
            if self._is_closed:
                raise OSError(errno.EBADF, "file is closed")
            self._jobs += 1
        try:
            return threads.run(counted)
        except OSError:
            self._finished()
            raise

    def _finished(self) -> None:
        with self._guard:
            self._jobs -= 1
            must_close = self._is_closed and self._jobs == 0
        if must_close:
            self._close_descriptors()

    def _close_descriptors(self) -> None:
        os.close(self._descriptor)
        if self._direct is not None:
            os.close(self._direct)


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
