"""A disk that forgets: what a power cut, a failed sync, a full or a rotten disk really do.

`SimDisk` is the platter, `SimDisk.mount()` the `Disk` port that one process holds. The platter
knows for every file what the process sees (`content`) and what survives (`durable`), sector by
sector:

  kill()       the process dies; the page cache, and so everything written, stays
  power_cut()  every unsynced sector is kept, lost or turned to garbage, each on its own; every
               creation, rename and removal since the directory's last sync is kept or lost likewise
  halt_at(n)   the n-th change from now reaches the cache, is not made durable, and never returns:
               cutting at every n visits every crash point of a workload

What belongs to a dead process never comes back: its operations wait for ever, as they do in a
process that is gone. Every choice is made by the `random.Random` given, so a seed repeats a run.
"""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from quire.errors import ConfigurationError, DirectoryInUseError
from quire.storage.disk.port import DiskSpace, NotAFileError
from tests.sim.platter import SECTOR_BYTES, Cut, Directory, Inode

__all__ = ["SECTOR_BYTES", "Cut", "DiskFaults", "SimDisk", "SimFile", "SimMount"]


ENDLESS_BYTES: Final = 1 << 40
"""A disk of this size is never full but by decree."""


@dataclass(slots=True)
class DiskFaults:
    """What goes wrong from now on. Fragments are sought in the path a file was
    opened by; None matches nothing."""

    sync_error: str | None = None
    """A sync of a matching file or directory fails, once, and loses what it was to save."""
    sync_error_after: int = 0
    """How many matching syncs go well before that."""
    read_error: str | None = None
    """Reads of matching files fail with EIO."""
    bad_bytes: range | None = None
    """Only those that touch these bytes; None means all."""
    is_full: bool = False
    """No file may grow or be created."""
    latency_seconds: float = 0.0
    """Mean time of an operation, drawn between a half and one and a half of it."""
    is_hung: bool = False
    """Operations wait until `SimDisk.release`."""

    def is_unreadable(self, path: str, offset: int, size: int) -> bool:
        """Whether a read fails."""
        if self.read_error is None or self.read_error not in path:
            return False
        bad = self.bad_bytes
        return bad is None or (offset < bad.stop and bad.start < offset + size)


