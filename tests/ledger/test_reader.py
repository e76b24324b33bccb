"""Reading closed ledgers: from end to end, balanced, within bounds, and nothing left behind."""

from __future__ import annotations

import asyncio
import gc
import warnings
from contextlib import aclosing
from typing import Any

import pytest

from quire.entry import NO_ENTRY, Entry
from quire.errors import HandleClosedError, InvalidRequestError, NoSuchEntryError
from quire.ledger.options import LedgerOptions
from quire.ledger.quorum import Replication
from quire.ledger.read_ahead import PIECES, read_ahead
from tests.ledger.reading import LAYOUTS, closed, count_reads, ids, opened, scenario
from tests.support.memory_cluster import MemoryCluster
from tests.support.planted_ledger import PlantedLedger, payload
from tests.support.virtual import virtually


@pytest.mark.parametrize("replication", LAYOUTS, ids=str)
def test_a_closed_ledger_reads_from_end_to_end(replication: Replication) -> None:
    async def body(cluster: MemoryCluster) -> None:
        names = " ".join(f"b{number}" for number in range(replication.ensemble))
        planted = await PlantedLedger.create(cluster, (0, names), replication=replication)
        reader = await closed(planted, 500)
        assert reader.is_closed
        assert await reader.last_confirmed() == 499
        assert await ids(reader) == list(range(500))
        assert await ids(reader, 7, 11) == [7, 8, 9, 10, 11]
        assert await ids(reader, 499) == [499]
        assert await ids(reader, 500) == []
        assert (await reader.read_entry(123)).payload == payload(123)
        runs = [run async for run in reader.read_runs(3)]
        assert [entry.entry for run in runs for entry in run] == list(range(3, 500))

    scenario(5, body)


def test_an_empty_ledger_reads_as_nothing() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.put((await planted.metadata()).closed(NO_ENTRY, 0))
        reader = await opened(planted)
        assert await ids(reader) == []
        with pytest.raises(NoSuchEntryError):
            await reader.read_entry(0)

    scenario(3, body)


def test_fragments_are_read_each_from_its_own_ensemble() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"), (5, "b3 b4 b5"))
        assert await ids(await closed(planted, 12)) == list(range(12))

    scenario(6, body)


@pytest.mark.parametrize(("first", "last"), [(0, 10), (10, 10), (11, None)])
def test_past_the_end_there_is_provably_nothing(first: int, last: int | None) -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        reader = await closed(planted, 10)
        with pytest.raises(NoSuchEntryError, match="no entry 10"):
            await ids(reader, first, last)

    scenario(3, body)


@pytest.mark.parametrize(("first", "last"), [(-1, 3), (5, 3)])
def test_a_range_that_is_none_is_refused(first: int, last: int) -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        reader = await closed(planted, 10)
        with pytest.raises(InvalidRequestError, match="are not a range"):
            await ids(reader, first, last)

    scenario(3, body)


# --- balance, bounds, handles ---------------------------------------------------------------


def test_single_reads_spread_over_the_ensemble() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        reader = await closed(planted, 30)
        counts = count_reads(cluster)
        for entry in range(30):
            await reader.read_entry(entry)
        assert counts == {"b0": 10, "b1": 10, "b2": 10}

    scenario(3, body)


def test_a_sequential_read_stays_with_one_bookie() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        reader = await closed(planted, 200)
        counts = count_reads(cluster)
        assert len(await ids(reader)) == 200
        assert set(+counts) == {"b0"}
        assert counts["b0"] > 4

    scenario(3, body, LedgerOptions(read_ahead_bytes=4_000))


@pytest.mark.parametrize("bytes_max", [1, 100, 1_000, 100_000])
def test_read_ahead_keeps_its_bound(bytes_max: int) -> None:
    """What bookies sent and the consumer has not taken stays within the bound, or a frame a
    piece.
    """

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        reader = await closed(planted, 300)
        frame_bytes = 4 + len(planted.frame(0))
        sent, read = 0, cluster.bookies["b0"].read

        async def counted(*args: Any, **more: Any) -> bytes:
            nonlocal sent
            run = await read(*args, **more)
            sent += len(run)
            return run

        cluster.bookies["b0"].read = counted  # type: ignore[method-assign]
        taken = 0
        async for run in reader.read_runs():
            taken += len(run) * frame_bytes
            await asyncio.sleep(1)
            assert sent - taken <= max(bytes_max, PIECES * frame_bytes)
        assert sent == taken == 300 * frame_bytes

    scenario(3, body, LedgerOptions(read_ahead_bytes=bytes_max))


def test_entries_of_very_different_sizes_arrive_complete() -> None:
    async def body(cluster: MemoryCluster) -> None:
        writer = await cluster.catalog.create()
        sizes = [(entry * 7919) % 13 * 4_000 + entry % 3 for entry in range(150)]
        for start in range(0, 150, 10):
            await writer.append_many([bytes(size) for size in sizes[start : start + 10]])
        await writer.close()
        reader = await cluster.catalog.open(writer.ledger)
        assert [len(entry.payload) async for entry in reader.read()] == sizes

    scenario(3, body, LedgerOptions(read_ahead_bytes=64_000))


def test_a_closed_handle_reads_no_more() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        async with await closed(planted, 5) as reader:
            assert await ids(reader) == list(range(5))
        with pytest.raises(HandleClosedError):
            await ids(reader)
        with pytest.raises(HandleClosedError):
            await reader.last_confirmed()

    scenario(3, body)


def test_a_read_that_is_cancelled_before_it_asks_anybody_leaves_no_coroutine_behind() -> None:
    async def main() -> None:
        async def fetch(first: int, last: int, bytes_max: int) -> list[Entry]:
            raise AssertionError("nobody is to be asked")

        async def read() -> None:
            async for _ in read_ahead(fetch, 0, 99, LedgerOptions()):
                pass

        reading = asyncio.create_task(read())
        await asyncio.sleep(0)  # it has begun, what it begins has not
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        virtually(main)
        gc.collect()
    assert [str(each.message) for each in said] == []


def test_a_read_that_is_left_early_leaves_no_task_behind() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        reader = await closed(planted, 300)
        before = asyncio.all_tasks()
        async with aclosing(reader.read()) as entries:
            async for _ in entries:
                break
        assert asyncio.all_tasks() == before

    scenario(3, body, LedgerOptions(read_ahead_bytes=2_000))
