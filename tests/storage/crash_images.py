"""Crash images of the real disk: `python -m tests.storage.crash_images --images 50000`.

A bookie runs a short workload on a directory of this machine, through `TracingDisk`, which notes
every operation of the real adapter and every promise the bookie made in between. From the trace the
machine is rebuilt as it may be found after a crash at any point: what was synced is there, of the
rest every sector and every name is kept, lost or garbled, each on its own. Every image is recovered
by the real bookie and held against the promises made up to its point.

Images repeat when little was under way: only distinct ones count.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import random
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

from quire.entry import EntryId, LedgerId
from quire.storage.disk.local import LocalDisk
from quire.storage.disk.local_file import LocalFile
from quire.storage.disk.port import DiskSpace
from tests.sim.disk import SimDisk
from tests.sim.platter import Cut, Directory, Inode
from tests.storage.scene import Scene
from tests.storage.test_crash_points import TINY, Promises, check, workload

T = TypeVar("T")
Key: TypeAlias = tuple[LedgerId, EntryId]
Step: TypeAlias = Callable[["Machine"], None]
"""One operation of the trace, done to the machine that is rebuilt."""


@dataclass
class NameChange:
    """A change of a directory as data, so that copies of a machine share nothing with it."""

    gone: list[str]
    new: dict[str, Inode]

    def __call__(self, names: dict[str, Inode]) -> None:
        for name in self.gone:
            names.pop(name, None)
        names.update(self.new)


@dataclass
class Machine:
    """What the trace has done so far: platter, and promises."""

    directories: dict[str, Directory] = field(default_factory=lambda: {"": Directory()})
    files: dict[int, Inode] = field(default_factory=dict)
    stored: dict[Key, int] = field(default_factory=dict)
    fenced: set[LedgerId] = field(default_factory=set)
    synced_to: dict[int, int] = field(default_factory=dict)

    def image(self, seed: int, cut: Cut) -> SimDisk:
        """Return the disk as a crash now may leave it."""
        disk = SimDisk(random.Random(seed))
        disk.directories = copy.deepcopy(self.directories)
        disk.power_cut(cut)
        return disk


class Tracer:
    """The trace, and the names of what it is about."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._files = 0

    def note(self, step: Step) -> None:
        self.steps.append(step)

    def new_file(self) -> int:
        self._files += 1
        return self._files


def _parent(path: str) -> tuple[str, str]:
    directory, _, name = path.rpartition("/")
    return directory, name


class TracingFile:
    """A file of a `TracingDisk`."""

    def __init__(self, file: LocalFile, tracer: Tracer, locate: Callable[[Machine], Inode]) -> None:
        self._file = file
        self._tracer = tracer
        number = tracer.new_file()
        tracer.note(lambda machine: machine.files.__setitem__(number, locate(machine)))
        self._number = number

    @property
    def size(self) -> int:
        return self._file.size

    async def write(
        self, offset: int, data: Sequence[bytes | memoryview], *, sync: bool = False
    ) -> None:
        joined, number = b"".join(data), self._number
        self._tracer.note(lambda machine: machine.files[number].write(offset, joined))
        await self._file.write(offset, data, sync=sync)
        if sync:
            self._tracer.note(lambda machine: machine.files[number].sync())

    async def sync(self) -> None:
        number = self._number
        await self._file.sync()
        self._tracer.note(lambda machine: machine.files[number].sync())

    async def read(self, offset: int, size: int) -> bytes:
        return await self._file.read(offset, size)

    def will_read(self, offset: int, size: int) -> None:
        self._file.will_read(offset, size)

    async def truncate(self, size: int) -> None:
        number = self._number
        self._tracer.note(lambda machine: machine.files[number].truncate(size))
        await self._file.truncate(size)

    async def close(self) -> None:
        await self._file.close()


class TracingDisk:
    """Port 3 over a `LocalDisk`, noting every operation when it is begun and what it promised when
    it is done.
    """

    def __init__(self, disk: LocalDisk, tracer: Tracer) -> None:
        self._disk = disk
        self._tracer = tracer
        self._syncs = 0

    async def open(self, path: str, *, create: bool = False) -> TracingFile:
        directory, name = _parent(path)

        def made(names: dict[str, Inode]) -> None:
            if create:
                names[name] = Inode()

        file = await self._certainly(self._disk.open(path, create=create), directory, made)
        return TracingFile(
            file, self._tracer, lambda machine: machine.directories[directory].names[name]
        )

    async def _certainly(
        self,
        work: Coroutine[Any, Any, T],
        directory: str,
        change: Callable[[dict[str, Inode]], None],
    ) -> T:
        """Do it and note it, even if the caller is cancelled: the thread that does it is not."""
        task = asyncio.ensure_future(work)

        def note(done: asyncio.Future[T]) -> None:
            if not done.cancelled() and done.exception() is None:
                self._change(directory, change)

        task.add_done_callback(note)
        return await asyncio.shield(task)

    def _change(self, directory: str, change: Callable[[dict[str, Inode]], None]) -> None:
        def step(machine: Machine) -> None:
            before = dict(machine.directories[directory].names)
            change(after := dict(before))
            gone = [name for name in before if name not in after]
            new = {name: inode for name, inode in after.items() if before.get(name) is not inode}

            machine.directories[directory].apply(NameChange(gone, new))

        self._tracer.note(step)

    async def list(self, directory: str = "") -> list[str]:
        return await self._disk.list(directory)

    async def make_directory(self, path: str) -> None:
        directory, name = _parent(path)
        is_new = name not in await self._disk.list(directory)
        await self._disk.make_directory(path)
        if is_new:
            self._tracer.note(lambda machine: machine.directories.__setitem__(path, Directory()))
            self._change(directory, lambda names: names.__setitem__(name, Inode()))

    async def rename(self, old: str, new: str) -> None:
        (directory, name), (_, renamed) = _parent(old), _parent(new)

        def change(names: dict[str, Inode]) -> None:
            names[renamed] = names.pop(name)

        await self._certainly(self._disk.rename(old, new), directory, change)

    async def unlink(self, path: str) -> None:
        directory, name = _parent(path)
        await self._certainly(
            self._disk.unlink(path), directory, lambda names: names.__delitem__(name)
        )

    async def sync_directory(self, directory: str = "") -> None:
        """Only changes noted before the sync began are durable after it."""
        self._syncs += 1
        token = self._syncs

        def begin(machine: Machine) -> None:
            machine.synced_to[token] = len(machine.directories[directory].changes)

        def end(machine: Machine) -> None:
            tree = machine.directories[directory]
            for change in tree.changes[: machine.synced_to[token]]:
                change(tree.durable)
            # A concurrent sync may have taken some of them: doing a change twice is harmless,
            # since each says which name is which file.
            del tree.changes[: machine.synced_to[token]]

        self._tracer.note(begin)
        await self._disk.sync_directory(directory)
        self._tracer.note(end)

    async def space(self, directory: str = "") -> DiskSpace:
        return await self._disk.space(directory)

    async def close(self) -> None:
        await self._disk.close()


