"""Followers of one ledger that share a tail: cheap together, and each for itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from quire.entry import Entry, EntryId
from quire.errors import (
    CorruptEntryError,
    EntryLostError,
    HandleClosedError,
    NoSuchEntryError,
    NoSuchLedgerError,
)
from quire.ledger import recent
from quire.ledger.following import EntrySource, SharedTails, follow
from tests.ledger.following import Follower, count_calls, following, open_reader, scenario
from tests.support.memory_cluster import MemoryCluster
from tests.support.planted_ledger import PlantedLedger

WHERE = "b0 b1 b2"


async def plant(cluster: MemoryCluster, confirmed: int = -1) -> PlantedLedger:
    """Make a ledger with so many confirmed entries, and one more."""
    planted = await PlantedLedger.create(cluster, (0, WHERE))
    await planted.add(WHERE, *range(confirmed + 2), lac=confirmed)
    return planted


def test_a_hundred_followers_ask_as_often_as_one() -> None:
    async def calls(cluster: MemoryCluster, count: int) -> dict[str, int]:
        writer = await cluster.catalog.create()
        followers = [
            Follower(await cluster.catalog.open_without_recovery(writer.ledger))
            for _ in range(count)
        ]
        await asyncio.sleep(1)
        counts = count_calls(cluster)
        for number in range(5):
            await writer.append(b"%d" % number)
            await asyncio.sleep(0.1)
        await writer.append_many([b"5", b"6", b"7"])
        await asyncio.sleep(0.1)
        asked = {method: counts[method] for method in ("wait_tail", "read")}
        await writer.close()
        for follower in followers:
            await follower.task
            assert [int(entry.payload) for entry in follower.seen] == list(range(8))
        return asked

    async def body(cluster: MemoryCluster) -> None:
        alone = await calls(cluster, 1)
        assert alone["read"] == 1
        assert await calls(cluster, 100) == alone

    scenario(3, body)


def test_a_long_stretch_is_read_once_for_all_that_begin_there() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await plant(cluster, 500)
        counts = count_calls(cluster)
        async with following(planted) as one, following(planted) as other:
            await asyncio.sleep(1)
            assert one.ids == other.ids == list(range(501))
        assert counts["read"] == 1

    scenario(3, body)


def test_an_idle_tail_keeps_only_what_a_follower_has_yet_to_take() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await plant(cluster, 9)
        reader = await open_reader(planted)
        tails = reader._tails
        async with aclosing(reader.follow_runs()) as slow, following(planted):
            assert len(await anext(slow)) == 10
            await planted.add(WHERE, 11, lac=10)
            await asyncio.sleep(1)
            (tail,) = tails._tails.values()
            assert (tail.recent.start, tail.recent.end) == (10, 11)
            assert [entry.entry for entry in await anext(slow)] == [10]
            waiting = asyncio.ensure_future(anext(slow))
            await planted.add(WHERE, 12, lac=11)
            assert [entry.entry for entry in await waiting] == [11]
            waiting = asyncio.ensure_future(anext(slow))
            await asyncio.sleep(1)
            assert (tail.recent.start, tail.recent.end) == (12, 12)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        assert not tails._tails

    scenario(3, body)


def test_a_follower_that_is_slow_reads_by_itself_and_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recent, "RECENT_BYTES_MAX", 1)

    async def body(cluster: MemoryCluster) -> None:
        planted = await plant(cluster, 0)
        reader = await open_reader(planted)
        async with aclosing(reader.follow()) as slow, following(planted) as quick:
            assert (await anext(slow)).entry == 0
            for entry in range(2, 20):
                await planted.add(WHERE, entry, lac=entry - 1)
                await asyncio.sleep(0.1)
            assert quick.ids == list(range(19))
            counts = count_calls(cluster)
            assert [(await anext(slow)).entry for _ in range(18)] == list(range(1, 19))
            assert (counts["read"], counts["wait_tail"]) == (1, 0)
            await planted.add(WHERE, 20, lac=19)
            assert (await anext(slow)).entry == 19
            await asyncio.sleep(0.1)
            assert quick.ids == list(range(20))

    scenario(3, body)


def test_a_follower_further_on_does_not_wait_for_one_that_catches_up() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await plant(cluster, 9)
        reader = await open_reader(planted)
        async with aclosing(reader.follow()) as slow:
            assert (await anext(slow)).entry == 0
            async with following(planted, 10) as ahead:
                await planted.add(WHERE, 11, lac=10)
                await asyncio.sleep(1)
                assert ahead.ids == [10]
            assert [(await anext(slow)).entry for _ in range(10)] == list(range(1, 11))

    scenario(3, body)


def test_one_that_leaves_disturbs_none_and_the_last_ends_the_tail() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await plant(cluster, 0)
        await asyncio.sleep(1)
        before = asyncio.all_tasks()
        async with following(planted) as stays:
            async with following(planted) as leaves, following(planted, 1) as closed:
                await asyncio.sleep(1)
                counts = count_calls(cluster)
                await closed.reader.close()
                with pytest.raises(HandleClosedError):
                    await closed.task
            assert leaves.ids == [0]
            await planted.add(WHERE, 2, lac=1)
            await asyncio.sleep(1)
            assert stays.ids == [0, 1]
            assert counts["wait_tail"] == 2, "the questions under way were not asked again"
        assert asyncio.all_tasks() == before

    scenario(3, body)


def test_the_follower_that_began_the_tail_may_leave_first() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await plant(cluster, 0)
        first = Follower(await open_reader(planted))
        await asyncio.sleep(1)
        async with following(planted) as second:
            await asyncio.sleep(1)
            await first.reader.close()
            await asyncio.gather(first.task, return_exceptions=True)
            await planted.add(WHERE, 2, 3, 4, lac=3)
            await asyncio.sleep(1)
            assert second.ids == [0, 1, 2, 3]

    scenario(3, body)


def test_the_end_is_the_end_for_each() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await plant(cluster, 0)
        places = [Follower(await open_reader(planted), first) for first in (0, 1, 2, 3)]
        await asyncio.sleep(1)
        await planted.put((await planted.metadata()).closed(1, 20))
        for follower, seen in zip(places, ([0, 1], [1], []), strict=False):
            await follower.task
            assert follower.ids == seen
            assert follower.reader.is_closed
        with pytest.raises(NoSuchEntryError):
            await places[3].task

    scenario(3, body)


def test_each_follower_raises_an_error_of_its_own() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await plant(cluster, 0)
        followers = [Follower(await open_reader(planted), first) for first in (0, 1, 9)]
        await asyncio.sleep(1)
        await cluster.catalog.delete(7)
        errors = [await asyncio.gather(each.task, return_exceptions=True) for each in followers]
        assert [type(error) for (error,) in errors] == [NoSuchLedgerError] * 3
        assert len({id(error) for (error,) in errors}) == 3

    scenario(3, body)


def test_an_entry_that_cannot_be_read_fails_those_who_want_it() -> None:
    """Others go on: one is behind it and does not know yet, one is further on."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await plant(cluster, 9)
        tails, closed, raised = SharedTails(), asyncio.Event(), list[EntryId]()

        async def begin() -> EntrySource:
            reader = await open_reader(planted)

            async def read_runs(first: EntryId, last: EntryId) -> AsyncGenerator[list[Entry], None]:
                async with aclosing(reader.read_runs(first, last)) as runs:
                    async for run in runs:
                        for entry in run:
                            if entry.entry == 5:
                                raised.append(5)
                                raise CorruptEntryError(7, 5, "planted")
                            yield [entry]

            return EntrySource(reader._known, read_runs)

        async def seen(first: EntryId, reading: EntrySource, of_tail: EntrySource) -> list[EntryId]:
            got = []
            runs = follow(tails, reading, lambda: of_tail, closed, first)
            try:
                async with aclosing(runs):
                    async for run in runs:
                        got += [entry.entry for entry in run]
            except CorruptEntryError:
                got.append(-1)
            return got

        starts = (0, 3, 12)
        readings = [await begin() for _ in range(6)]
        tasks = [
            asyncio.create_task(seen(first, readings[place], readings[place + 3]))
            for place, first in enumerate(starts)
        ]
        await asyncio.sleep(1)
        assert not tasks[2].done()
        await planted.add(WHERE, *range(11, 15), lac=13)
        await asyncio.sleep(1)
        await planted.put((await planted.metadata()).closed(14, 150))
        assert [await task for task in tasks] == [
            [0, 1, 2, 3, 4, -1],
            [3, 4, -1],
            [12, 13, 14],
        ]

    scenario(3, body)


def test_followers_of_a_lost_entry_hear_of_it() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await plant(cluster, 2)
        reader = await open_reader(planted)
        for bookie in WHERE.split():
            planted.corrupt(bookie, 1)
        entries = reader.follow()
        assert (await anext(entries)).entry == 0
        with pytest.raises(EntryLostError):
            await asyncio.wait_for(anext(entries), 600)

    scenario(3, body)
