"""A log whose segments another engine holds: led, rolled, read, taken over, trimmed, deleted."""

from __future__ import annotations

import asyncio
import random

import pytest

from quire.errors import DeposedError, PositionTrimmedError, QuireError, UnsupportedError
from quire.log.directory import LogDirectory
from quire.log.manifest.options import LogOptions
from quire.log.records.position import BEGINNING
from tests.contract.segments.least import LeastSegments
from tests.support.log_cluster import NAME, LogCluster, append_all, numbered, run


def directory(cluster: LogCluster, engine: LeastSegments, seed: int) -> LogDirectory:
    return LogDirectory(
        cluster.store,
        cluster.catalog,
        rng=random.Random(seed),
        clock=cluster.clock,
        steady=cluster.steady,
        segments=LeastSegments(engine.shelves),
    )


async def payloads(logs: LogDirectory, start: object = BEGINNING) -> list[bytes]:
    async with await logs.read(NAME, start) as reader:  # type: ignore[arg-type]
        return [record.payload async for record in reader]


def test_a_log_lives_in_another_engine() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            engine = LeastSegments({})
            one, other = directory(cluster, engine, 1), directory(cluster, engine, 2)
            log = await one.open(NAME, LogOptions())
            await append_all(log, numbered(0, 6))
            await log.roll()
            await append_all(log, numbered(6, 6))
            assert await payloads(other) == numbered(0, 12)

            reader = await other.read(NAME, follow=True)
            followed = [(await anext(reader)).payload for _ in range(12)]
            following = asyncio.ensure_future(anext(reader))
            second = await other.open(NAME, LogOptions())
            with pytest.raises(DeposedError):
                await log.append(b"late")
            log.abandon()
            await append_all(second, [b"next"])
            assert [*followed, (await following).payload] == [*numbered(0, 12), b"next"]
            await reader.close()

            before = [shelf for shelf in engine.shelves.values() if not shelf.is_deleted]
            await second.roll()
            manifest = await one.describe(NAME)
            await second.trim(manifest.segments[1].start)
            assert before[0].is_deleted
            assert not before[1].is_deleted
            with pytest.raises(PositionTrimmedError):
                await payloads(one, manifest.segments[0].start)
            assert await payloads(one) == [*numbered(6, 6), b"next"]
            assert await cluster.ledgers() == []
            assert list(await one.gc()) == []
            assert [len(span.log) > 0 for span in await one.snapshot(NAME)] == [True, True]
            await second.close()
            await one.delete(NAME)
            assert all(shelf.is_deleted for shelf in engine.shelves.values() if shelf.entries)

    run(main)


def test_a_leader_that_vanishes_loses_nothing_that_was_acknowledged() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            engine = LeastSegments({})
            log = await directory(cluster, engine, 1).open(NAME, LogOptions())
            await append_all(log, numbered(0, 5))
            log.abandon()
            logs = directory(cluster, engine, 2)
            await logs.recover(NAME)
            assert await payloads(logs) == numbered(0, 5)
            again = await logs.open(NAME, LogOptions())
            assert (await again.append(b"5")).offset == 5
            await again.close()

    run(main)


def test_a_log_in_another_engine_takes_no_ledgers_of_jobs() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            logs = directory(cluster, LeastSegments({}), 1)
            ingest = logs.ingest(NAME)
            with pytest.raises(UnsupportedError, match="ledgers as segments"):
                await ingest.create_part("job", LogOptions())
            with pytest.raises(QuireError):
                await logs.describe(NAME)
            assert await cluster.ledgers() == []

    run(main)