class _Stored(dict[Key, int]):
    def __init__(self, tracer: Tracer) -> None:
        super().__init__()
        self._tracer = tracer

    def __setitem__(self, key: Key, index: int) -> None:
        self._tracer.note(lambda machine: machine.stored.__setitem__(key, index))
        super().__setitem__(key, index)


class _Fenced(set[LedgerId]):
    def __init__(self, tracer: Tracer) -> None:
        super().__init__()
        self._tracer = tracer

    def add(self, ledger: LedgerId) -> None:
        self._tracer.note(lambda machine: machine.fenced.add(ledger))
        super().add(ledger)


class _RealMachine:
    """Stands in for a `SimDisk` in a scene."""

    def __init__(self, root: Path, tracer: Tracer) -> None:
        self._root = root
        self._tracer = tracer

    def mount(self) -> TracingDisk:
        return TracingDisk(LocalDisk(self._root, create=True), self._tracer)


@dataclass
class Recording:
    """A trace, and everything that was sent while it was made."""

    steps: list[Step]
    sent: dict[Key, list[bytes]]


async def record(root: Path, seed: int = 1) -> Recording:
    """Run the workload on a real directory and return its trace."""
    tracer = Tracer()
    scene = Scene(seed=seed, options=TINY)
    machine: Any = _RealMachine(root, tracer)
    scene.disk = machine
    promises = Promises(stored=_Stored(tracer), fenced=_Fenced(tracer))
    await workload(scene, promises)
    await scene.node.abort()
    await scene.mount.close()
    return Recording(tracer.steps, promises.sent)


def fingerprint(disk: SimDisk) -> bytes:
    """Return what tells one image from another."""
    digest = blake2b(digest_size=12)
    for path, data in disk.files().items():
        digest.update(b"%d %d " % (len(path), len(data)) + path.encode() + data)
    return digest.digest()


CUTS: Final = (Cut.LOSES, Cut.KEEPS)


def images(recording: Recording, mixes: int, seed: int) -> Iterator[tuple[int, Machine, SimDisk]]:
    """Yield (point, machine, image): at every point all lost, all kept, and `mixes` mixtures."""
    machine = Machine()
    seen: set[bytes] = set()
    for point, step in enumerate(recording.steps, 1):
        step(machine)
        for number, cut in enumerate((*CUTS, *(Cut.MIXES,) * mixes)):
            disk = machine.image(hash_of(seed, point, number), cut)
            mark = fingerprint(disk) + b"%d %d" % (len(machine.stored), len(machine.fenced))
            if mark not in seen:
                seen.add(mark)
                yield point, machine, disk


def hash_of(*numbers: int) -> int:
    """Return a seed for a choice, the same in every run."""
    return int.from_bytes(blake2b(repr(numbers).encode(), digest_size=8).digest(), "big")


async def recover(recording: Recording, machine: Machine, disk: SimDisk) -> None:
    """Start a bookie on an image and hold it against the promises. Raises AssertionError."""
    scene = Scene(options=TINY)
    scene.disk = disk
    await check(scene, Promises(recording.sent, dict(machine.stored), set(machine.fenced)))


async def campaign(root: Path, images_wanted: int, mixes: int, seed: int) -> int:
    """Recover images, recording anew until there were enough; return how many."""
    done = 0
    while done < images_wanted:
        recording = await record(root / f"{seed}", seed)
        for point, machine, disk in images(recording, mixes, seed):
            try:
                await recover(recording, machine, disk)
            except BaseException as error:
                error.add_note(f"image {done}, point {point} of {len(recording.steps)}, {seed=}")
                raise
            done += 1
            if done % 5000 == 0:
                sys.stderr.write(f"{done:,} images\n")
            if done >= images_wanted:
                break
        seed += 1
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=50_000)
    parser.add_argument("--mixes", type=int, default=30, help="mixtures per point")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        work = campaign(Path(directory), arguments.images, arguments.mixes, arguments.seed)
        done = asyncio.run(work)
    sys.stdout.write(f"{done:,} crash images recovered: nothing acknowledged was lost\n")


if __name__ == "__main__":
    main()
