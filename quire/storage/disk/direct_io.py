"""Synced writes past the page cache.

A journal is not read while it is written, so a copy of it in the page cache is of no use, and it
costs: 1 MiB takes a fifth less time without (`benchmarks.disk_write`). Direct writes also leave the
cache to reads.

The kernel wants memory, offset and length in whole blocks. The memory is a buffer that the data is
copied to. A write that does not begin and end at a block, is large, or would make the file longer
is done the ordinary way, and so is every write where the file system knows no direct writes. A
direct write that returned may still be in the disk's own cache: it is synced like any other.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final

from quire.storage.disk.blocks import BLOCK_BYTES
from quire.storage.disk.port import is_shortage

BUFFER_BYTES: Final = 4 * 1024 * 1024
"""Most that one direct write takes: the size of the journal's largest write by default. Only the
used part of it takes memory."""

CANNOT: Final = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOENT, errno.EACCES)
"""Errors of a system that knows no direct writes, wants larger blocks, or has no /proc."""


class Blocks:
    """Whole blocks in memory of their own, ready for a direct write."""

    def __init__(self) -> None:
        private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self._memory = mmap.mmap(-1, BUFFER_BYTES, flags=private)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            with suppress(OSError):  # one piece for the disk instead of 256
                self._memory.madvise(mmap.MADV_HUGEPAGE)
        self._whole = memoryview(self._memory)
        self.filled = self._whole[:0]

    def fill(self, data: Sequence[bytes | memoryview]) -> None:
        memory, end = self._memory, 0
        for part in data:
            at, end = end, end + len(part)
            memory[at:end] = part
        self.filled = self._whole[:end]


class DirectWrites:
    """State shared by the files of one disk: buffers, and whether direct writes work at all."""

    def __init__(self) -> None:
        self.are_possible = hasattr(os, "O_DIRECT")
        self._spare: SimpleQueue[Blocks] = SimpleQueue()

    def copy(self, data: Sequence[bytes | memoryview], size: int) -> Blocks | None:
        """Return a copy of the bytes to be written; None when they cannot be written directly."""
        if size > BUFFER_BYTES or not self.are_possible:
            return None
        try:
            blocks = self._spare.get_nowait()
        except Empty:
            blocks = Blocks()
        blocks.fill(data)
        return blocks

    def give_back(self, blocks: Blocks) -> None:
        """Have a buffer used again. From any thread."""
        self._spare.put(blocks)

    def open(self, descriptor: int) -> int | None:
        """Open an open file once more, for direct writes; None when the system lacks them, or no
        descriptor is left. In a thread. Raises OSError.
        """
        if not self.are_possible:
            return None
        try:  # by its number: it may have another name by now
            path = f"/proc/self/fd/{descriptor}"
            return os.open(path, os.O_WRONLY | os.O_DIRECT | os.O_CLOEXEC)
        except OSError as error:
            if not is_shortage(error):
                self.give_up(error)
            return None

    def give_up(self, error: OSError) -> None:
        """Stop trying direct writes, because an error says that the system lacks them. Raises any
        other error.
        """
        if error.errno not in CANNOT:
            raise error
        self.are_possible = False


def fits(offset: int, size: int, file_bytes: int) -> bool:
    """Return whether so many bytes are whole blocks that the file has already."""
    return offset % BLOCK_BYTES == 0 == size % BLOCK_BYTES and offset + size <= file_bytes
