"""Processor time of a run at a bookie, between its message and its answer.

    python -m benchmarks.taking [--ledgers 250] [--rounds 140] [--metrics]

A stream brings messages with a run of 1 KiB for each ledger to a node behind the guards of a bookie
process. Its files are in memory, so no time of a disk and no system call is in the figure; nor are
the connection, flushes and upkeep. The processor's time does not count other work on the machine,
but caches that others use make it longer: compare programs in turns.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import random
import time
from collections.abc import Sequence
from typing import Any, Final

from quire.entry import DigestKind, Sealer
from quire.run import pack_run
from quire.storage.disk.port import DiskSpace
from quire.storage.identity.cookie import format_bookie
from quire.storage.journal.options import StorageOptions
from quire.storage.node import BookieNode
from quire.storage.serving.add_stream import AddStream, decode_runs
from quire.storage.serving.births import BornBookie, Bound
from quire.storage.serving.limits import Reception
from quire.storage.serving.metered import Meter, MeteredBookie
from quire.storage.serving.obedient import ObedientBookie
from quire.wire import bookie_pb2 as pb
from quire.wire.adds import encode_request, encode_run
from quire.wire.transport import EOF

BOOKIE: Final = "b" * 32
KEY: Final = b"k" * 20
PAYLOAD: Final = os.urandom(1024)
WARM_UP: Final = 5
"""Rounds before the measured ones; the first of them makes the ledgers known."""


class MemoryFile:
    """A file in memory. Implements `File`."""

    def __init__(self) -> None:
        self.data = bytearray()

    async def write(
        self, offset: int, data: Sequence[bytes | memoryview], *, sync: bool = False
    ) -> None:
        """See `File.write`."""
        if offset > len(self.data):
            self.data.extend(bytes(offset - len(self.data)))
        for piece in data:
            self.data[offset : offset + len(piece)] = piece
            offset += len(piece)

    async def sync(self) -> None:
        """See `File.sync`."""

    async def read(self, offset: int, size: int) -> bytes:
        """See `File.read`."""
        return bytes(self.data[offset : offset + size])

    def will_read(self, offset: int, size: int) -> None:
        """See `File.will_read`."""

    async def truncate(self, size: int) -> None:
        """See `File.truncate`."""
        del self.data[size:]

    @property
    def size(self) -> int:
        """See `File.size`."""
        return len(self.data)

    async def close(self) -> None:
        """See `File.close`."""


class MemoryDisk:
    """Files in memory. Implements `Disk`."""

    def __init__(self) -> None:
        self._files: dict[str, MemoryFile] = {}
        self._directories = {""}

    async def open(self, path: str, *, create: bool = False) -> MemoryFile:
        """See `Disk.open`."""
        if create:
            self._files.setdefault(path, MemoryFile())
        if path not in self._files:
            raise FileNotFoundError(2, "no such file", path)
        return self._files[path]

    async def list(self, directory: str = "") -> list[str]:
        """See `Disk.list`."""
        if directory not in self._directories:
            raise FileNotFoundError(2, "no such directory", directory)
        before = f"{directory}/" if directory else ""
        found = [*self._files, *(self._directories - {""})]
        inside = (each for each in found if each.startswith(before))
        return sorted({each[len(before) :].partition("/")[0] for each in inside})

    async def make_directory(self, path: str) -> None:
        """See `Disk.make_directory`."""
        self._directories.add(path)

    async def rename(self, old: str, new: str) -> None:
        """See `Disk.rename`."""
        self._files[new] = self._files.pop(old)

    async def unlink(self, path: str) -> None:
        """See `Disk.unlink`."""
        del self._files[path]

    async def sync_directory(self, directory: str = "") -> None:
        """See `Disk.sync_directory`."""

    async def space(self, directory: str = "") -> DiskSpace:
        """See `Disk.space`."""
        return DiskSpace(1 << 50, 1 << 50)

    async def close(self) -> None:
        """See `Disk.close`."""


class AllGiven:
    """Implements `Births`: every id was given out."""

    async def born_below(self) -> int:
        """See `Births.born_below`."""
        return 1 << 40


class MessageFeed:
    """Implements `RunContext`: the next message comes when the one before is answered."""

    def __init__(self, messages: list[bytes], runs: int) -> None:
        self._messages = messages
        self._runs = runs
        self._next = 0
        self._settled = asyncio.Event()
        self._settled.set()
        self.begun = 0.0
        """The process's time when the measured messages began."""

    async def read(self) -> Any:
        """See `RunContext.read`."""
        await self._settled.wait()
        self._settled.clear()
        if self._next == WARM_UP:
            gc.collect()
            gc.freeze()
            self.begun = time.process_time()
        if self._next == len(self._messages):
            return EOF
        self._next += 1
        return decode_runs(self._messages[self._next - 1])

    async def write(self, message: pb.AddReply, /) -> None:
        """See `RunContext.write`."""
        if message.failures:
            raise RuntimeError(f"runs were refused: {message.failures}")
        if message.settled % self._runs == 0:
            self._settled.set()


def messages(ledgers: int, rounds: int) -> list[bytes]:
    """Return messages, each with one run of each ledger."""
    sealers = [Sealer(ledger, DigestKind.CRC32C, b"") for ledger in range(ledgers)]
    found = list[bytes]()
    for entry in range(rounds):
        runs = [
            encode_run(sealer.ledger, KEY, pack_run([sealer.seal(entry, entry - 1, 0, PAYLOAD)]))
            for sealer in sealers
        ]
        first = entry * ledgers + 1
        found.append(b"".join(encode_request(first, BOOKIE if first == 1 else None, runs)))
    return found


async def measure(ledgers: int, rounds: int, *, metrics: bool) -> float:
    """Return the microseconds of a run."""
    disk = MemoryDisk()
    await format_bookie(disk, BOOKIE, "c" * 32)
    options = StorageOptions(write_cache_bytes=1 << 30, memory_bytes_max=2 << 30)
    rng = random.Random(1)
    node = await BookieNode.open(disk, BOOKIE, "c" * 32, rng=rng, on_fatal=print, options=options)
    born = BornBookie(node, BOOKIE, Bound(AllGiven()), node.knows)
    obedient = ObedientBookie(born, BOOKIE, node.knows)
    feed = MessageFeed(messages(ledgers, WARM_UP + rounds), ledgers)
    reception = Reception(MeteredBookie(obedient, Meter()) if metrics else obedient, BOOKIE)
    await AddStream(reception, feed).serve()
    spent = time.process_time() - feed.begun
    await node.abort()
    return 1e6 * spent / (ledgers * rounds)


def main() -> None:
    """Measure, and print the figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ledgers", type=int, default=250, help="runs of a message")
    parser.add_argument("--rounds", type=int, default=140, help="messages that are measured")
    parser.add_argument("--metrics", action="store_true", help="as a bookie with --metrics")
    given = parser.parse_args()
    gc.set_threshold(10_000, 20, 20)
    taken = asyncio.run(measure(given.ledgers, given.rounds, metrics=given.metrics))
    print(f"{taken:.1f} µs of the processor a run, {given.ledgers} ledgers in a message")


if __name__ == "__main__":
    main()
