"""Following: prompt, complete, never past what is confirmed, and quiet when nothing happens."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from quire.errors import HandleClosedError, NoSuchEntryError, NoSuchLedgerError
from quire.ledger.quorum import Replication
from quire.ledger.tail import WAIT_SECONDS
from tests.ledger.following import Follower, count_calls, following, open_reader, scenario
from tests.support.memory_cluster import MemoryCluster
from tests.support.planted_ledger import PlantedLedger, payload


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


# --- the handle -----------------------------------------------------------------------------


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
