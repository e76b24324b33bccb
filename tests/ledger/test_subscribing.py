"""Followers whose bookies push: complete, confirmed only, bounded, and renewed after any end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import cast

from quire.entry import NO_ENTRY
from quire.ledger import news_link
from quire.ledger.quorum import Replication
from quire.ledger.tail import WAIT_SECONDS
from quire.wire.news import cost_of
from tests.ledger.following import Follower, count_calls, following, open_reader
from tests.support.memory_cluster import MemoryCluster, down
from tests.support.news_pipe import NewsPipe, PushingBookie
from tests.support.planted_ledger import PlantedLedger, payload
from tests.support.virtual import virtually

Body = Callable[[MemoryCluster], Awaitable[None]]
WHERE = "b0 b1 b2"


def scenario(body: Body, size: int = 3, *, offers: bool = True) -> None:
    async def main() -> None:
        async with MemoryCluster(size, kind=PushingBookie) as cluster:
            for bookie in cluster.bookies.values():
                cast("PushingBookie", bookie).offers = offers
            await body(cluster)

    virtually(main)


def pipes(cluster: MemoryCluster) -> list[NewsPipe]:
    """Return the connections that are open."""
    found = [
        pipe for each in cluster.bookies.values() for pipe in cast("PushingBookie", each).pipes
    ]
    return [pipe for pipe in found if pipe._over is None]


def pushed_bytes(cluster: MemoryCluster) -> list[int]:
    return [sum(cost_of(each) for each in pipe.news) for pipe in pipes(cluster)]


def test_a_follower_sees_everything_once_and_ends_with_the_ledger() -> None:
    async def body(cluster: MemoryCluster) -> None:
        for replication in (Replication(3, 3, 2), Replication(5, 3, 2), Replication(1, 1, 1)):
            writer = await cluster.catalog.create(replication)
            follower = Follower(await cluster.client().open_without_recovery(writer.ledger))
            for batch in range(10):
                await writer.append_many([b"%d" % (batch * 7 + i) for i in range(7)])
                await asyncio.sleep(0.005)
            await writer.close()
            await follower.task
            assert [int(entry.payload) for entry in follower.seen] == list(range(70))
        assert len(pipes(cluster)) == 5, "one connection for all subscriptions at a bookie"

    scenario(body, 5)


def test_entries_that_come_singly_need_no_question() -> None:
    async def body(cluster: MemoryCluster) -> None:
        writer = await cluster.catalog.create()
        follower = Follower(await cluster.client().open_without_recovery(writer.ledger))
        await asyncio.sleep(1)
        counts = count_calls(cluster)
        for number in range(5):
            await writer.append(b"%d" % number)
            await asyncio.sleep(0.1)
            assert len(follower.seen) == number + 1
        assert counts["read"] == 0
        await writer.close()
        await follower.task

    scenario(body)


def test_what_is_pushed_and_not_confirmed_is_not_delivered() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, WHERE))
        async with following(planted) as follower:
            await asyncio.sleep(1)
            await planted.add(WHERE, *range(5), lac=2)
            await asyncio.sleep(1)
            assert any(each.run for pipe in pipes(cluster) for each in pipe.news)
            assert follower.ids == [0, 1, 2]
            await asyncio.sleep(100)
            assert follower.ids == [0, 1, 2]
            await planted.put((await planted.metadata()).closed(3, 40))
            await follower.task
            assert follower.ids == [0, 1, 2, 3]

    scenario(body)


def test_a_hint_is_never_believed() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, WHERE))
        await planted.add(WHERE, *range(5), lac=2)
        for bookie in cluster.bookies.values():
            bookie.ledgers[7].hint = 4
        async with following(planted) as follower:
            await asyncio.sleep(100)
            assert follower.ids == [0, 1, 2]

    scenario(body)


def test_a_lost_connection_is_made_anew() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, WHERE))
        async with following(planted) as follower:
            for entry in range(1, 20):
                await planted.add(WHERE, entry - 1, lac=entry - 2)
                await planted.add(WHERE, entry, lac=entry - 1)
                await asyncio.sleep(0.2)
                assert follower.ids == list(range(entry))
                for pipe in pipes(cluster):
                    pipe.break_off("connection reset")

    scenario(body)


def test_a_bookie_that_falls_silent_is_noticed() -> None:
    """Its connection stays open, and brings nothing: not even that there is nothing."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, WHERE))
        async with following(planted) as follower:
            await asyncio.sleep(1)
            first = pipes(cluster)
            for pipe in first:
                pipe.serving.cancel()
            await asyncio.sleep(WAIT_SECONDS + 10)
            assert not set(first) & set(pipes(cluster))
            await planted.add(WHERE, 0, 1, lac=0)
            await asyncio.sleep(1)
            assert follower.ids == [0]

    scenario(body)