class SimDisk:
    """The platter. Survives the processes that mount it."""

    def __init__(
        self,
        rng: random.Random,
        *,
        capacity_bytes: int = ENDLESS_BYTES,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.rng = rng
        self._sleep = sleep
        self.capacity_bytes = capacity_bytes
        self.taken_bytes = 0
        """What others have on the same file system."""
        self.filled_bytes = 0
        """The most that its bookie had when the disk was full."""
        self.faults = DiskFaults()
        self.directories: dict[str, Directory] = {"": Directory()}
        self.mounts: list[SimMount] = []
        """Of the processes that have it open: one, while the lock is kept."""
        self.changes = 0
        self.halted = asyncio.Event()
        self._halt_at: int | None = None
        self._released = asyncio.Event()

    def mount(self) -> SimMount:
        """Return the port for one process. Raises `DirectoryInUseError` while another holds it."""
        self.check_lock()
        if not self.mounts:
            self._released = asyncio.Event()
            self._forgive()
        mount = SimMount(self)
        self.mounts.append(mount)
        return mount

    def check_lock(self) -> None:
        """V4: refuse a second process. What `quire/directory_lock.py` is to the real disk."""
        if self.mounts:
            raise DirectoryInUseError("the simulated disk", "another bookie process")

    def kill(self) -> None:
        """The process dies; everything it wrote stays in the page cache."""
        self.mounts.clear()
        self._halt_at = None
        self._forgive()
        self.release()

    def _forgive(self) -> None:
        """A process has ended; what its failed syncs lost stays lost, and the next may begin."""
        for path in sorted(self.directories):
            directory = self.directories[path]
            directory.is_forsaken = False
            for inode in directory.names.values():
                inode.is_forsaken = False

    def power_cut(self, cut: Cut = Cut.MIXES) -> None:
        """The machine dies: what was not synced is kept, lost or garbled."""
        self.kill()
        for path in sorted(self.directories):
            directory = self.directories[path]
            inodes = {**directory.durable, **directory.names}
            for name in sorted(inodes):
                inodes[name].cut(self.rng, cut)
            directory.cut(self.rng, cut)
        for path in sorted(self.directories):
            parent, _, name = path.rpartition("/")
            if path and name not in self.directories.get(parent, Directory()).names:
                del self.directories[path]

    def halt_at(self, change: int) -> None:
        """Let the process die in the `change`-th change from now (1 is the next)."""
        self._halt_at = self.changes + change
        self.halted = asyncio.Event()

    def halt_never(self) -> None:
        """Take `halt_at` back."""
        self._halt_at = None

    def fail_sync(self, fragment: str, after: int = 0) -> None:
        """Let one sync of a path with this fragment fail, `after` others went well."""
        self.faults.sync_error, self.faults.sync_error_after = fragment, after

    def release(self) -> None:
        """End `faults.is_hung`."""
        self.faults.is_hung = False
        self._released.set()
        self._released = asyncio.Event()

    def mend(self) -> None:
        """End every fault; what was lost or damaged stays so."""
        self.release()
        self.faults = DiskFaults(latency_seconds=0.0003)
        self.capacity_bytes = ENDLESS_BYTES

    def rot(self, path: str, offset: int, mask: int = 0xFF) -> None:
        """Flip bits of one stored byte, in the cache and on the platter."""
        inode = self.inode(path)
        inode.content[offset] ^= mask
        if offset < len(inode.durable):
            inode.durable[offset] ^= mask

    def resize(self, path: str, size: int) -> None:
        """Cut a file short, or lengthen it by zeros, in the cache and on the platter."""
        inode = self.inode(path)
        inode.truncate(size)
        inode.sync()

    def inode(self, path: str) -> Inode:
        """Return a file; FileNotFoundError when there is none."""
        directory, name = split(path)
        return self.directory(directory).names[name]

    def directory(self, path: str) -> Directory:
        if path not in self.directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        return self.directories[path]

    def files(self) -> dict[str, bytes]:
        """Return every file as the process sees it."""
        return {
            path: bytes(inode.content)
            for directory in sorted(self.directories)
            for name, inode in sorted(self.directories[directory].names.items())
            if (path := f"{directory}/{name}" if directory else name) not in self.directories
        }

    @property
    def used_bytes(self) -> int:
        """Return what its files take."""
        trees = self.directories.values()
        return sum(len(inode.content) for tree in trees for inode in tree.names.values())

    @property
    def free_bytes(self) -> int:
        if self.faults.is_full:
            return 0
        return self.capacity_bytes - self.taken_bytes - self.used_bytes

    def check_room(self, growth: int) -> None:
        is_bounded = growth > 0 and self.capacity_bytes < ENDLESS_BYTES
        if self.faults.is_full or (is_bounded and growth > self.free_bytes):
            raise OSError(errno.ENOSPC, "no space left on simulated disk")

    async def turn(self, mount: SimMount) -> None:
        """Spend the time of one operation; never returns to a dead process."""
        spread = self.faults.latency_seconds
        await self._sleep(spread * (0.5 + self.rng.random()) if spread else 0)
        while self.faults.is_hung and mount in self.mounts:
            await self._released.wait()
        if mount not in self.mounts:
            await asyncio.get_running_loop().create_future()

    async def changed(self) -> None:
        """Count a change that reached the cache, and die here if this is the one."""
        self.changes += 1
        if self.changes == self._halt_at:
            self.mounts.clear()
            self.halted.set()
            await asyncio.get_running_loop().create_future()

    def check_sync(self, path: str) -> bool:
        """Tell whether the sync of a path goes well this time."""
        if self.faults.sync_error is None or self.faults.sync_error not in path:
            return True
        self.faults.sync_error_after -= 1
        if self.faults.sync_error_after < 0:
            self.faults.sync_error = None
        return self.faults.sync_error is not None


def split(path: str) -> tuple[str, str]:
    """Return (directory, name) of a plain relative path."""
    if any(part in ("", ".", "..") for part in path.split("/")):
        raise ConfigurationError(f"path {path!r} leaves the disk or is not in plain form")
    directory, _, name = path.rpartition("/")
    return directory, name


class SimMount:
    """Port 3 over a `SimDisk`, for the life of one process."""

    def __init__(self, disk: SimDisk) -> None:
        self.disk = disk

    async def open(self, path: str, *, create: bool = False) -> SimFile:
        directory, name = split(path)
        await self.disk.turn(self)
        tree = self.disk.directory(directory)
        if not create:
            if path in self.disk.directories:
                raise NotAFileError("a directory", path)
            if name not in tree.names:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            return SimFile(self, path, tree.names[name])
        if name in tree.names:
            raise FileExistsError(errno.EEXIST, "file exists", path)
        self.disk.check_room(0)
        inode = Inode()
        tree.apply(lambda names: names.__setitem__(name, inode))
        await self.disk.changed()
        return SimFile(self, path, inode)

    async def list(self, directory: str = "") -> list[str]:
        if directory:
            split(directory)
        await self.disk.turn(self)
        return sorted(self.disk.directory(directory).names)

    async def make_directory(self, path: str) -> None:
        directory, name = split(path)
        await self.disk.turn(self)
        tree = self.disk.directory(directory)
        if path in self.disk.directories and name in tree.names:
            return
        self.disk.check_room(0)
        self.disk.directories.setdefault(path, Directory())
        tree.make(name)
        await self.disk.changed()

    async def rename(self, old: str, new: str) -> None:
        (directory, name), (target, renamed) = split(old), split(new)
        await self.disk.turn(self)
        if directory != target:
            raise OSError(errno.EXDEV, "a simulated rename stays in its directory", new)
        tree = self.disk.directory(directory)
        if name not in tree.names:
            raise FileNotFoundError(errno.ENOENT, "no such file", old)
        inode = tree.names[name]

        def change(names: dict[str, Inode]) -> None:
            names.pop(name, None)
            names[renamed] = inode

        tree.apply(change)
        await self.disk.changed()

    async def unlink(self, path: str) -> None:
        directory, name = split(path)
        await self.disk.turn(self)
        tree = self.disk.directory(directory)
        if name not in tree.names:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)

        def change(names: dict[str, Inode]) -> None:
            names.pop(name, None)

        tree.apply(change)
        await self.disk.changed()

    async def sync_directory(self, directory: str = "") -> None:
        await self.disk.turn(self)
        tree = self.disk.directory(directory)
        await self.disk.changed()
        if not self.disk.check_sync(directory):
            tree.forsake()
            raise OSError(errno.EIO, "injected sync error", directory)
        tree.sync()

    async def space(self, directory: str = "") -> DiskSpace:
        await self.disk.turn(self)
        return DiskSpace(max(0, self.disk.free_bytes), self.disk.capacity_bytes)

    async def close(self) -> None:
        """Give the disk back in good order; nothing becomes durable by it."""
        if self in self.disk.mounts:
            self.disk.mounts.remove(self)


