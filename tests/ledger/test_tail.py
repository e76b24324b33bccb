"""Following: prompt, complete, never past what is confirmed, and quiet when nothing happens."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager

import pytest

from quire.entry import Entry, LedgerId
from quire.errors import (
    HandleClosedError,
    NoSuchEntryError,
    NoSuchLedgerError,
    StoreUnavailableError,
)
from quire.ledger.metadata import Fragment, LedgerState
from quire.ledger.quorum import Replication
from quire.ledger.reader import LedgerReader
from quire.ledger.tail import WAIT_SECONDS
from quire.metastore.memory import MemoryStore
from quire.metastore.store import Versioned
from tests.support.memory_cluster import MemoryCluster, down, hung, slowly
from tests.support.planted_ledger import PASSWORD, PlantedLedger, payload
from tests.support.virtual import virtually

Body = Callable[[MemoryCluster], Awaitable[None]]


def scenario(size: int, body: Body, store: MemoryStore | None = None) -> None:
    async def main() -> None:
        async with MemoryCluster(size, store=store) as cluster:
            await body(cluster)

    virtually(main)


class Follower:
    """A task that follows and remembers what it saw."""

    def __init__(self, reader: LedgerReader, first: int = 0) -> None:
        self.reader = reader
        self.seen: list[Entry] = []
        self.task = asyncio.create_task(self._run(first))

    async def _run(self, first: int) -> None:
        async with aclosing(self.reader.follow(first)) as entries:
            async for entry in entries:
                self.seen.append(entry)

    @property
    def ids(self) -> list[int]:
        return [entry.entry for entry in self.seen]

    async def cancel(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


async def open_reader(planted: PlantedLedger) -> LedgerReader:
    return await planted.cluster.catalog.open_without_recovery(planted.ledger, password=PASSWORD)


@asynccontextmanager
async def following(planted: PlantedLedger, first: int = 0) -> AsyncIterator[Follower]:
    follower = Follower(await open_reader(planted), first)
    try:
        yield follower
    finally:
        await follower.cancel()


def count_calls(cluster: MemoryCluster) -> Counter[str]:
    counts: Counter[str] = Counter()

    async def before(method: str, ledger: LedgerId) -> None:
        counts[method] += 1

    for bookie in cluster.bookies.values():
        bookie.before = before
    return counts


@pytest.mark.parametrize(
    "replication", [Replication(1, 1, 1), Replication(3, 3, 2), Replication(5, 3, 2)], ids=str
)
def test_a_follower_sees_everything_once_and_ends_with_the_ledger(
    replication: Replication,
) -> None:
    async def body(cluster: MemoryCluster) -> None:
        writer = await cluster.catalog.create(replication)
        follower = Follower(await cluster.client().open_without_recovery(writer.ledger))
        for batch in range(10):
            await writer.append_many([b"%d" % (batch * 7 + i) for i in range(7)])
            await asyncio.sleep(0.005)
        await writer.close()
        await follower.task
        assert [int(entry.payload) for entry in follower.seen] == list(range(70))

    scenario(5, body)


def test_the_last_entry_of_an_idle_writer_appears_by_itself() -> None:
    """35: by the explicit LAC, not by polling."""

    async def body(cluster: MemoryCluster) -> None:
        writer = await cluster.catalog.create()
        follower = Follower(await cluster.client().open_without_recovery(writer.ledger))
        await asyncio.sleep(1)
        for number in range(5):
            await writer.append(b"x")
            await asyncio.sleep(0.1)
            assert follower.ids == list(range(number + 1))
        await writer.close()
        await follower.task

    scenario(3, body)


def test_the_tail_of_a_quiet_ledger_is_delivered_without_a_read() -> None:
    async def body(cluster: MemoryCluster) -> None:
        writer = await cluster.catalog.create()
        follower = Follower(await cluster.client().open_without_recovery(writer.ledger))
        await asyncio.sleep(1)
        counts = count_calls(cluster)
        for number in range(5):
            await writer.append(b"%d" % number)
            await asyncio.sleep(0.1)
        assert [int(entry.payload) for entry in follower.seen] == list(range(5))
        assert counts["read"] == 0
        await writer.append_many([b"5", b"6", b"7"])
        await asyncio.sleep(0.1)
        assert [int(entry.payload) for entry in follower.seen] == list(range(8))
        await writer.close()
        await follower.task

    scenario(3, body)


def test_nothing_unconfirmed_is_delivered() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        async with following(planted) as follower:
            await planted.add("b0 b1 b2", *range(5), lac=2)
            await asyncio.sleep(60)
            assert follower.ids == [0, 1, 2]
            await planted.put((await planted.metadata()).closed(3, 40))
            await follower.task
            assert follower.ids == [0, 1, 2, 3]

    scenario(3, body)


def test_an_idle_ledger_costs_a_call_per_bookie_and_wait() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        counts = count_calls(cluster)
        async with following(planted):
            await asyncio.sleep(10 * WAIT_SECONDS - 1)
        assert counts == {"wait_tail": 20}

    scenario(3, body)


def test_it_can_start_in_the_middle_and_ahead() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", *range(6), lac=4)
        async with following(planted, 3) as middle, following(planted, 5) as ahead:
            await asyncio.sleep(1)
            assert (middle.ids, ahead.ids) == ([3, 4], [])
            await planted.add("b0 b1 b2", 6, lac=5)
            await asyncio.sleep(1)
            assert (middle.ids, ahead.ids) == ([3, 4, 5], [5])

    scenario(3, body)


def test_a_closed_ledger_is_simply_read() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0, 1, 2)
        await planted.put((await planted.metadata()).closed(2, 30))
        follower = Follower(await open_reader(planted))
        await follower.task
        assert [entry.payload for entry in follower.seen] == [payload(e) for e in range(3)]
        nothing = Follower(await open_reader(planted), 3)
        await nothing.task
        assert nothing.ids == []
        with pytest.raises(NoSuchEntryError):
            await Follower(await open_reader(planted), 4).task

    scenario(3, body)


# --- lost bookies, changed ensembles, recovery ----------------------------------------------


@pytest.mark.parametrize("hook", [down(), hung()], ids=["down", "hung"])
@pytest.mark.parametrize("victim", ["b0", "b1", "b2"])
def test_the_loss_of_a_bookie_is_survived(
    victim: str, hook: Callable[[str, LedgerId], Awaitable[None]]
) -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        others = " ".join(name for name in cluster.bookies if name != victim)
        async with following(planted) as follower:
            await planted.add("b0 b1 b2", 0, 1, lac=0)
            await asyncio.sleep(1)
            cluster.bookies[victim].before = hook
            await planted.add(others, 2, 3, lac=2)
            await asyncio.sleep(2)
            assert follower.ids == [0, 1, 2]

    scenario(3, body)


def test_all_bookies_gone_is_waited_for() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0, 1, lac=0)
        for bookie in cluster.bookies.values():
            bookie.before = down()
        async with following(planted) as follower:
            await asyncio.sleep(100)
            assert follower.ids == []
            for bookie in cluster.bookies.values():
                bookie.before = down("nothing")
            await asyncio.sleep(2)
            assert follower.ids == [0]

    scenario(3, body)


def test_confirmed_entries_out_of_reach_are_waited_for() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0, 1, lac=0)
        for bookie in cluster.bookies.values():
            bookie.before = down("read")
        async with following(planted) as follower:
            await asyncio.sleep(100)
            assert follower.ids == []
            cluster.bookies["b1"].before = down("nothing")
            await asyncio.sleep(2)
            assert follower.ids == [0]

    scenario(3, body)


def test_the_writer_moves_to_another_ensemble() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        async with following(planted) as follower:
            await planted.add("b0 b1 b2", 0, 1, 2, lac=1)
            await asyncio.sleep(1)
            metadata = await planted.metadata()
            await planted.put(metadata.with_fragment(Fragment(2, ("b3", "b4", "b5"))))
            await planted.add("b3 b4 b5", 2, 3, lac=2)
            await asyncio.sleep(1)
            assert follower.ids == [0, 1, 2]

    scenario(6, body)


def test_in_recovery_it_waits_for_the_end() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", *range(5), lac=2)
        await planted.put((await planted.metadata()).with_state(LedgerState.IN_RECOVERY))
        counts = count_calls(cluster)
        async with following(planted) as follower:
            await asyncio.sleep(1000)
            assert (follower.ids, counts) == ([], {})
            assert await planted.read_all() == list(range(5))
            await follower.task
            assert follower.ids == list(range(5))

    scenario(3, body)


def test_a_recovery_under_way_is_followed_to_its_end() -> None:
    async def body(cluster: MemoryCluster) -> None:
        for bookie in cluster.bookies.values():
            bookie.before = slowly(0.003)
        writer = await cluster.catalog.create()
        follower = Follower(await cluster.client().open_without_recovery(writer.ledger))
        for _ in range(20):
            await writer.append(b"x")
        reader = await cluster.client().open(writer.ledger)
        await follower.task
        assert follower.ids == list(range((reader.metadata.last_entry or 0) + 1))
        writer.abandon()
        await writer.close()

    scenario(3, body)


# --- hints that prove nothing ---------------------------------------------------------------


def test_a_hint_that_cannot_be_verified_makes_no_busy_loop() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", *range(5), lac=2)
        for bookie in ("b0", "b1", "b2"):
            planted.corrupt(bookie, 4)
        counts = count_calls(cluster)
        async with following(planted) as follower:
            await asyncio.sleep(100)
            assert follower.ids == []
            assert counts["wait_tail"] <= 3 * 110
            await planted.add("b1", 5, lac=4)
            await asyncio.sleep(2)
            assert follower.ids == [0, 1, 2, 3]

    scenario(3, body)


def test_a_hint_is_never_believed() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", *range(5), lac=2)
        for bookie in cluster.bookies.values():
            bookie.ledgers[7].hint = 4
        async with following(planted) as follower:
            await asyncio.sleep(100)
            assert follower.ids == [0, 1, 2]

    scenario(3, body)


def test_a_fence_alone_makes_no_busy_loop() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0, 1, lac=0)
        for bookie in cluster.bookies.values():
            await bookie.read_tail(7, fence_key=planted.sealer.access_key)
        counts = count_calls(cluster)
        async with following(planted) as follower:
            await asyncio.sleep(100)
            assert counts["wait_tail"] <= 3 * 110
            assert follower.ids == [0]

    scenario(3, body)


# --- the handle and the store ---------------------------------------------------------------


def test_a_slow_consumer_is_not_pushed() -> None:
    """While it holds an entry nobody is asked anything new."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0, 1, lac=0)
        reader = await open_reader(planted)
        async with aclosing(reader.follow()) as entries:
            assert (await anext(entries)).entry == 0
            counts = count_calls(cluster)
            for entry in range(2, 50):
                await planted.add("b0 b1 b2", entry, lac=entry - 1)
            await asyncio.sleep(1)
            assert counts["wait_tail"] == 0
            assert [(await anext(entries)).entry for _ in range(48)] == list(range(1, 49))
            assert counts["wait_tail"] <= 4
            assert counts["read"] == 1

    scenario(3, body)


