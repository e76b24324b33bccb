"""Reading: what may be read, from whom, and how copies that fail are passed over."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import pytest

from quire.entry import NO_ENTRY, Entry, LedgerId
from quire.errors import (
    HandleClosedError,
    InvalidRequestError,
    NoSuchEntryError,
    NoSuchLedgerError,
    StoreUnavailableError,
    UnreadableError,
)
from quire.ledger.metadata import Fragment
from quire.ledger.options import LedgerOptions
from quire.ledger.quorum import Replication
from quire.ledger.read_ahead import PIECES, read_ahead
from quire.ledger.reader import LedgerReader
from tests.support.memory_cluster import MemoryCluster, down, hung, slowly
from tests.support.planted_ledger import PASSWORD, PlantedLedger, payload
from tests.support.virtual import virtually

Body = Callable[[MemoryCluster], Awaitable[None]]


def scenario(size: int, body: Body, options: LedgerOptions | None = None) -> None:
    async def main() -> None:
        async with MemoryCluster(size, options=options) as cluster:
            await body(cluster)

    virtually(main)


async def opened(planted: PlantedLedger) -> LedgerReader:
    return await planted.cluster.catalog.open_without_recovery(planted.ledger, password=PASSWORD)


async def closed(planted: PlantedLedger, entries: int) -> LedgerReader:
    """Plant `entries` everywhere by the first fragment, close the ledger, and open it."""
    metadata = await planted.metadata()
    for fragment in metadata.fragments:
        above = [each.first for each in metadata.fragments if each.first > fragment.first]
        ids = range(fragment.first, min([*above, entries]))
        for position, bookie in enumerate(fragment.bookies):
            mine = [e for e in ids if metadata.replication.is_written_to(e, position)]
            await planted.add(bookie, *mine)
    await planted.put(metadata.closed(entries - 1, 10 * entries))
    return await opened(planted)


async def ids(reader: LedgerReader, first: int = 0, last: int | None = None) -> list[int]:
    entries = [entry async for entry in reader.read(first, last)]
    assert [entry.payload for entry in entries] == [payload(entry.entry) for entry in entries]
    return [entry.entry for entry in entries]


def count_reads(cluster: MemoryCluster) -> Counter[str]:
    counts: Counter[str] = Counter()

    def counting(name: str) -> Callable[[str, LedgerId], Awaitable[None]]:
        async def before(method: str, ledger: LedgerId) -> None:
            counts[name] += method == "read"

        return before

    for name, bookie in cluster.bookies.items():
        bookie.before = counting(name)
    return counts


LAYOUTS = [Replication(1, 1, 1), Replication(3, 3, 2), Replication(3, 2, 2), Replication(5, 3, 2)]


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
        with pytest.raises(InvalidRequestError, match="no range"):
            await ids(reader, first, last)

    scenario(3, body)


# --- open ledgers ---------------------------------------------------------------------------


def test_reads_stop_at_what_is_confirmed() -> None:
    """35: LAC rides on the next entry, so the last one confirmed is not yet known."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", *range(6), lac=3)
        reader = await opened(planted)
        assert await reader.last_confirmed() == 3
        assert await ids(reader) == [0, 1, 2, 3]
        with pytest.raises(InvalidRequestError, match="past the last confirmed entry 3"):
            await reader.read_entry(4)
        with pytest.raises(InvalidRequestError, match="past the last confirmed"):
            await ids(reader, 0, 4)
        assert not cluster.bookies["b0"].ledgers[7].fenced

    scenario(3, body)