class SimFile:
    """An open file of a `SimMount`."""

    def __init__(self, mount: SimMount, path: str, inode: Inode) -> None:
        self._mount = mount
        self._disk = mount.disk
        self._path = path
        self._inode = inode
        self._is_closed = False

    @property
    def size(self) -> int:
        return len(self._inode.content)

    async def _turn(self) -> None:
        if self._is_closed:
            raise OSError(errno.EBADF, "file is closed", self._path)
        await self._disk.turn(self._mount)

    async def write(
        self, offset: int, data: Sequence[bytes | memoryview], *, sync: bool = False
    ) -> None:
        await self._turn()
        joined = b"".join(data)
        growth = offset + len(joined) - len(self._inode.content)
        if growth > 0:
            self._disk.check_room(growth)
        self._inode.write(offset, joined)
        await self._disk.changed()
        if sync:
            await self._disk.turn(self._mount)  # a power cut may come between write and sync
            self._sync()

    async def sync(self) -> None:
        await self._turn()
        await self._disk.changed()
        self._sync()

    def _sync(self) -> None:
        if not self._disk.check_sync(self._path):
            self._inode.forsake()
            raise OSError(errno.EIO, "injected sync error", self._path)
        self._inode.sync()

    async def read(self, offset: int, size: int) -> bytes:
        await self._turn()
        if self._disk.faults.is_unreadable(self._path, offset, size):
            raise OSError(errno.EIO, "injected read error", self._path)
        return bytes(self._inode.content[offset : offset + size])

    def will_read(self, offset: int, size: int) -> None:
        """Nothing to do: every read takes its turn."""

    async def truncate(self, size: int) -> None:
        await self._turn()
        self._disk.check_room(size - len(self._inode.content))
        self._inode.truncate(size)
        await self._disk.changed()

    async def close(self) -> None:
        self._is_closed = True
