"""A log of a million segments: what its manifest costs, on SQLite or ZooKeeper.

    python -m benchmarks.million_segments [--segments 1000000] [--zookeeper] [--trim]

It builds a log whose manifest has so many segments. The first few have ledgers, the others have
none. Then it leads the log with real bookies of this machine: takeover, rolls, which give the last
segments ledgers, first record from a position and an offset, reading, the memory of the process. A
log with ten segments is measured beside it, the rolls of both in turn: other work on the machine
slows both down. With `--trim` half of the log is trimmed, and the deletion of its ledgers is timed
for a while: a ledger that is missing costs the store the round trip of one that is there.
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
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

import quire
from quire.aio.timing import time_limit
from quire.cluster import LocalCluster
from quire.entry import LedgerId
from quire.errors import QuireError
from quire.ledger.ids import FORMAT as IDS
from quire.ledger.quorum import Replication
from quire.log.leader.log import Log
from quire.log.maintenance.doomed import delete_doomed
from quire.log.manifest.manifest import LogManifest, Segment, SegmentEnd
from quire.log.manifest.options import LogOptions
from quire.log.manifest.pages_at_hand import Walk
from quire.log.manifest.record import ManifestRecord
from quire.log.records.position import Position
from quire.log.segment_store.ledgers import LedgerSegments
from quire.metastore.changes import Change
from quire.metastore.layout import LEDGER_IDS

T = TypeVar("T")

BATCH: Final = 8192
"""Segments that are added with one change of the manifest."""

RECORDS: Final = 100
"""Records in each of the made-up segments."""

REPEATS: Final = 30
FEW: Final = 20
"""Segments at the beginning of the log that have ledgers; the rolls make more at its end."""
OPTIONS: Final = LogOptions(replication=Replication(1, 1, 1))
FIRST_LEDGER: Final = 1 << 20
"""Ids of ledgers that do not exist. As in a log of its own age, older ledgers have lower ids, and
younger ones higher: a question for a ledger is then answered without a look into pages.
"""


async def begin(client: quire.Client, name: str, count: int) -> None:
    """Begin a log with a few segments that have ledgers."""
    log = await client.open_log(name, OPTIONS)
    for number in range(count):
        if number:
            await log.roll()
        await log.append_many([b"%d" % record for record in range(RECORDS)])
    await log.close()


async def fill(record: ManifestRecord, count: int) -> None:
    """Give a log more sealed segments, without ledgers, until it has so many."""
    manifest, _ = await record.read()
    while (added := manifest.next_segment - 1) < count:
        more = min(BATCH, count - added)

        def edit(now: LogManifest | None, more: int = more) -> LogManifest:
            assert now is not None
            stamp = int(time.time() * 1000)
            rows = [
                Segment(
                    number,
                    FIRST_LEDGER + number,
                    1,
                    stamp,
                    (number - 1) * RECORDS,
                    SegmentEnd(0, RECORDS, RECORDS, 100 * RECORDS, stamp),
                    ingested=True,  # a takeover reads the last batch of another leader
                )
                for number in range(now.next_segment, now.next_segment + more)
            ]
            after = replace(now, rows=(*now.rows, *rows), next_segment=now.next_segment + more)
            broken = after.check()
            assert not broken, broken
            return after

        manifest = await record.edit(edit)


class Calls:
    """Counts the calls of a metadata store that a piece of work makes, and their time."""

    def __init__(self, store: Any) -> None:
        self.count, self.seconds = 0, 0.0
        for name in ("get", "create", "put", "delete", "commit", "children"):
            setattr(store, name, self._counted(getattr(store, name)))

    def _counted(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def counted(*args: Any, **more: Any) -> Any:
            begun = time.perf_counter()
            try:
                return await call(*args, **more)
            finally:
                self.count += 1
                self.seconds += time.perf_counter() - begun

        return counted


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


async def build(client: quire.Client, count: int) -> None:
    """Make a log with so many segments."""
    name = f"log{count}"
    await begin(client, name, min(FEW, count // 2))
    took, _ = await timed(lambda: fill(client._logs._record(name), count))
    say(f"building a log of {count} segments", took / 1000, "s")


async def use_up_ids(client: quire.Client, below: LedgerId) -> None:
    """Have the next client get ids from `below` on."""
    store = client._logs._store
    found = await store.get(LEDGER_IDS)
    await store.put(LEDGER_IDS, IDS.encode({"next": below}), found.version)


async def lead(client: quire.Client, count: int) -> Log:
    """Take a log over."""
    print(f"{count} segments")
    name = f"log{count}"
    record = client._logs._record(name)
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
    took, log = await timed(lambda: client.open_log(name, OPTIONS))
    say("takeover of a closed tail", took)
    say("memory of the leader beyond the client's", memory_mb() - before, "MB")
    return log


async def compare_rolls(small: Log, large: Log, calls: Calls) -> None:
    """Roll both logs in turn, and print what a roll of each needs."""
    medians = []
    figures: list[list[tuple[float, float, int, float]]] = [[], []]
    for _ in range(REPEATS):
        for log, found in zip((small, large), figures, strict=True):
            found.append(await _roll(log, calls))
    for which, found in zip(("ten", "many"), figures, strict=True):
        print(f"  a roll with {which} segments")
        times, work, counts, waits = zip(*found, strict=True)
        medians.append(statistics.median(times))
        say("  time", medians[-1])
        say("  time of the processor in this process", statistics.median(work))
        say("  calls of the store", statistics.mean(counts), "")
        say("  time in calls of the store, which overlap", statistics.median(waits))
    print(f"a roll takes {medians[1] / medians[0]:.2f} times as long as with ten segments")
    # Work of others slows some rolls down and speeds none up.
    for what, column in (("the fastest took", 0), ("the processor's least was", 1)):
        ten, many = (min(each[column] for each in found) for found in figures)
        print(f"  {what} {many:.2f} ms against {ten:.2f}: {many / ten:.2f} times")


async def _roll(log: Log, calls: Calls) -> tuple[float, float, int, float]:
    await log.append(b"x")
    calls.count, calls.seconds = 0, 0.0
    begun, work = time.perf_counter(), time.process_time()
    await log.roll()
    took = time.perf_counter() - begun, time.process_time() - work
    return 1000 * took[0], 1000 * took[1], calls.count, 1000 * calls.seconds


async def read_some(client: quire.Client, count: int) -> None:
    """Read from places whose segments have ledgers: at the beginning and at the end of the log."""
    name, rng, few = f"log{count}", random.Random(count), min(FEW, count // 2)
    record = client._logs._record(name)
    manifest, _ = await record.read()
    last = manifest.next_segment - 2

    async def first_of(start: Position | int) -> None:
        async with await client.read_log(name, start) as reader:
            await anext(reader)

    def any_number() -> int:
        return rng.choice([rng.randint(1, few), rng.randint(count + 1, last)])

    async def by_position() -> None:
        await first_of(Position(any_number(), 0, 0))

    async def by_offset() -> None:
        number = any_number()
        ends = count * RECORDS + (number - count - 1)
        await first_of(rng.randrange(few * RECORDS) if number <= few else ends)

    took, _ = await timed(by_position, REPEATS)
    say("first record from a position", took)
    took, _ = await timed(by_offset, REPEATS)
    say("first record from an offset", took)
    begun, read = time.perf_counter(), 0
    async with await client.read_log(name, Position(count + 1, 0, 0)) as reader:
        async for _ in reader:
            read += 1
    say("reading a segment of one record, ledger and all", _ms_each(begun, read))
    before, begun, passed = memory_mb(), time.perf_counter(), 0
    async for _ in Walk(manifest):
        passed += 1
    say("passing a segment in order", _ms_each(begun, passed))
    say("memory of a follower that passed all", memory_mb() - before, "MB")


def _ms_each(begun: float, count: int) -> float:
    return 1000 * (time.perf_counter() - begun) / count


async def trim_half(client: quire.Client, count: int, seconds: float) -> None:
    record = client._logs._record(f"log{count}")
    half = Position(count // 2, 0, 0)

    async def change(edit: Callable[[LogManifest], LogManifest]) -> LogManifest:
        def on(found: LogManifest | None) -> LogManifest:
            assert found is not None
            return edit(found)

        return await record.edit(on)

    took, manifest = await timed(lambda: change(lambda found: found.trim(half)))
    say("trim of half", took)
    say("head after it", len(manifest.encode()) / 1000, "KB")
    segments = CountedSegments(client._logs._catalog)
    begun = time.perf_counter()
    with suppress(TimeoutError):
        async with time_limit(seconds):
            await delete_doomed(segments, manifest, change)
    say("ledgers deleted a second", segments.deleted / (time.perf_counter() - begun), "")


class CountedSegments(LedgerSegments):
    """Counts deletions."""

    deleted = 0

    async def delete(self, ledger: LedgerId, along: Sequence[Change] = ()) -> None:
        self.deleted += 1
        await super().delete(ledger, along)


async def main(count: int, zookeeper: bool, trims: bool) -> None:
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        cluster = LocalCluster(Path(directory), bookies=1, zookeeper=1 if zookeeper else None)
        await stack.enter_async_context(cluster)
        async with quire.connect(cluster.store_uri) as first:
            await build(first, 10)
            await build(first, count)
            await use_up_ids(first, FIRST_LEDGER + count + 1)
        client = await stack.enter_async_context(quire.connect(cluster.store_uri))
        calls = Calls(client._logs._store)
        small, large = await lead(client, 10), await lead(client, count)
        await compare_rolls(small, large, calls)
        await small.close()
        await large.close()
        await read_some(client, count)
        if trims:
            await trim_half(client, count, 20.0)


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