def test_closing_the_handle_ends_the_follower() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await asyncio.sleep(1)
        before = asyncio.all_tasks()
        follower = Follower(await open_reader(planted))
        await asyncio.sleep(1)
        await follower.reader.close()
        with pytest.raises(HandleClosedError):
            await follower.task
        assert asyncio.all_tasks() == before

    scenario(3, body)


def test_a_deleted_ledger_ends_the_follower() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        follower = Follower(await open_reader(planted))
        await asyncio.sleep(1)
        await cluster.catalog.delete(7)
        with pytest.raises(NoSuchLedgerError):
            await follower.task

    scenario(3, body)


class AwayStore(MemoryStore):
    away = False

    async def get(self, path: str) -> Versioned:
        self._check()
        return await super().get(path)

    async def wait(self, path: str, version: int | None) -> None:
        self._check()
        await super().wait(path, version)
        self._check()

    def _check(self) -> None:
        if self.away:
            raise StoreUnavailableError(self.uri, "by order of the test")


def test_entries_flow_while_the_store_is_away() -> None:
    store = AwayStore()

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        async with following(planted) as follower:
            store.away = True
            await planted.add("b0 b1 b2", 0, 1, 2, lac=1)
            await asyncio.sleep(100)
            assert follower.ids == [0, 1]
            store.away = False
            await planted.put((await planted.metadata()).closed(2, 30))
            await follower.task
            assert follower.ids == [0, 1, 2]

    scenario(3, body, store)


def test_where_one_bookie_covers_all_its_silence_stops_nobody() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(
            cluster, (0, "b0 b1 b2"), replication=Replication(3, 3, 3)
        )
        cluster.bookies["b0"].before = hung("wait_tail")
        async with following(planted) as follower:
            await planted.add("b0 b1 b2", 0, 1, lac=0)
            await asyncio.sleep(1)
            assert follower.ids == [0]

    scenario(3, body)
