"""The real disk: one directory of a local file system, for port 3.

Blocking calls run on two small groups of threads, one for reads and one for everything else, so
that a slow flush never delays a read. They are the only threads of a bookie. The operations of an
open file are in local_file.py.

A descriptor that is wanted while none is left is waited for, as a slow disk is: clients ask other
bookies meanwhile, and nothing is called damaged, or ends, for a shortage that passes.

Invariants: paths never leave the root; the directory is locked while a `LocalDisk` is open
(quire/directory_lock.py), so two bookies cannot share it; every path is looked up from the locked
descriptor, so a directory that is renamed and made again under its old name is never mixed with it.
The file `LOCK` keeps programs of versions away that lock nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import logging
import os
import stat
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from quire.directory_lock import lock_directory, unlock_directory
from quire.errors import ConfigurationError, DirectoryInUseError
from quire.private_files import DIRECTORY_MODE, FILE_MODE, make_directories
from quire.storage.disk.local_file import LocalFile, Means
from quire.storage.disk.port import DiskSpace, NotAFileError

LOCK_NAME: Final = "LOCK"

HOLDER: Final = "another bookie process"

SHORTAGE_PAUSE: Final = 0.2
"""Seconds until a descriptor is asked for again."""

SHORTAGE_TRIES: Final = 300
"""After so many, a minute, something is wrong that waiting does not mend."""

_KINDS: Final = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}

_log = logging.getLogger(__name__)
T = TypeVar("T")


def _check_path(path: str) -> str:
    parts = path.split("/")
    if path and ("\0" in path or any(part in ("", ".", "..") for part in parts)):
        raise ConfigurationError(f"path {path!r} leaves the disk or is not in plain form")
    if path == LOCK_NAME:
        raise ConfigurationError(f"path {path!r} is the disk's own lock")
    return path


def _make_durably(directory: Path) -> None:
    """Make a directory and its missing parents; synced files in it must not lose their names.

    Raises OSError.
    """
    for made in make_directories(directory):
        descriptor = os.open(made.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def _unless_full() -> Iterator[None]:
    """Go on without `LOCK` on a full disk: the directory itself is locked."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        _log.warning("a lock file cannot be made: %s", error)


