"""The real disk: one directory of a local file system, behind port 3.

Blocking calls run on two small groups of threads, one for reads and one for everything else, so
that a slow flush never queues in front of a read. They are the only threads of a bookie. What an
open file does is in local_file.py.

A descriptor that is wanted while none is left is waited for, as a slow disk is: clients ask other
bookies meanwhile, and nothing is called damaged, or ends, for a shortage that passes.

Invariants: paths never leave the root; the directory is locked while a `LocalDisk` is open, so two
bookies cannot share it.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import logging
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from quire.errors import ConfigurationError
from quire.storage.disk import DiskSpace
from quire.storage.local_file import LocalFile, Means

LOCK_NAME: Final = "LOCK"

SHORTAGE_PAUSE: Final = 0.2
"""Seconds until a descriptor is asked for again."""

SHORTAGE_TRIES: Final = 300
"""After so many, a minute, something is wrong that waiting does not mend."""

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


def _open_lock(path: Path) -> tuple[int, bool]:
    """Return an open file, and whether it was made. Raises OSError."""
    flags = os.O_RDWR | os.O_CLOEXEC
    while True:
        with suppress(FileExistsError):
            return os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o644), True
        with suppress(FileNotFoundError):  # removed just now
            return os.open(path, flags), False


def _close_unclaimed(opening: asyncio.Future[tuple[int, int]]) -> None:
    """Close what was opened for a task that is gone."""
    if not opening.cancelled() and opening.exception() is None:
        os.close(opening.result()[0])


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
            self._lock, self._is_lock_new = self._take_lock()
        except OSError as error:
            raise ConfigurationError(f"{self.root} cannot be used: {error.strerror}") from error
        self._means = Means()

    def _take_lock(self) -> tuple[int, bool]:
        """Return the locked descriptor, and whether its file was made for that."""
        while True:
            descriptor, is_new = _open_lock(self.root / LOCK_NAME)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                os.close(descriptor)
                raise ConfigurationError(
                    f"{self.root} is in use by another bookie process: "
                    "stop it or use another directory"
                ) from error
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), os.stat(self.root / LOCK_NAME)):
                    return descriptor, is_new
            os.close(descriptor)  # whoever had made it has removed it: others lock another one

    async def open(self, path: str, *, create: bool = False) -> LocalFile:
        full = self.root / _check_path(path)
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT | os.O_EXCL if create else 0)

        def job() -> tuple[int, int]:
            descriptor = os.open(full, flags, 0o644)
            return descriptor, os.fstat(descriptor).st_size

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
        full = self.root / _check_path(directory)
        names = await self._run(lambda: sorted(os.listdir(full)))
        return [name for name in names if directory or name != LOCK_NAME]

    async def make_directory(self, path: str) -> None:
        full = self.root / _check_path(path)
        self._is_lock_new = False
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

    async def space(self, directory: str = "") -> DiskSpace:
        def job() -> DiskSpace:
            status = os.statvfs(self.root)
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
        if self._lock < 0:
            return
        descriptor, self._lock = self._lock, -1
        await self._means.close()
        if self._is_lock_new:
            with suppress(OSError):
                os.unlink(self.root / LOCK_NAME)
        os.close(descriptor)
