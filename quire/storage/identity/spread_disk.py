"""Several disks as one: journal and entry logs of a bookie on devices of their own.

    journal/…    on the journal's disk
    entries/…    each file on one of the disks for entries; a new one goes where most space is
    all else     on the main disk

Everything above sees port 3 and one directory tree. Two entry logs of one name on two disks mean
that one was copied: nothing is guessed then. Not here: which disks belong together
(directories.py).
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Sequence
from typing import Final

from quire.errors import ConfigurationError
from quire.storage.disk.port import Disk, DiskSpace, File
from quire.storage.entries.entry_log import ENTRIES, ENTRIES_SUFFIX
from quire.storage.journal.segments import JOURNAL, numbered


class SpreadDisk:
    """Port 3 over several disks. Owns them: `close` closes all."""

    def __init__(self, main: Disk, journal: Disk, entries: Sequence[Disk]) -> None:
        self._main: Final = main
        self._journal: Final = journal
        self._entries: Final = list(entries)
        self._disks: Final = list(dict.fromkeys((main, journal, *entries)))
        self._homes: dict[str, Disk] = {}
        """By path of the entry logs that were listed, made or sought."""

    @property
    def purposes(self) -> list[tuple[Disk, str]]:
        """The disks, each with its purposes: `main`, `journal`, `entries`, joined by `+`."""
        roles = (("main", [self._main]), ("journal", [self._journal]), ("entries", self._entries))
        return [
            (disk, "+".join(role for role, disks in roles if disk in disks)) for disk in self._disks
        ]

    def _of(self, path: str) -> Disk:
        directory = path.partition("/")[0]
        return self._journal if directory == JOURNAL else self._main

    def _all_of(self, directory: str) -> Sequence[Disk]:
        if directory == ENTRIES:
            return self._entries
        return [self._of(directory)] if directory else self._disks

    async def _home(self, path: str) -> Disk:
        """Return the disk that has a file, or a disk that reports it as missing."""
        if not path.startswith(ENTRIES + "/"):
            return self._of(path)
        if path not in self._homes:
            await self.list(ENTRIES)
        return self._homes.get(path, self._entries[0])

    async def open(self, path: str, *, create: bool = False) -> File:
        home = await self._home(path)
        if create and path.startswith(ENTRIES + "/") and path not in self._homes:
            home = await self._roomiest()
            file = await home.open(path, create=True)
            self._homes[path] = home
            return file
        return await home.open(path, create=create)

    async def _roomiest(self) -> Disk:
        spaces = await asyncio.gather(*(disk.space() for disk in self._entries))
        free = [space.free_bytes for space in spaces]
        return self._entries[free.index(max(free))]

    async def _list_entries(self) -> Sequence[str]:
        listed = await asyncio.gather(*map(_entries_on, self._entries))
        if all(names is None for names in listed):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), ENTRIES)
        homes: dict[str, Disk] = {}
        for disk, names in zip(self._entries, listed, strict=True):
            for name in names or ():
                path = f"{ENTRIES}/{name}"
                if path in homes and numbered([name], ENTRIES_SUFFIX):
                    raise ConfigurationError(
                        f"{path} is in two of the bookie's directories: one is a copy, remove it"
                    )
                homes.setdefault(path, disk)
        self._homes.update(homes)
        return [path.partition("/")[2] for path in homes]

    async def list(self, directory: str = "") -> list[str]:
        if directory == ENTRIES:
            return sorted(await self._list_entries())
        if directory:
            return await self._of(directory).list(directory)
        names = dict.fromkeys(await self._main.list())
        for disk, name in ((self._journal, JOURNAL), *((each, ENTRIES) for each in self._entries)):
            if name in await disk.list():
                names[name] = None
        return sorted(names)

    async def make_directory(self, path: str) -> None:
        for disk in self._all_of(path):
            await disk.make_directory(path)

    async def rename(self, old: str, new: str) -> None:
        home = await self._home(old)
        await home.rename(old, new)
        if self._homes.pop(old, None) is not None:
            self._homes[new] = home

    async def unlink(self, path: str) -> None:
        await (await self._home(path)).unlink(path)
        self._homes.pop(path, None)

    async def sync_directory(self, directory: str = "") -> None:
        disks = self._all_of(directory)
        await asyncio.gather(*(disk.sync_directory(directory) for disk in disks))

    async def space(self, directory: str = "") -> DiskSpace:
        """Return the space of the disk that limits the bookie first: the main disk, the journal's,
        or the disk for entries with most space. For a directory only the disks that have it count.
        """
        if directory:
            spaces = await asyncio.gather(*(disk.space() for disk in self._all_of(directory)))
            return max(spaces, key=lambda space: space.free_bytes)
        spaces = await asyncio.gather(*(disk.space() for disk in self._disks))
        of = dict(zip(self._disks, spaces, strict=True))
        entries = max((of[disk] for disk in self._entries), key=lambda space: space.free_bytes)
        return min(of[self._main], of[self._journal], entries, key=lambda space: space.free_bytes)

    async def close(self) -> None:
        for disk in self._disks:
            await disk.close()


async def _entries_on(disk: Disk) -> Sequence[str] | None:
    """Return the names of entry logs on a disk; None before the bookie has used it: it makes the
    directories when it starts.
    """
    try:
        return await disk.list(ENTRIES)
    except FileNotFoundError:
        return None
