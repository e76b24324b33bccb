"""Space that a bookie keeps for its next start, which may find the disk full.

    reserve           for the checkpoints of a start, on the main disk
    entries/reserve   for the largest entry log that a start writes, on a disk for entries

Their content means nothing: a start that meets a full disk removes them and writes into the space
that this leaves. They are made again before the journal has its
next segment, so new entries are taken only while the files are whole: the next start then has the
space for those entries. `<name>.new` is an unfinished file; the name without it promises that all
blocks were written. The name itself may be lost: a process that died of a failed sync of the
directory leaves a name that the next process sees and a power cut removes. So a start renews the
names that it finds (quire/storage/disk/renewal.py).

A collection on a full disk borrows the main disk's file, because the ids of dropped ledgers must be
durable before anything is freed (garbage.py). New entries wait until the file is made again.

The journal itself needs a segment; the spare for that is kept back in segments.py.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from quire.storage.disk.port import Disk
from quire.storage.disk.renewal import list_renewed
from quire.storage.disk.state_file import TEMPORARY_SUFFIX, sync_names
from quire.storage.entries.entry_log import ENTRIES
from quire.storage.journal.options import StorageOptions
from quire.storage.journal.segments import write_zeros

T = TypeVar("T")

RESERVE: Final = "reserve"


class Reserve:
    """The reserve of one bookie. `load` before anything else."""

    def __init__(self, disk: Disk, options: StorageOptions) -> None:
        self._disk = disk
        self._wanted: Final = {
            ("", RESERVE): options.reserve_bytes,
            (ENTRIES, f"{ENTRIES}/{RESERVE}"): (
                options.replayed_bytes_max + options.segment_bytes + options.reserve_bytes
            ),
        }
        self._held: set[str] = set()
        self._turn = asyncio.Lock()
        """Held while files are made or removed."""

    @property
    def is_whole(self) -> bool:
        """Whether the next start has all of its space."""
        return len(self._held) == len(self._wanted)

    async def load(self) -> None:
        """Look for existing files, and remove unfinished ones and wrong sizes. The names of the
        others are durable afterwards. Raises OSError.
        """
        for (directory, path), size in self._wanted.items():
            name = path.rpartition("/")[2]
            names = await list_renewed(self._disk, directory, name)
            if name + TEMPORARY_SUFFIX in names:
                await self._disk.unlink(path + TEMPORARY_SUFFIX)
            if name not in names:
                continue
            file = await self._disk.open(path)
            await file.close()
            if file.size == size:
                self._held.add(path)
            else:
                await self._disk.unlink(path)

    async def restore(self) -> None:
        """Make missing files. Raises OSError; after ENOSPC the existing files stay, and it may be
        called again.
        """
        async with self._turn:
            for (directory, path), size in self._wanted.items():
                if path not in self._held:
                    await self._make(directory, path, size)
                    self._held.add(path)

    async def _make(self, directory: str, path: str, size: int) -> None:
        """Make a file. An attempt that was cancelled, or found no space for the name, may have
        left an unfinished one.
        """
        unfinished = path + TEMPORARY_SUFFIX
        if unfinished.rpartition("/")[2] in await self._disk.list(directory):
            await self._disk.unlink(unfinished)
        await write_zeros(self._disk, unfinished, size)
        await self._disk.rename(unfinished, path)
        await sync_names(self._disk, directory)

    async def give_up(self) -> None:
        """Remove all of it, for an urgent write. Raises OSError."""
        async with self._turn:
            for directory, path in self._wanted:
                await self._remove(directory, path)

    async def lend(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do work that lets space be freed later; on a full disk, in the space of the main disk's
        file. `restore` makes the file again. Raises OSError, and ENOSPC when even that space is
        too small.
        """
        try:
            return await work()
        except OSError as error:
            if error.errno != errno.ENOSPC or RESERVE not in self._held:
                raise
        async with self._turn:
            await self._remove("", RESERVE)
        return await work()

    async def _remove(self, directory: str, path: str) -> None:
        if path in self._held:
            self._held.remove(path)
            await self._disk.unlink(path)
            await sync_names(self._disk, directory)
