"""Space that a bookie keeps for its next start, which may find the disk full.

    reserve           for the checkpoints of a start, on the main disk
    entries/reserve   for the largest entry log that a start writes, on a disk for entries

Their content means nothing: a start that meets a full disk removes them and writes into the space
that this leaves. They are made again before the journal has its
next segment, so new entries are taken only while the files are whole: the next start then has the
space for those entries. `<name>.new` is an unfinished file; the name without it promises that all
blocks were written.

The journal itself needs a segment; the spare for that is kept back in segments.py.
"""

from __future__ import annotations

from typing import Final

from quire.storage.disk.port import Disk
from quire.storage.disk.state_file import TEMPORARY_SUFFIX
from quire.storage.entries.entry_log import ENTRIES
from quire.storage.journal.options import StorageOptions
from quire.storage.journal.segments import write_zeros

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

    async def load(self) -> None:
        """Look for existing files, and remove unfinished ones and wrong sizes. Raises
        OSError.
        """
        for (directory, path), size in self._wanted.items():
            names = await self._disk.list(directory)
            name = path.rpartition("/")[2]
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
        for (directory, path), size in self._wanted.items():
            if path not in self._held:
                await write_zeros(self._disk, path + TEMPORARY_SUFFIX, size)
                await self._disk.rename(path + TEMPORARY_SUFFIX, path)
                await self._disk.sync_directory(directory)
                self._held.add(path)

    async def give_up(self) -> None:
        """Remove all of it, for an urgent write. Raises OSError."""
        for directory, path in self._wanted:
            if path in self._held:
                self._held.remove(path)
                await self._disk.unlink(path)
                await self._disk.sync_directory(directory)
