"""Small closed ledgers are read by subscriptions, and by questions where these do not bring all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from quire.errors import BookieUnavailableError
from quire.ledger.options import LedgerOptions
from quire.ledger.quorum import Replication
from tests.ledger.following import count_calls
from tests.ledger.reading import closed, ids
from tests.support.memory_cluster import MemoryCluster, down, hung
from tests.support.news_pipe import NewsPipe, PushingBookie
from tests.support.planted_ledger import PlantedLedger
from tests.support.virtual import virtually

WHERE = "b0 b1 b2"
Body = Callable[[MemoryCluster], Awaitable[None]]


def scenario(body: Body, size: int = 3, small: int = 1000) -> None:
    async def main() -> None:
        options = LedgerOptions(small_read_bytes=small)
        async with MemoryCluster(size, options=options, kind=PushingBookie) as cluster:
            await body(cluster)
            await asyncio.sleep(1)
            asked = [request for pipe in pipes(cluster) for request in pipe.requests]
            ended = sum(len(request.unsubscribe) for request in asked)
            ended += sum(each.HasField("failure") for pipe in pipes(cluster) for each in pipe.news)
            assert ended == sum(len(request.subscribe) for request in asked), "none is left"

    virtually(main)


def pipes(cluster: MemoryCluster) -> list[NewsPipe]:
    return [pipe for each in cluster.bookies.values() for pipe in cast("PushingBookie", each).pipes]


def test_a_small_ledger_needs_no_question() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, WHERE))
        reader = await closed(planted, 20)
        counts = count_calls(cluster)
        assert await ids(reader) == list(range(20))
        assert await ids(reader, 3, 5) == [3, 4, 5]
        assert await ids(reader, 19) == [19]
        assert counts["read"] == 2, "by the bookies; the last entry comes with the tail"
        begun = [
            each for pipe in pipes(cluster) for asked in pipe.requests for each in asked.subscribe
        ]
        assert len(begun) == 3

    scenario(body)


@pytest.mark.parametrize(("small", "entries"), [(99, 10), (1, 1)])
def test_a_larger_ledger_is_asked_for(small: int, entries: int) -> None:
    async def body(cluster: MemoryCluster) -> None:
        reader = await closed(await PlantedLedger.create(cluster, (0, WHERE)), entries)
        assert await ids(reader) == list(range(entries))
        assert not pipes(cluster)

    scenario(body, small=small)


def test_a_part_of_a_ledger_counts_as_what_it_is() -> None:
    async def body(cluster: MemoryCluster) -> None:
        reader = await closed(await PlantedLedger.create(cluster, (0, WHERE)), 1000)
        assert await ids(reader, 500, 503) == [500, 501, 502, 503]
        assert len(pipes(cluster)) == 1

    scenario(body, small=40)


def test_striped_ledgers_and_several_fragments_are_asked_for() -> None:
    async def body(cluster: MemoryCluster) -> None:
        striped = await PlantedLedger.create(cluster, (0, WHERE), replication=Replication(3, 2, 2))
        assert await ids(await closed(striped, 10)) == list(range(10))
        changed = await PlantedLedger.create(cluster, (0, WHERE), (5, "b1 b2 b3"), ledger=8)
        reader = await closed(changed, 10)
        assert await ids(reader) == list(range(10))
        assert not pipes(cluster)
        assert await ids(reader, 6) == [6, 7, 8, 9]
        assert len(pipes(cluster)) == 1, "one fragment is one stretch"

    scenario(body, 4)


@pytest.mark.parametrize("victim", ["b0", "b1", "b2"])
def test_what_a_bookie_lacks_is_read_elsewhere(victim: str) -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, WHERE))
        reader = await closed(planted, 9)
        planted.corrupt(victim, 4)
        assert await ids(reader) == list(range(9))
        del cluster.bookies[victim].ledgers[7].frames[8]
        assert await ids(reader) == list(range(9))
        assert await ids(reader, 8) == [8]

    scenario(body)


@pytest.mark.parametrize("hook", [down(), hung()], ids=["down", "hung"])
@pytest.mark.parametrize("victim", ["b0", "b1", "b2"])
def test_a_bookie_out_of_reach_is_passed_over(hook: object, victim: str) -> None:
    async def body(cluster: MemoryCluster) -> None:
        reader = await closed(await PlantedLedger.create(cluster, (0, WHERE)), 9)
        cluster.bookies[victim].before = hook  # type: ignore[assignment]
        assert await ids(reader) == list(range(9))

    scenario(body)


@pytest.mark.parametrize("victim", ["b0", "b1", "b2"])
def test_a_bookie_that_was_never_seen_is_passed_over(victim: str) -> None:
    """A reader that tried again chose it again: the simulator's log 226."""

    async def body(cluster: MemoryCluster) -> None:
        reader = await closed(await PlantedLedger.create(cluster, (0, WHERE)), 9)
        del cluster.roster._last_seen[victim]  # as a roster that began when it was away
        with pytest.raises(BookieUnavailableError):
            cluster.roster.bookie(victim)
        assert await ids(reader) == list(range(9))

    scenario(body)


def test_a_bookie_without_subscriptions_is_asked() -> None:
    async def body(cluster: MemoryCluster) -> None:
        for bookie in cluster.bookies.values():
            cast("PushingBookie", bookie).offers = False
        reader = await closed(await PlantedLedger.create(cluster, (0, WHERE)), 9)
        assert await ids(reader) == list(range(9))

    scenario(body)


def test_entries_of_another_key_are_not_believed() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, WHERE))
        reader = await closed(planted, 3)
        counts = count_calls(cluster)
        frames = cluster.bookies["b0"].ledgers[7].frames
        frames[1] = bytes(frames[1][:-1]) + b"!"
        assert await ids(reader) == [0, 1, 2]
        assert counts["read"] > 1, "asked elsewhere"

    scenario(body)
