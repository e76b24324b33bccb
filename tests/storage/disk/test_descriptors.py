"""No file stays open that nobody knows of any more, whenever its opening ends."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from quire.storage.disk.port import Disk, File
from quire.storage.entries.entry_files import EntryFiles
from quire.storage.entries.entry_log import ENTRIES, ChunkAt, entries_path
from quire.storage.journal.options import StorageOptions
from quire.storage.journal.segments import JOURNAL, Segments
from tests.sim.disk import SimDisk
from tests.storage.scene import drive

OPTIONS = StorageOptions(segment_bytes=64 * 1024)
CHUNK = ChunkAt(1, 0, 0, 0, 100, 1, 0)


class HeldDisk:
    """A disk where one kind of call does not end while a file is open; it counts the open files."""

    def __init__(self, disk: Disk, held: str) -> None:
        self._disk = disk
        self._held = held
        self.begun, self.go = asyncio.Event(), asyncio.Event()
        self.opened = 0

    async def hold(self, call: str) -> None:
        if call == self._held and self.opened:
            self.begun.set()
            await self.go.wait()

    async def open(self, path: str, *, create: bool = False) -> File:
        file = await self._disk.open(path, create=create)
        self.opened += 1
        await self.hold("open")
        held: Any = HeldFile(file, self)
        return cast("File", held)

    def __getattr__(self, name: str) -> Any:
        async def call(*args: Any) -> Any:
            await self.hold(name)
            return await getattr(self._disk, name)(*args)

        return call


class HeldFile:
    def __init__(self, file: File, disk: HeldDisk) -> None:
        self._file = file
        self._disk = disk
        self.size = file.size
        self.read = file.read

    async def write(self, *args: Any, **options: Any) -> None:
        await self._disk.hold("write")
        await self._file.write(*args, **options)

    async def close(self) -> None:
        self._disk.opened -= 1
        await self._file.close()


async def disk_with(directory: str, held: str) -> HeldDisk:
    mount = SimDisk(random.Random(1)).mount()
    await mount.make_directory(directory)
    return HeldDisk(mount, held)


@pytest.mark.parametrize("held", ["write", "rename", "sync_directory"])
def test_a_segment_whose_making_is_given_up_is_closed(held: str) -> None:
    async def main() -> None:
        disk: Any = await disk_with(JOURNAL, held)
        fatal: list[BaseException] = []
        segments = Segments(disk, "b", OPTIONS, random.Random(1), fatal.append)
        await segments.load(0)
        segments.prepare(0)
        await disk.begun.wait()
        assert disk.opened == 1
        await segments.close()
        assert disk.opened == 0
        assert not fatal

    drive(main())


async def in_the_middle_of_opening(act: Callable[[EntryFiles], Awaitable[None]]) -> None:
    """Do something to entry logs while one of them is being opened."""
    disk: Any = await disk_with(ENTRIES, "open")
    disk.go.set()
    file = await disk.open(entries_path(1), create=True)
    await file.write(0, [bytes(100)])
    await file.close()
    disk.go.clear()
    disk.begun.clear()
    files = EntryFiles(disk, 8)
    readings = [asyncio.ensure_future(files.read(7, [CHUNK])) for _ in range(2)]
    await disk.begun.wait()
    await act(files)
    late = asyncio.ensure_future(files.read(7, [CHUNK]))
    await asyncio.sleep(0)
    disk.go.set()
    for found, damage in await asyncio.gather(*readings, late):
        assert not found
        assert damage is not None
    assert disk.opened == 0


def test_an_entry_log_that_is_dropped_while_it_is_opened_is_closed() -> None:
    """Others unlinked it: what the disk gives back for it would be theirs until the end."""
    drive(in_the_middle_of_opening(lambda files: files.drop(1)))


def test_an_entry_log_that_is_being_opened_is_closed_with_the_others() -> None:
    async def close(files: EntryFiles) -> None:
        await files.close()
        await files.drop(1)  # for the one that comes late

    drive(in_the_middle_of_opening(close))
