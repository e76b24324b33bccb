"""Port 3: the files of one bookie, reduced to the operations that crash safety is argued with.

`LocalDisk` (local.py) is the real one; the simulator's disk forgets unsynced writes. One
contract suite (`tests/contract/test_disk.py`) runs over both. All paths are relative to the disk's
root, use `/`, and cannot leave it.

Law, for every implementation:

  V1  Written bytes are durable after the file's `sync`, and only then. A file's *name* is
      durable after `sync_directory` of its directory, and only then; the same goes for rename and
      unlink.
  V2  After a failed `write` or `sync` of a file nothing is known about it: the caller must stop
      using it and may not try the sync again (the kernel reports a lost page once).
  V3  Reads see every completed write of this process.
  V4  One disk, one process: while a process has it open, opening it again raises
      `DirectoryInUseError` at once. `close` gives it up, and so does the end of the process.

Errors are `OSError`: ENOSPC is the only one after which a caller may go on (with nothing written).
A shortage says nothing about any file.
"""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

SHORTAGES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""Errors of a system that lacks descriptors or memory: the file itself may be sound."""

UNREADABLE: Final = frozenset({errno.EIO, errno.EUCLEAN, errno.EBADMSG, errno.ENODATA})
"""How a kernel says that a medium or a file system is damaged. All other errors (no permission, no
descriptor left) say nothing about the file."""


class NotAFileError(OSError):
    """A directory, a pipe or a device has the name of a file. Its bytes are not there (`UNREADABLE`
    has its number), and opening it did not wait.
    """

    def __init__(self, kind: str, path: str) -> None:
        super().__init__(errno.EUCLEAN, f"it is {kind} and not a file: move it away", path)


def is_unreadable(error: BaseException) -> bool:
    """Whether an error says that the bytes themselves are damaged."""
    return isinstance(error, OSError) and error.errno in UNREADABLE


def is_shortage(error: BaseException) -> bool:
    """Whether an error says nothing about the file that was used."""
    return isinstance(error, OSError) and error.errno in SHORTAGES


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """Bytes of the file system that holds the disk."""

    free_bytes: int
    total_bytes: int


class File(Protocol):
    """An open file."""

    def write(
        self, offset: int, data: Sequence[bytes | memoryview], *, sync: bool = False
    ) -> Awaitable[None]:
        """Write buffers one after the other from `offset`; with `sync`, in the same step make the
        file's data durable. The file grows as needed.
        """
        ...

    def sync(self) -> Awaitable[None]:
        """Make everything written so far durable (data and size)."""
        ...

    async def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes from `offset`; fewer at the end of the file."""
        ...

    def will_read(self, offset: int, size: int) -> None:
        """Say that these bytes will be read soon, so that the disk may begin to fetch them. Never
        waits, and never fails.
        """
        ...

    async def truncate(self, size: int) -> None:
        """Cut or extend (with zeros) the file; durable after `sync`."""
        ...

    @property
    def size(self) -> int:
        """Bytes in the file now."""
        ...

    async def close(self) -> None:
        """Close it. Nothing is made durable by closing."""
        ...


class Disk(Protocol):
    """A directory tree that belongs to one bookie."""

    async def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing. With `create` the file must not exist yet
        (FileExistsError), without it must (FileNotFoundError), and be one (`NotAFileError`).
        """
        ...

    async def list(self, directory: str = "") -> list[str]:
        """Return the sorted names in a directory; FileNotFoundError when it does not exist."""
        ...

    async def make_directory(self, path: str) -> None:
        """Create a directory in an existing one; harmless when it exists."""
        ...

    async def rename(self, old: str, new: str) -> None:
        """Rename atomically, replacing `new`; durable after `sync_directory`."""
        ...

    async def unlink(self, path: str) -> None:
        """Remove a file; durable after `sync_directory`."""
        ...

    async def sync_directory(self, directory: str = "") -> None:
        """Make creations, renames and removals in a directory durable."""
        ...

    async def space(self, directory: str = "") -> DiskSpace:
        """Return how much space a directory has for files; without one, where there is least."""
        ...

    async def close(self) -> None:
        """Give the disk up. Nothing is made durable by closing."""
        ...
