"""A log of a million segments: what its manifest costs, on SQLite or ZooKeeper.

    python -m benchmarks.million_segments [--segments 1000000] [--zookeeper] [--trim]

It builds a log whose manifest has so many segments, without ledgers of their own, and then leads it
with real bookies of this machine: takeover, roll, first record from a position and an offset,
reading, the memory of the process. A log with ten segments is measured beside it. With `--trim`
half of the log is trimmed and the deletion of the ledgers is timed for a while.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import random
import resource
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar, cast

import quire
from quire.aio.timing import time_limit
from quire.cluster import LocalCluster
from quire.errors import QuireError
from quire.ledger.quorum import Replication
from quire.log.leader.log import Log
from quire.log.maintenance.doomed import delete_doomed
from quire.log.manifest.manifest import LogManifest, Segment, SegmentEnd
from quire.log.manifest.options import LogOptions
from quire.log.manifest.pages_at_hand import Walk, ask
from quire.log.manifest.record import ManifestRecord
from quire.log.records.position import Position
from quire.log.segment_store.port import SegmentStore

T = TypeVar("T")

BATCH: Final = 8192
"""Segments that are added with one change of the manifest."""

RECORDS: Final = 100
"""Records in each of the made-up segments."""

REPEATS: Final = 30
OPTIONS: Final = LogOptions(replication=Replication(1, 1, 1))
FIRST_LEDGER: Final = 1 << 40
"""Ids of ledgers that do not exist; those of the cluster are lower."""


async def fill(record: ManifestRecord, count: int) -> None:
    """Give a new log so many sealed segments."""
    added = 0
    while added < count:
        more = min(BATCH, count - added)
        first = added

        def edit(found: LogManifest | None, more: int = more, first: int = first) -> LogManifest:
            now = found or LogManifest(record.name, f"{random.getrandbits(128):032x}", 0)
            rows = [
                Segment(
                    number,
                    FIRST_LEDGER + number,
                    1,
                    number,
                    (number - 1) * RECORDS,
                    SegmentEnd(0, RECORDS, RECORDS, 100 * RECORDS, number),
                    ingested=True,  # a takeover reads the last batch of another leader
                )
                for number in range(first + 1, first + more + 1)
            ]
            after = replace(now, epoch=1, rows=(*now.rows, *rows), next_segment=first + more + 1)
            broken = after.check()
            assert not broken, broken
            return after

        await record.edit(edit)
        added += more


async def timed(work: Callable[[], Awaitable[T]], repeats: int = 1) -> tuple[float, T]:
    """Return the median time in milliseconds, and the last result."""
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        result = await work()
        times.append(1000 * (time.perf_counter() - begun))
    return statistics.median(times), result


def memory_mb() -> float:
    gc.collect()
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def say(what: str, value: float, unit: str = "ms") -> None:
    print(f"  {what:48} {value:10.2f} {unit}")


async def measure(cluster: LocalCluster, count: int) -> float:
    """Measure a log with so many segments; returns the time of a roll."""
    print(f"{count} segments")
    async with quire.connect(cluster.store_uri) as client:
        name = f"log{count}"
        record = client._logs._record(name)
        took, _ = await timed(lambda: fill(record, count))
        say("building it", took / 1000, "s")
        seen, _ = await record.read()
        say("head", len(seen.encode()) / 1000, "KB")
        say("head with all its levels", len(seen.places), "references")

        async def manifest_part() -> None:
            fresh = client._logs._record(name)
            manifest, _ = await fresh.read()
            manifest.open_segments, manifest.last_txid, manifest.end_offset  # noqa: B018

        took, _ = await timed(manifest_part, REPEATS)
        say("manifest part of a takeover, cold", took)
        before = memory_mb()
        took, log = await timed(lambda: client._logs.open(name, OPTIONS))
        say("takeover of a closed tail", took)
        rolls = [await _roll(log) for _ in range(REPEATS)]
        roll = statistics.median(rolls)
        say("append and roll", roll)
        say("memory of the leader beyond the client's", memory_mb() - before, "MB")
        await _read(client._logs._record(name), count)
        await log.close()
    return roll


async def _roll(log: Log) -> float:
    await log.append(b"x")
    begun = time.perf_counter()
    await log.roll()
    return 1000 * (time.perf_counter() - begun)


async def _read(record: ManifestRecord, count: int) -> None:
    rng = random.Random(count)

    async def by_number() -> None:
        manifest, _ = await record.read()
        number = rng.randint(1, count)
        await ask(manifest, lambda: manifest.segment_from(number))

    async def by_offset() -> None:
        manifest, _ = await record.read()
        offset = rng.randrange(count * RECORDS)
        walk = Walk(manifest, skips=lambda of: of.end_offset <= offset)
        async for segment in walk:
            if segment.end_offset is not None and offset < segment.end_offset:
                break

    took, _ = await timed(by_number, REPEATS)
    say("segment of a position", took)
    took, _ = await timed(by_offset, REPEATS)
    say("segment of an offset", took)
    before, begun, passed = memory_mb(), time.perf_counter(), 0
    manifest, _ = await record.read()
    async for _ in Walk(manifest):
        passed += 1
    say("passing a segment in order", 1000 * (time.perf_counter() - begun) / passed)
    say("memory of a follower that passed all", memory_mb() - before, "MB")


class Ledgers:
    """A catalog whose deletions cost nothing: the ledgers of these segments do not exist."""

    deleted = 0

    async def delete(self, ledger: int) -> None:
        self.deleted += 1


async def trim_half(cluster: LocalCluster, count: int, seconds: float) -> None:
    async with quire.connect(cluster.store_uri) as client:
        record = client._logs._record(f"log{count}")
        half = Position(count // 2, 0, 0)

        def edit(found: LogManifest | None) -> LogManifest:
            assert found is not None
            return found.trim(half)

        took, manifest = await timed(lambda: record.edit(edit))
        say("trim of half", took)
        say("head after it", len(manifest.encode()) / 1000, "KB")
        catalog = Ledgers()

        async def change(edit_one: Callable[[LogManifest], LogManifest]) -> LogManifest:
            def on(found: LogManifest | None) -> LogManifest:
                assert found is not None
                return edit_one(found)

            return await record.edit(on)

        begun = time.perf_counter()
        with suppress(TimeoutError):
            async with time_limit(seconds):
                await delete_doomed(cast(SegmentStore, catalog), manifest, change)
        seconds = time.perf_counter() - begun
        say("ledgers passed a second, without deleting them", catalog.deleted / seconds, "")


async def main(count: int, zookeeper: bool, trims: bool) -> None:
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        cluster = LocalCluster(Path(directory), bookies=1, zookeeper=1 if zookeeper else None)
        await stack.enter_async_context(cluster)
        small = await measure(cluster, 10)
        large = await measure(cluster, count)
        print(f"a roll takes {large / small:.2f} times as long as with ten segments")
        if trims:
            await trim_half(cluster, count, 20.0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--segments", type=int, default=1_000_000)
    parser.add_argument("--zookeeper", action="store_true")
    parser.add_argument("--trim", action="store_true")
    given = parser.parse_args()
    try:
        asyncio.run(main(given.segments, given.zookeeper, given.trim))
    except QuireError as error:
        raise SystemExit(f"error: {error}") from None
