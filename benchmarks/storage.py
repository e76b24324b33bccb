"""What a bookie's storage makes of its disk: `python -m benchmarks.storage [--data DIR]`.

Every figure stands beside what the same disk does without a bookie, measured in the same run a
moment before, because disks and neighbours change from minute to minute:

  append   1 KiB entries, so many in flight, as lone runs (one entry each, the hardest case) and as
           a writer sends them (what is queued as one run, four runs under way), against a loop of
           pwritev + fdatasync that writes as many bytes each time. The journal's segments are
           reused ones, as in a long life. `bookie` is what it can keep up: what is appended is
           written to entry logs meanwhile. `unflushed` is the same before the first flush, and
           `journal` the journal by itself: nothing is verified, indexed or readable
  ledgers  the same bytes to 1,000 ledgers at once against 1 ledger, flushes included
  read     the 1 ledger, the 1,000 one after the other, and some of 1,000 larger ones, read back in
           order and checked against their checksums, against pread of a plain file in pieces of the
           same size; from the disk (the page cache has been told to forget the files) and from the
           page cache. `joined`: after upkeep joined the files, as it does within seconds
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.appenders import Appender, Whole, journal_alone, whole_bookie
from quire.aio.loops import loop_factory
from quire.entry import DigestKind, Sealer
from quire.run import pack_run
from quire.storage.journal.options import StorageOptions
from quire.storage.node import BookieNode

KEY: Final = b"k" * 20
PAYLOAD: Final = os.urandom(1024)
RUNS_UNDER_WAY: Final = 4

ROUNDS: Final = 3
"""Takes of each append figure: disks and neighbours change while one looks."""

WARM_UP_RUNS: Final = 512
WARM_UP_ENTRIES: Final = 1000
"""Appended and flushed before anything is measured, so that there are segments to reuse."""

PREPARED_BYTES: Final = 512 * 1024 * 1024
"""Most that one take appends."""

BARE_BYTES: Final = 256 * 1024 * 1024
"""What the bare loop writes, again and again."""

READS: Final = 5
"""Takes of each read figure, each beside one of the plain file."""

FILE_BYTES: Final = 64 * 1024 * 1024
ENTRIES_PER_RUN: Final = 16
OPTIONS: Final = replace(
    StorageOptions(), low_space_bytes=0, upkeep_bytes_per_second=1 << 40
)  # upkeep does nothing unless it is asked to
UNFLUSHED: Final = replace(
    OPTIONS,
    write_cache_bytes=1 << 30,
    memory_bytes_max=2 << 30,
    journal_segments_max=128,
    spare_segments_max=64,
)
"""Room for everything that is appended while one looks."""


class Case(NamedTuple):
    """Ledgers that are written at once, and read back."""

    what: str
    ledgers: int
    runs: int
    """Written to all of them together."""
    read: int
    """How many of them are read."""
    piece: int
    """What the bare loop reads at a time."""


CASES: Final = (
    Case("1 ledger of 64 MB,", 1, 4000, 1, 1 << 20),
    Case("1,000 ledgers of 64 KB,", 1000, 4000, 1000, 1 << 16),
    Case("64 of 1,000 of 1 MB,", 1000, 64_000, 64, 1 << 20),
)


@asynccontextmanager
async def bookie(directory: Path, options: StorageOptions) -> AsyncIterator[Appender]:
    async with whole_bookie(directory, options) as node:
        yield Whole(node)


ROWS: Final = (
    ("lone runs, bookie", 1, bookie, OPTIONS),
    ("as written, bookie", RUNS_UNDER_WAY, bookie, OPTIONS),
    ("as written, unflushed", RUNS_UNDER_WAY, bookie, UNFLUSHED),
    ("as written, journal", RUNS_UNDER_WAY, journal_alone, UNFLUSHED),
)
"""What is measured, runs under way (1: each entry is one), on what, options."""


def sealed_run(ledger: int, first: int, count: int) -> bytes:
    sealer = Sealer(ledger, DigestKind.CRC32C, b"")
    return pack_run(
        sealer.seal(entry, entry - 1, 1 << 40, PAYLOAD) for entry in range(first, first + count)
    )


@contextmanager
def opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
        path.unlink()


def bare_writes(directory: Path, size: int, seconds: float) -> float:
    """Return MB/s of a loop that writes `size` bytes to zeroed blocks and syncs them: each time
    others, as a journal does, or they would stay in the processor's cache.
    """
    ready = [os.urandom(size) for _ in range(BARE_BYTES // size)]
    step = -(-size // 4096) * 4096
    with opened(directory / "raw") as descriptor:
        for offset in range(0, FILE_BYTES, 1 << 20):
            os.pwrite(descriptor, bytes(1 << 20), offset)
        os.fsync(descriptor)
        offset, written, start = 0, 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            os.pwritev(descriptor, [ready[written // size % len(ready)]], offset)
            os.fdatasync(descriptor)
            offset = (offset + step) % (FILE_BYTES - step)
            written += size
        return written / (time.perf_counter() - start) / 1e6


def evict(directory: Path) -> None:
    """Have the page cache forget the files below a directory."""
    for path in directory.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)  # only what is on the disk can be forgotten
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


def bare_reads(directory: Path, piece: int, *, is_cold: bool) -> float:
    """Return MB/s of reading a plain file of 64 MiB from its beginning, so many bytes at a time."""
    with opened(directory / "raw") as descriptor:
        for offset in range(0, FILE_BYTES, 1 << 20):
            os.pwrite(descriptor, os.urandom(1 << 20), offset)
        if is_cold:
            evict(directory)
        start = time.perf_counter()
        for offset in range(0, FILE_BYTES, piece):
            os.pread(descriptor, piece, offset)
        return FILE_BYTES / (time.perf_counter() - start) / 1e6


async def warm_up(appender: Appender) -> None:
    """Fill segments with a ledger of its own, and flush, so that they are free again."""
    ledger = 1 << 20
    run = sealed_run(ledger, 0, WARM_UP_ENTRIES)
    for _ in range(WARM_UP_RUNS // RUNS_UNDER_WAY):
        await asyncio.gather(*(appender.add(ledger, KEY, run) for _ in range(RUNS_UNDER_WAY)))
    await appender.flush()


async def append(
    appender: Appender, streams: int, entries: int, seconds: float
) -> tuple[float, float, float]:
    """Keep `streams` runs under way, each a ledger's next entries, until time is up or what was
    prepared is used up; return MB/s of payload, and p50 and p99 in ms.
    """
    taken: list[float] = []
    runs = PREPARED_BYTES // (streams * entries * len(PAYLOAD))
    ready = [
        [sealed_run(stream, at * entries, entries) for at in range(runs)]
        for stream in range(streams)
    ]

    await warm_up(appender)
    end = time.perf_counter() + seconds

    async def stream(number: int) -> None:
        for run in ready[number]:
            start = time.perf_counter()
            if start >= end:
                return
            await appender.add(number, KEY, run)
            taken.append(time.perf_counter() - start)

    start = time.perf_counter()
    await asyncio.gather(*(stream(number) for number in range(streams)))
    spent = time.perf_counter() - start
    cuts = statistics.quantiles(taken, n=100)
    return len(taken) * entries * 1024 / spent / 1e6, cuts[49] * 1e3, cuts[98] * 1e3


async def fill(node: BookieNode, ledgers: int, total_runs: int) -> float:
    """Write runs of 16 entries to ledgers in turn, 64 under way; return MB/s, last flush
    included.
    """
    spent = 0.0
    for base in range(0, total_runs, 512):
        numbers = range(base, min(base + 512, total_runs))
        runs = [
            (
                at % ledgers,
                sealed_run(at % ledgers, at // ledgers * ENTRIES_PER_RUN, ENTRIES_PER_RUN),
            )
            for at in numbers
        ]
        start = time.perf_counter()
        for low in range(0, len(runs), 64):
            await asyncio.gather(
                *(node.add(ledger, KEY, run) for ledger, run in runs[low : low + 64])
            )
        spent += time.perf_counter() - start
    start = time.perf_counter()
    await node._engine.upkeep.flush()
    spent += time.perf_counter() - start
    return total_runs * ENTRIES_PER_RUN * 1024 / spent / 1e6


async def read_back(node: BookieNode, case: Case) -> float:
    """Return MB/s of reading ledgers one after the other, each from its first entry on."""
    size, start = 0, time.perf_counter()
    for ledger in range(case.read):
        at, last = 0, case.runs // case.ledgers * ENTRIES_PER_RUN - 1
        while at <= last:
            run = await node.read(ledger, at, last)
            size += len(run)
            at += len(run) // (len(PAYLOAD) + 40)
    return size / (time.perf_counter() - start) / 1e6


def share(figure: float, raw: float) -> str:
    return f"{figure:8.1f} MB/s  {100 * figure / raw:5.0f} % of {raw:7.1f} MB/s"


async def measure_appends(directory: Path, in_flight: int, seconds: float) -> None:
    """Take turns between the bare loop and the bookie, and print medians."""
    raws: list[float] = []
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name, *_ in ROWS}
    for _ in range(ROUNDS):
        raws.append(bare_writes(directory, in_flight * 1024, seconds / ROUNDS))
        for name, under_way, opened_as, options in ROWS:
            streams = in_flight if under_way == 1 else under_way

            async with opened_as(directory, options) as appender:
                entries = in_flight // streams
                found[name].append(await append(appender, streams, entries, seconds / ROUNDS))
    raw = statistics.median(raws)
    for name, figures in found.items():
        rate, p50, p99 = (statistics.median(column) for column in zip(*figures, strict=True))
        what = f"append {in_flight:5} in flight, {name:21}"
        print(f"{what} {share(rate, raw)}   p50 {p50:6.2f} ms  p99 {p99:6.2f} ms", flush=True)


async def measure_reads(
    directory: Path, node: BookieNode, case: Case, *, is_cold: bool
) -> tuple[float, float]:
    """Take turns between the bookie and a plain file, and return the medians of both in MB/s."""
    takes: list[tuple[float, float]] = []
    for _ in range(READS):
        raw = bare_reads(directory, case.piece, is_cold=is_cold)
        if is_cold:
            evict(directory)
        takes.append((await read_back(node, case), raw))
    read, raw = (statistics.median(column) for column in zip(*takes, strict=True))
    return read, raw


async def all_wanted(_: Sequence[int]) -> bool:
    """No ledger of the benchmark is deleted."""
    return True


async def measure(directory: Path, seconds: float) -> None:
    for in_flight in (64, 1000):
        await measure_appends(directory, in_flight, seconds)
    written: list[float] = []
    reads: list[str] = []
    for case in CASES:
        async with whole_bookie(directory, OPTIONS) as node:
            written.append(await fill(node, case.ledgers, case.runs))
            reads += await read_case(directory, node, case, case.what)
            if await node._engine.compactor.join(all_wanted):
                reads += await read_case(directory, node, case, f"{case.what} joined,")
    print(f"write  1,000 ledgers at once against 1                {share(written[1], written[0])}")
    print(*reads, sep="\n")


async def read_case(directory: Path, node: BookieNode, case: Case, what: str) -> list[str]:
    rows: list[str] = []
    for is_cold, where in ((True, "from the disk"), (False, "from the page cache")):
        read, raw = await measure_reads(directory, node, case, is_cold=is_cold)
        rows.append(f"read   {what:28} {where:21} {share(read, raw)}")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="directory on the disk to measure")
    parser.add_argument(
        "--seconds", type=float, default=2.0, help="for each append figure, all takes"
    )
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(dir=arguments.data) as directory,
        asyncio.Runner(loop_factory=loop_factory()) as runner,  # as a bookie's process has it
    ):
        runner.run(measure(Path(directory), arguments.seconds))


if __name__ == "__main__":
    main()
