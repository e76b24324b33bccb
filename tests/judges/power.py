"""A bookie on a disk that can lose power: `python -m tests.judges.power MODE bookie serve …`.

Runs production's command on production's disk. In between stands `PowerDisk`, which keeps a second
copy of the directory, the *platter*: `DIRECTORY.platter` has what the law of the disk
(quire/storage/disk/port.py, D1) calls durable, and nothing else. Bytes reach the platter when the
sync of their file is over, names when the sync of their directory is. `cut_power` puts the
platter in the place of the directory, after the process was killed.

This is the hardest outcome that the law allows: everything that was not synced is gone, in every
file at once. Not modelled: a part of it survives, or is garbled (tests/storage/crash_images.py and
the simulator do that); a disk that says that it synced and did not, except in the mode below;
the kernel's file system itself, whose names and sizes are taken to obey the law.

MODE is `honest`, or `lazy`: then what was synced comes onto the platter half a second later, as in
a system that acknowledges first and syncs after that. Records are lost then, which shows that the
drill can fail.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias

from quire.cli.root import main as run_command
from quire.storage import server
from quire.storage.disk.local import LOCK_NAME
from quire.storage.disk.port import Disk, DiskSpace, File

FILES: Final = "files"
NAMES: Final = "names"
LAZY: Final = "lazy"
OPEN: Final = "open_to_serve"
"""By what name the server opens its disk."""
LAZY_SECONDS: Final = 0.5

Change: TypeAlias = tuple[int, bytes] | int | BinaryIO
"""Bytes written from an offset on, a new size, or all that an open file holds by now."""


class Platter:
    """What is durable of a directory: content by number, and for each directory its names."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / FILES).mkdir(parents=True, exist_ok=True)
        (directory / NAMES).mkdir(exist_ok=True)
        self._next = max((int(each.name) for each in (directory / FILES).iterdir()), default=0)

    def new_file(self) -> int:
        """Return the number of a new, empty file."""
        self._next += 1
        self.content(self._next).touch()
        return self._next

    def content(self, number: int) -> Path:
        """Return where the durable content of a file is."""
        return self.directory / FILES / str(number)

    def write(self, number: int, changes: Sequence[Change]) -> None:
        """Put changes onto the platter."""
        descriptor = os.open(self.content(number), os.O_RDWR)
        try:
            for change in changes:
                if isinstance(change, int):
                    os.ftruncate(descriptor, change)
                elif isinstance(change, tuple):
                    os.pwrite(descriptor, change[1], change[0])
                else:
                    with change, self.content(number).open("wb") as content:
                        shutil.copyfileobj(change, content)
        finally:
            os.close(descriptor)

    def read_names(self) -> dict[str, dict[str, int]]:
        """Return the names of each directory."""
        found = sorted((self.directory / NAMES).glob("root*.json"))
        names = {each: json.loads(each.read_text()) for each in found}
        return {
            each.stem.removeprefix("root").removeprefix(",").replace(",", "/"): held
            for each, held in names.items()
        }

    def write_names(self, directory: str, names: dict[str, int]) -> None:
        """Put the names of a directory onto the platter, all at once."""
        parts = ["root", *directory.split("/")] if directory else ["root"]
        path = self.directory / NAMES / f"{','.join(parts)}.json"
        new = path.with_suffix(".new")
        new.write_text(json.dumps(names))
        new.rename(path)

    def take_up(self, directory: Path) -> None:
        """Take all of a directory for durable, as it is after it was formatted."""
        for root, _, files in os.walk(directory):
            names = {}
            for name in files:
                if name != LOCK_NAME:
                    names[name] = self.new_file()
                    shutil.copyfile(Path(root) / name, self.content(names[name]))
            relative = Path(root).relative_to(directory).as_posix()
            self.write_names("" if relative == "." else relative, names)


def cut_power(directory: Path) -> None:
    """Leave in a directory what is durable. No process may use it.

    Raises RuntimeError if no `PowerDisk` ever had the directory: nothing would be left.
    """
    if not platter_of(directory).is_dir():
        raise RuntimeError(f"{directory} has no platter: its bookie was not on a PowerDisk")
    platter = Platter(platter_of(directory))
    for each in directory.iterdir():
        shutil.rmtree(each) if each.is_dir() else each.unlink()
    for parent, names in sorted(platter.read_names().items()):
        (directory / parent).mkdir(parents=True, exist_ok=True)
        for name, number in names.items():
            shutil.copyfile(platter.content(number), directory / parent / name)


def platter_of(directory: Path) -> Path:
    """Return where the platter of a directory is."""
    return directory.with_name(directory.name + ".platter")