def test_an_explicit_lac_is_seen() -> None:
    """35."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", *range(6), lac=3)
        packet, key = planted.sealer.seal_lac(5), planted.sealer.access_key
        for bookie in ("b0", "b1"):
            await cluster.bookies[bookie].write_lac(7, key, packet)
        assert await (await opened(planted)).last_confirmed() == 5

    scenario(3, body)


def test_lac_never_falls() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1", *range(6), lac=3)
        reader = await opened(planted)
        assert await reader.last_confirmed() == 3
        for bookie in ("b0", "b1"):
            cluster.bookies[bookie].ledgers.clear()
        assert await reader.last_confirmed() == 3

    scenario(3, body)


def test_a_fragment_that_began_confirms_everything_below_it() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"), (4, "b3 b4 b5"))
        await planted.add("b0 b1 b2", *range(4))
        reader = await opened(planted)
        assert await reader.last_confirmed() == 3
        assert await ids(reader) == [0, 1, 2, 3]

    scenario(6, body)


@pytest.mark.parametrize("hook", [down(), hung()], ids=["down", "hung"])
def test_lac_needs_coverage(hook: Callable[[str, LedgerId], Awaitable[None]]) -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1", 0, 1, lac=0)
        cluster.bookies["b0"].before = hook
        reader = await opened(planted)
        assert await reader.last_confirmed() == 0
        cluster.bookies["b1"].before = hook
        with pytest.raises(UnreadableError, match="1 of 3"):
            await reader.last_confirmed()

    scenario(3, body)


def test_a_damaged_tail_is_no_answer() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0, 1, lac=0)
        planted.corrupt("b0", 1)
        planted.corrupt("b1", 1)
        with pytest.raises(UnreadableError):
            await (await opened(planted)).last_confirmed()

    scenario(3, body)


def test_a_ledger_closed_meanwhile_is_noticed() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0, 1)
        reader = await opened(planted)
        await planted.put((await planted.metadata()).closed(1, 20))
        assert await ids(reader) == [0, 1]
        assert reader.is_closed

    scenario(3, body)


def test_unconfirmed_entries_can_be_asked_for() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1", 0, 1)
        await planted.add("b2", 0, 1, 2)
        reader = await opened(planted)
        entries = reader.read_unconfirmed(0, 9)
        assert [(await anext(entries)).entry for _ in range(3)] == [0, 1, 2]
        with pytest.raises(NoSuchEntryError, match="no entry 3"):
            await anext(entries)

    scenario(3, body)


# --- copies that fail -----------------------------------------------------------------------


@pytest.mark.parametrize("replication", LAYOUTS[1:], ids=str)
@pytest.mark.parametrize("victim", [0, 1, 2])
def test_damaged_copies_are_passed_over(replication: Replication, victim: int) -> None:
    async def body(cluster: MemoryCluster) -> None:
        names = [f"b{number}" for number in range(replication.ensemble)]
        planted = await PlantedLedger.create(cluster, (0, " ".join(names)), replication=replication)
        reader = await closed(planted, 60)
        for entry in range(60):
            if replication.is_written_to(entry, victim) and entry % 4:
                planted.corrupt(names[victim], entry)
        assert await ids(reader) == list(range(60))

    scenario(5, body)


@pytest.mark.parametrize("replication", LAYOUTS[1:], ids=str)
@pytest.mark.parametrize("hook", [down(), hung()], ids=["down", "hung"])
def test_a_bookie_out_of_reach_is_passed_over(
    replication: Replication, hook: Callable[[str, LedgerId], Awaitable[None]]
) -> None:
    async def body(cluster: MemoryCluster) -> None:
        names = [f"b{number}" for number in range(replication.ensemble)]
        planted = await PlantedLedger.create(cluster, (0, " ".join(names)), replication=replication)
        reader = await closed(planted, 100)
        for victim in names:
            cluster.bookies[victim].before = hook
            began = asyncio.get_running_loop().time()
            assert await ids(reader) == list(range(100))
            assert asyncio.get_running_loop().time() - began < 2
            cluster.bookies[victim].before = down("nothing")

    scenario(5, body)


def test_a_slow_bookie_is_overtaken_and_then_avoided() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        reader = await closed(planted, 10)
        counts = count_reads(cluster)
        cluster.bookies["b0"].before = slowly(1.0)
        time = asyncio.get_running_loop().time
        assert await reader.read_entry(0)
        assert time() == cluster.options.speculative_delay
        assert await reader.read_entry(3)
        assert time() == cluster.options.speculative_delay
        assert counts["b1"] == 2

    scenario(3, body)


def test_with_every_copy_damaged_the_error_names_the_entry() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        reader = await closed(planted, 5)
        for bookie in ("b0", "b1", "b2"):
            planted.corrupt(bookie, 3)
        with pytest.raises(UnreadableError, match=r"entry 3 of ledger 7.*damaged copy"):
            await ids(reader)

    scenario(3, body)


def test_a_replica_that_moved_is_found_by_looking_at_metadata_again() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0"), replication=Replication(1, 1, 1))
        reader = await closed(planted, 5)
        run = await cluster.bookies["b0"].read(7, 0, 4)
        await cluster.bookies["b1"].add(7, planted.sealer.access_key, run)
        await planted.put((await planted.metadata()).with_replica(0, 0, "b1"))
        cluster.bookies["b0"].before = down()
        assert await ids(reader) == list(range(5))
        assert reader.metadata.last_fragment == Fragment(0, ("b1",))

    scenario(2, body)


async def _moved(cluster: MemoryCluster) -> LedgerReader:
    """A reader of a ledger whose only replica went from b0, which forgot it, to b1."""
    planted = await PlantedLedger.create(cluster, (0, "b0"), replication=Replication(1, 1, 1))
    reader = await closed(planted, 5)
    run = await cluster.bookies["b0"].read(7, 0, 4)
    await cluster.bookies["b1"].add(7, planted.sealer.access_key, run)
    await planted.put((await planted.metadata()).with_replica(0, 0, "b1"))
    cluster.bookies["b0"].ledgers.clear()
    return reader


def test_metadata_that_somebody_else_refreshed_meanwhile_is_used_too() -> None:
    """As a follower's watch does while a read by the old metadata is under way."""

    async def body(cluster: MemoryCluster) -> None:
        reader = await _moved(cluster)

        async def refresh(method: str, ledger: LedgerId) -> None:
            if method == "read":
                await reader.refresh()

        cluster.bookies["b0"].before = refresh
        assert await ids(reader) == list(range(5))

    scenario(2, body)


def test_nothing_is_denied_by_metadata_that_cannot_be_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def body(cluster: MemoryCluster) -> None:
        reader = await _moved(cluster)

        async def refuse(self: LedgerReader) -> bool:
            raise StoreUnavailableError("memory:", "by order of the test")

        with monkeypatch.context() as store_down:
            store_down.setattr(LedgerReader, "refresh", refuse)
            with pytest.raises(StoreUnavailableError):
                await ids(reader)
        assert await ids(reader) == list(range(5))

    scenario(2, body)


def test_a_deleted_ledger_is_named_when_its_entries_are_gone() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        reader = await closed(planted, 5)
        await cluster.catalog.delete(7)
        for bookie in cluster.bookies.values():
            bookie.ledgers.clear()
        with pytest.raises(NoSuchLedgerError):
            await ids(reader)

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