def _open_lock(base: int) -> tuple[int, bool]:
    """Return the open lock file of a directory, and whether it was made. Raises OSError."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    while True:
        with suppress(FileExistsError):
            made = flags | os.O_CREAT | os.O_EXCL
            return os.open(LOCK_NAME, made, FILE_MODE, dir_fd=base), True
        with suppress(FileNotFoundError):  # removed just now
            return os.open(LOCK_NAME, flags, dir_fd=base), False


def _size_of(descriptor: int, path: Path) -> int:
    """Return the bytes in an open file. Anything else is closed: `NotAFileError`."""
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode):
        return status.st_size
    os.close(descriptor)
    kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
    raise NotAFileError(kind, str(path))


def _close_unclaimed(opening: asyncio.Future[tuple[int, int]]) -> None:
    """Close a file opened for a task that is gone."""
    if not opening.cancelled() and opening.exception() is None:
        os.close(opening.result()[0])


class LocalDisk:
    """A directory that belongs to one bookie. `close` must be called by the owner.

    Args:
        root: the directory.
        create: make the directory, and those above it, if they are missing.
        read_only: only read, so that a read-only mount will do. The directory is locked all the
            same, and no file is made in it.

    Raises:
        DirectoryInUseError: another process has it open.
        ConfigurationError: it is missing (unless `create`), or it cannot be written (unless
            `read_only`).
    """

    def __init__(self, root: str | Path, *, create: bool = False, read_only: bool = False) -> None:
        self.root: Final = Path(root)
        self._is_read_only = read_only
        self._lock, self._is_lock_new = -1, False
        try:
            if create:
                _make_durably(self.root)
            if not self.root.is_dir():
                raise ConfigurationError(
                    f"{self.root} is not a directory: format a bookie there first"
                )
            self._base = lock_directory(self.root, HOLDER)
            try:
                if not read_only:
                    with _unless_full():
                        self._lock, self._is_lock_new = self._take_lock()
            except BaseException:
                unlock_directory(self._base)
                raise
        except OSError as error:
            raise ConfigurationError(f"{self.root} cannot be used: {error.strerror}") from error
        self._means = Means()

    def _take_lock(self) -> tuple[int, bool]:
        """Return the locked descriptor of `LOCK`, and whether the file was made for that."""
        while True:
            descriptor, is_new = _open_lock(self._base)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(descriptor)
                raise DirectoryInUseError(self.root, HOLDER) from None
            with suppress(FileNotFoundError):
                found = os.stat(LOCK_NAME, dir_fd=self._base)
                if os.path.samestat(os.fstat(descriptor), found):
                    return descriptor, is_new
            os.close(descriptor)  # its maker has removed it meanwhile: others lock another file

    async def open(self, path: str, *, create: bool = False) -> LocalFile:
        full = self.root / _check_path(path)
        flags = os.O_CLOEXEC | (os.O_RDONLY if self._is_read_only else os.O_RDWR)
        flags |= os.O_CREAT | os.O_EXCL if create else os.O_NONBLOCK

        def job() -> tuple[int, int]:
            try:
                descriptor = os.open(path, flags, FILE_MODE, dir_fd=self._base)
            except IsADirectoryError:
                raise NotAFileError("a directory", str(full)) from None
            except OSError as error:
                error.filename = str(full)
                raise
            return descriptor, _size_of(descriptor, full)

        # What exists is opened to be read: that must not wait for a flush.
        threads = self._means.writers if create else self._means.readers
        self._is_lock_new &= not create

        async def attempt() -> tuple[int, int]:
            opening = threads.run(job)
            try:
                return await asyncio.shield(opening)
            except asyncio.CancelledError:
                opening.add_done_callback(_close_unclaimed)
                raise

        descriptor, size = await self._patiently(attempt)
        return LocalFile(descriptor, size, full, self._means)

    async def list(self, directory: str = "") -> list[str]:
        path = _check_path(directory)
        names = await self._run(lambda: self._in(path, lambda found: sorted(os.listdir(found))))
        return [name for name in names if directory or name != LOCK_NAME]

    def _in(self, path: str, job: Callable[[int], T]) -> T:
        """Do a job with the descriptor of a directory of this disk. Blocks."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        descriptor = os.open(path or ".", flags, dir_fd=self._base)
        try:
            return job(descriptor)
        finally:
            os.close(descriptor)

    async def make_directory(self, path: str) -> None:
        _check_path(path)
        self._is_lock_new = False

        def job() -> None:
            try:
                os.mkdir(path, DIRECTORY_MODE, dir_fd=self._base)
            except FileExistsError:
                self._in(path, lambda _: None)  # a file of that name raises NotADirectoryError

        await self._run(job)

    async def rename(self, old: str, new: str) -> None:
        source, target = _check_path(old), _check_path(new)
        await self._run(
            lambda: os.replace(source, target, src_dir_fd=self._base, dst_dir_fd=self._base)
        )

    async def unlink(self, path: str) -> None:
        _check_path(path)
        await self._run(lambda: os.unlink(path, dir_fd=self._base))

    async def sync_directory(self, directory: str = "") -> None:
        path = _check_path(directory)
        await self._run(lambda: self._in(path, os.fsync))

    async def space(self, directory: str = "") -> DiskSpace:
        def job() -> DiskSpace:
            status = os.statvfs(self._base)
            return DiskSpace(status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize)

        return await self._run(job)

    async def _patiently(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Try again while no descriptor is left. What needs one has not done anything before."""
        for tries in range(SHORTAGE_TRIES):
            try:
                return await attempt()
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE):
                    raise
                if not tries:
                    _log.warning("%s waits for a descriptor: %s", self.root, error)
            await asyncio.sleep(SHORTAGE_PAUSE)
        return await attempt()

    async def _run(self, job: Callable[[], T]) -> T:
        try:
            return await self._patiently(lambda: self._means.writers.run(job))
        except OSError as error:
            error.filename = error.filename or str(self.root)
            raise

    async def close(self) -> None:
        """Wait for jobs under way, stop the threads, give up the lock. Harmless when repeated.

        A directory that was only looked at is left as it was found.
        """
        if self._base < 0:
            return
        base, self._base = self._base, -1
        await self._means.close()
        if self._is_lock_new:
            with suppress(OSError):
                os.unlink(LOCK_NAME, dir_fd=base)
        if self._lock >= 0:
            os.close(self._lock)
        unlock_directory(base)