def test_bookies_without_subscriptions_are_asked() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, WHERE))
        counts = count_calls(cluster)
        async with following(planted) as follower:
            await asyncio.sleep(1)
            await planted.add(WHERE, 0, 1, lac=0)
            await asyncio.sleep(1)
            assert follower.ids == [0]
            assert counts["wait_tail"] == 4
            assert pipes(cluster) == []

    scenario(body, offers=False)


def test_a_damaged_copy_is_read_elsewhere() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, WHERE))
        await planted.add(WHERE, *range(5), lac=3)
        planted.corrupt("b0", 1)
        planted.corrupt("b1", 2)
        async with following(planted) as follower:
            await asyncio.sleep(2)
            assert [each.payload for each in follower.seen] == [payload(e) for e in range(4)]

    scenario(body)


def test_a_fence_and_a_bookie_in_trouble_make_no_busy_loop() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, WHERE))
        await planted.add(WHERE, 0, 1, lac=0)
        for bookie in ("b0", "b1"):
            await cluster.bookies[bookie].read_tail(7, fence_key=planted.sealer.access_key)
        cluster.bookies["b2"].before = down("wait_tail")
        async with following(planted) as follower:
            await asyncio.sleep(100)
            assert follower.ids == [0]
            news = [each for pipe in pipes(cluster) for each in pipe.news]
            assert len(news) <= 3 * 110

    scenario(body)


def test_a_slow_follower_is_sent_its_credit_and_no_more() -> None:
    async def body(cluster: MemoryCluster) -> None:
        writer = await cluster.catalog.create()
        reader = await cluster.client().open_without_recovery(writer.ledger)
        async with aclosing(reader.follow()) as entries:
            await writer.append(b"0")
            assert (await anext(entries)).entry == 0
            for number in range(1, 101):
                await writer.append(b"%d" % number + b"x" * 20_000)
            await asyncio.sleep(1)
            limit = news_link.CREDIT_BYTES + 21_000
            assert max(pushed_bytes(cluster)) <= limit
            assert [(await anext(entries)).entry for _ in range(100)] == list(range(1, 101))
        await writer.close()

    scenario(body)


def test_the_last_follower_ends_the_subscriptions() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, WHERE))
        async with following(planted):
            await asyncio.sleep(1)
        await asyncio.sleep(1)
        assert len(pipes(cluster)) == 2
        for pipe in pipes(cluster):
            assert [list(each.unsubscribe) for each in pipe.requests] == [[], [1]]
        await planted.add(WHERE, 0, 1, lac=0)
        await asyncio.sleep(1)
        assert pushed_bytes(cluster) == [0, 0]

    scenario(body)


def test_a_follower_that_begins_ahead_waits_for_its_entry() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, WHERE))
        await planted.add(WHERE, *range(6), lac=4)
        reader = await open_reader(planted)
        follower = Follower(reader, 7)
        await asyncio.sleep(1)
        assert reader._known.confirmed in (NO_ENTRY, 4)
        await planted.add(WHERE, 6, 7, 8, lac=7)
        await asyncio.sleep(1)
        assert follower.ids == [7]
        await follower.cancel()

    scenario(body)