class Inode:
    """A file, and what of it is not on the platter. Changes get there in the order they were made.

    What a process before this one wrote may never have been synced: the next sync takes all of it.
    """

    def __init__(self, number: int, platter: Platter, before: BinaryIO | None) -> None:
        self.number = number
        self._platter = platter
        self._changes: list[Change] = [] if before is None else [before]
        self._kept = 0

    def change(self, change: Change) -> int:
        """Note a change; return how many there were until now."""
        self._changes.append(change)
        return self.count

    @property
    def count(self) -> int:
        """How many changes there were."""
        return self._kept + len(self._changes)

    def keep(self, count: int) -> None:
        """Put so many of the first changes onto the platter, unless a later sync did that."""
        new = count - self._kept
        if new > 0:
            self._platter.write(self.number, self._changes[:new])
            del self._changes[:new]
            self._kept = count

    def close(self) -> None:
        """Give up what is not on the platter."""
        for change in self._changes:
            if not isinstance(change, int | tuple):
                change.close()


class PowerFile:
    """An open file of a `PowerDisk`."""

    def __init__(self, file: File, inode: Inode, delay: float) -> None:
        self._file = file
        self._inode = inode
        self._delay = delay
        self.read = file.read
        self.will_read = file.will_read
        self.close = file.close

    @property
    def size(self) -> int:
        return self._file.size

    async def write(
        self, offset: int, data: Sequence[bytes | memoryview], *, sync: bool = False
    ) -> None:
        count = self._inode.change((offset, b"".join(data)))
        await self._file.write(offset, data, sync=sync)
        if sync:
            self._synced(count)

    async def sync(self) -> None:
        count = self._inode.count
        await self._file.sync()
        self._synced(count)

    def _synced(self, count: int) -> None:
        if self._delay:
            asyncio.get_running_loop().call_later(self._delay, self._inode.keep, count)
        else:
            self._inode.keep(count)

    async def truncate(self, size: int) -> None:
        self._inode.change(size)
        await self._file.truncate(size)


class PowerDisk:
    """Port 3 over the disk of a directory, with a platter. See the module."""

    def __init__(self, disk: Disk, directory: Path, delay: float = 0.0) -> None:
        self._disk = disk
        self.root = self._directory = directory
        self._delay = delay
        is_new = not platter_of(directory).exists()
        self._platter = Platter(platter_of(directory))
        if is_new:
            self._platter.take_up(directory)
        self._names = self._platter.read_names()
        self._inodes: dict[int, Inode] = {}
        self.list = disk.list
        self.make_directory = disk.make_directory

    async def close(self) -> None:
        for inode in self._inodes.values():
            inode.close()
        await self._disk.close()

    def _of(self, path: str) -> tuple[dict[str, int], str]:
        directory, _, name = path.rpartition("/")
        return self._names.setdefault(directory, {}), name

    async def open(self, path: str, *, create: bool = False) -> File:
        file = await self._disk.open(path, create=create)
        names, name = self._of(path)
        if create or name not in names:
            names[name] = self._platter.new_file()
        number = names[name]
        if number not in self._inodes:
            before = None if create else (self._directory / path).open("rb")
            self._inodes[number] = Inode(number, self._platter, before)
        is_lazy = path.startswith(("journal/", "entries/"))
        return PowerFile(file, self._inodes[number], self._delay if is_lazy else 0.0)

    async def rename(self, old: str, new: str) -> None:
        await self._disk.rename(old, new)
        names, name = self._of(old)
        number = names.pop(name, None) or self._platter.new_file()
        names, name = self._of(new)
        names[name] = number

    async def unlink(self, path: str) -> None:
        await self._disk.unlink(path)
        names, name = self._of(path)
        names.pop(name, None)

    async def sync_directory(self, directory: str = "") -> None:
        names = dict(self._names.setdefault(directory, {}))
        await self._disk.sync_directory(directory)
        self._platter.write_names(directory, names)

    async def space(self, directory: str = "") -> DiskSpace:
        return await self._disk.space(directory)


def put_under(delay: float) -> None:
    """Put a `PowerDisk` under the bookie that this process serves. Raises KeyError when the server
    opens its disk by another name: the drills would test nothing.
    """
    open_disk: Callable[[Path], Awaitable[Disk]] = vars(server)[OPEN]

    async def open_powered(directory: Path) -> Disk:
        return PowerDisk(await open_disk(directory), Path(directory), delay)

    vars(server)[OPEN] = open_powered


def main() -> None:
    put_under(LAZY_SECONDS if sys.argv.pop(1) == LAZY else 0.0)
    run_command()


if __name__ == "__main__":
    main()
