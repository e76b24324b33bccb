"""What a simulated disk is made of: bytes and names, as a process sees them and as they survive.

`SimDisk` (disk.py) puts them together; here is only what a write, a sync and a power cut do to one
file or one directory.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

SECTOR_BYTES: Final = 512


class Cut(StrEnum):
    """What a power cut does to what was not synced."""

    LOSES = "loses"
    KEEPS = "keeps"
    MIXES = "mixes"

    def survives(self, rng: random.Random) -> bool:
        """Tell whether one unsynced sector or change survives (perhaps as garbage)."""
        return self is Cut.KEEPS or (self is Cut.MIXES and rng.random() < 0.6)


@dataclass(eq=False)
class Inode:
    """One file's bytes as seen and as they would survive, and the sectors that differ."""

    content: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    dirty: set[int] = field(default_factory=set)
    is_forsaken: bool = False
    """A sync of it has failed: until the process ends every later one says that all went well, and
    saves nothing.
    """

    @property
    def size(self) -> int:
        return len(self.content)

    def touch(self, start: int, end: int) -> None:
        self.dirty.update(range(start // SECTOR_BYTES, -(-end // SECTOR_BYTES)))

    def write(self, offset: int, data: bytes) -> None:
        before = len(self.content)
        if offset > before:
            self.content.extend(bytes(offset - before))
        self.content[offset : offset + len(data)] = data
        self.touch(min(offset, before), offset + len(data))

    def truncate(self, size: int) -> None:
        before = len(self.content)
        del self.content[size:]
        self.content.extend(bytes(size - len(self.content)))
        self.touch(min(before, size), max(before, size))

    def forsake(self) -> None:
        """Fail a sync: what it was to save is called clean, and is not."""
        self.dirty.clear()
        self.is_forsaken = True

    def sync(self) -> None:
        if self.is_forsaken:
            self.dirty.clear()
            return
        _resize(self.durable, len(self.content))
        for sector in sorted(self.dirty):
            start, end = sector * SECTOR_BYTES, (sector + 1) * SECTOR_BYTES
            self.durable[start:end] = self.content[start:end]
        self.dirty.clear()

    def cut(self, rng: random.Random, cut: Cut) -> None:
        """Become what a power cut leaves."""
        self.is_forsaken = False
        if len(self.content) != len(self.durable) and cut.survives(rng):
            _resize(self.durable, len(self.content))
        for sector in sorted(self.dirty):
            start = sector * SECTOR_BYTES
            end = min(start + SECTOR_BYTES, len(self.durable))
            if start < end and cut.survives(rng):
                is_garbage = cut is Cut.MIXES and rng.random() < 1 / 3
                kept = self.content[start:end].ljust(end - start, b"\0")
                self.durable[start:end] = rng.randbytes(end - start) if is_garbage else kept
        self.content = bytearray(self.durable)
        self.dirty.clear()


def _resize(data: bytearray, size: int) -> None:
    del data[size:]
    data.extend(bytes(size - len(data)))


Change = Callable[[dict[str, Inode]], None]


@dataclass(eq=False)
class Directory:
    """Names as seen and as they would survive, and the changes between the two, in order."""

    names: dict[str, Inode] = field(default_factory=dict)
    durable: dict[str, Inode] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    is_forsaken: bool = False
    """As of a file: later syncs save nothing until the process ends."""
    made: dict[str, Inode] = field(default_factory=dict)
    """The directories in this one."""
    lost: dict[str, Inode] = field(default_factory=dict)
    """Directories that a failed sync lost. The next process finds them, so it cannot make them
    again. A file system keeps the names of a directory together, or takes no more changes at all:
    the next change that is saved saves these names as well.
    """

    def apply(self, change: Change) -> None:
        change(self.names)
        self.changes.append(change)

    def make(self, name: str) -> None:
        """Make a directory in this one."""
        inode = self.made[name] = Inode()
        self.apply(lambda names: names.__setitem__(name, inode))

    def forsake(self) -> None:
        """Fail a sync: what changed since the last one is called clean, and is not."""
        self.changes.clear()
        self.lost = {
            name: inode for name, inode in self.made.items() if self.durable.get(name) is not inode
        }
        self.is_forsaken = True

    def settle(self) -> None:
        """Make durable all that is seen: for a test that lays a disk out by hand."""
        self.durable = dict(self.names)
        self.changes.clear()

    def sync(self) -> None:
        """Make durable what changed since the last sync, and not what a failed one has lost."""
        if not self.is_forsaken:
            for change in self.changes:
                self._save(change)
        self.changes.clear()

    def _save(self, change: Change) -> None:
        self.durable.update(self.lost)
        self.lost.clear()
        change(self.durable)

    def cut(self, rng: random.Random, cut: Cut) -> None:
        for change in self.changes:
            if cut.survives(rng):
                self._save(change)
        self.names = dict(self.durable)
        self.made = {name: inode for name, inode in self.made.items() if name in self.names}
        self.lost.clear()
        self.changes.clear()
