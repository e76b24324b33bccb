"""What a bookie's restart costs, and its memory: `python -m benchmarks.restart [--data DIR]`.

restart  a bookie process is loaded and killed with SIGKILL, again and again. Printed are what its
         journal held that no checkpoint covered, how long the next start took until clients could
         find it, and how much of that an empty bookie takes too. Then every entry that was
         acknowledged is looked for
memory   what 100,000 ledgers of one entry cost, in memory and at the next start
flood    the highest memory of a bookie whose disk is slower than those who write to it
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.appenders import BOOKIE, CLUSTER
from benchmarks.storage import KEY, OPTIONS, sealed_run
from quire.bookie import BookieAddress, list_all
from quire.errors import QuireError
from quire.ledger.remote import RemoteBookie
from quire.storage.disk.local import LocalDisk
from quire.storage.disk.local_file import LocalFile
from quire.storage.entries.checkpoint import read_checkpoint
from quire.storage.identity.cookie import format_bookie, read_cookie
from quire.storage.identity.identity import format_directory
from quire.storage.journal.record import Record
from quire.storage.journal.replay import replay
from quire.storage.journal.segments import JOURNAL, SEGMENT_SUFFIX, numbered
from quire.storage.node import BookieNode

LEDGERS: Final = 8
ENTRIES_PER_RUN: Final = 64
RUNS_UNDER_WAY: Final = 4


class Process:
    """A bookie process, and how long it took until clients could find it."""

    def __init__(
        self, process: asyncio.subprocess.Process, address: BookieAddress, seconds: float
    ) -> None:
        self._process = process
        self.address: Final = address
        self.seconds: Final = seconds

    @classmethod
    async def start(cls, directory: Path, store: str) -> Process:
        start = time.perf_counter()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "quire", "bookie", "serve", str(directory)),
            *("--store", store, "--json"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        assert process.stdout is not None
        ready = json.loads(await process.stdout.readline())
        address = BookieAddress(ready["bookie"], ready["address"])
        return cls(process, address, time.perf_counter() - start)

    async def end(self, number: signal.Signals) -> None:
        self._process.send_signal(number)
        await self._process.wait()


async def load(address: BookieAddress, held: dict[int, int], seconds: float) -> None:
    """Append to all ledgers until the time is up, noting the last entry acknowledged of each."""
    stub = RemoteBookie(address)
    end = time.perf_counter() + seconds

    async def write(ledger: int) -> None:
        at = held.get(ledger, -1) + 1
        while time.perf_counter() < end:
            runs = [
                sealed_run(ledger, at + number * ENTRIES_PER_RUN, ENTRIES_PER_RUN)
                for number in range(RUNS_UNDER_WAY)
            ]
            await asyncio.gather(*(stub.add(ledger, KEY, run) for run in runs))
            at += RUNS_UNDER_WAY * ENTRIES_PER_RUN
            held[ledger] = at - 1

    await asyncio.gather(*(write(ledger) for ledger in range(LEDGERS)))
    await stub.close()


async def uncovered(directory: Path) -> tuple[int, int]:
    """Return bytes and records of a stopped bookie's journal that no checkpoint covers."""
    disk = LocalDisk(directory)
    sizes: list[int] = []

    def note(record: Record) -> None:
        sizes.append(len(record.body))

    try:
        checkpoint, cookie = await read_checkpoint(disk), await read_cookie(disk)
        assert checkpoint is not None
        assert cookie is not None
        position = checkpoint.position
        names = numbered(await disk.list(JOURNAL), SEGMENT_SUFFIX)
        numbers = [number for number in names if number >= position.segment]
        await replay(disk, cookie.bookie, position, numbers, note)
    finally:
        await disk.close()
    return sum(sizes), len(sizes)


async def check(address: BookieAddress, held: dict[int, int]) -> int:
    """Return how many entries are there; raise when one that was acknowledged is not."""
    stub = RemoteBookie(address)
    total = 0
    for ledger, last in sorted(held.items()):
        ranges = await list_all(partial(stub.list_entries, ledger))
        if ranges[0][0] != 0 or ranges[0][1] < last:
            raise SystemExit(f"ledger {ledger}: 0 to {last} was acknowledged, {ranges} is there")
        held[ledger] = ranges[0][1]
        total += ranges[0][1] + 1
    await stub.close()
    return total


async def restarts(home: Path, rounds: int, seconds: float) -> None:
    store, directory = f"sqlite://{home}/metadata.db", home / "bookie"
    await format_directory(directory, store)
    process = await Process.start(directory, store)
    empty = process.seconds
    held: dict[int, int] = {}
    for number in range(1, rounds + 1):
        # Parts of a second more each time, so that the journal is met at different lengths.
        await load(process.address, held, seconds * number / rounds)
        await process.end(signal.SIGKILL)
        size, records = await uncovered(directory)
        process = await Process.start(directory, store)
        total = await check(process.address, held)
        more = max(0.0, process.seconds - empty)
        print(
            f"restart {number}: {size / 1e6:7.1f} MB in {records:6} records since the checkpoint: "
            f"{process.seconds:5.2f} s ({empty:.2f} s empty, {more / max(size, 1) * 1e8:.2f} s per "
            f"100 MB); {total} entries, none missing",
            flush=True,
        )
    await process.end(signal.SIGTERM)


def resident() -> int:
    """Return bytes of memory this process has now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


async def opened(disk: LocalDisk) -> BookieNode:
    return await BookieNode.open(
        disk, BOOKIE, CLUSTER, rng=random.Random(1), on_fatal=print, options=OPTIONS
    )


async def memory(home: Path, ledgers: int) -> None:
    disk = LocalDisk(home / "many", create=True)
    await format_bookie(disk, BOOKIE, CLUSTER)
    node = await opened(disk)
    before = resident()
    for low in range(0, ledgers, 500):
        numbers = range(low, min(low + 500, ledgers))
        await asyncio.gather(*(node.add(each, KEY, sealed_run(each, 0, 1)) for each in numbers))
    await node.close()
    cached = resident() - before
    start = time.perf_counter()
    node = await opened(disk)
    spent = time.perf_counter() - start
    print(
        f"memory: {ledgers} ledgers of one entry: {cached / ledgers:.0f} bytes per ledger while "
        f"they were written; the next start took {spent:.2f} s",
        flush=True,
    )
    await node.close()
    await disk.close()


async def flood(home: Path, seconds: float) -> None:
    """Write with more clients than a disk of 20 MB/s can serve."""
    write = LocalFile.write

    async def slow(
        self: LocalFile, offset: int, data: Sequence[bytes | memoryview], *, sync: bool = False
    ) -> None:
        await asyncio.sleep(sum(map(len, data)) / 20e6)  # 20 MB/s
        await write(self, offset, data, sync=sync)

    options = replace(OPTIONS, write_cache_bytes=8 << 20, memory_bytes_max=24 << 20)
    disk = LocalDisk(home / "slow", create=True)
    await format_bookie(disk, BOOKIE, CLUSTER)
    node = await BookieNode.open(
        disk, BOOKIE, CLUSTER, rng=random.Random(1), on_fatal=print, options=options
    )
    LocalFile.write = slow  # type: ignore[method-assign, assignment]
    before, highest, inside, busy, stored = resident(), 0, 0, 0, 0
    end = time.perf_counter() + seconds

    async def writer(ledger: int) -> None:
        nonlocal highest, inside, busy, stored
        at = 0
        while time.perf_counter() < end:
            run = sealed_run(ledger, at, ENTRIES_PER_RUN)
            try:
                await node.add(ledger, KEY, run)
                at += ENTRIES_PER_RUN
                stored += len(run)
            except QuireError:
                busy += 1
                await asyncio.sleep(0.05)
            highest = max(highest, resident() - before)
            inside = max(inside, node._engine.gate.bytes)

    await asyncio.gather(*(writer(ledger) for ledger in range(1000)))
    LocalFile.write = write  # type: ignore[method-assign]
    print(
        f"flood: 1,000 writers, disk of 20 MB/s: {stored / seconds / 1e6:.1f} MB/s stored, {busy} "
        f"adds refused as busy; {inside / 1e6:.0f} MB of at most 25 in the bookie, "
        f"{highest / 1e6:.0f} MB more memory at the most, the writers' own runs included"
    )
    await node.close()
    await disk.close()


async def measure(home: Path, rounds: int, seconds: float, ledgers: int) -> None:
    await restarts(home, rounds, seconds)
    await memory(home, ledgers)
    await flood(home, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="directory on the disk to measure")
    parser.add_argument("--rounds", type=int, default=5, help="kills")
    parser.add_argument("--seconds", type=float, default=5.0, help="of load before the last kill")
    parser.add_argument("--ledgers", type=int, default=100_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.data) as home:
        asyncio.run(measure(Path(home), arguments.rounds, arguments.seconds, arguments.ledgers))


if __name__ == "__main__":
    main()
