"""Followers of lost bookies, other ensembles and recoveries, and without the store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from quire.entry import LedgerId
from quire.errors import StoreUnavailableError
from quire.ledger.metadata import Fragment, LedgerState
from quire.ledger.quorum import Replication
from quire.metastore.memory import MemoryStore
from quire.metastore.store import Versioned
from tests.ledger.following import Follower, count_calls, following, scenario
from tests.support.memory_cluster import MemoryCluster, down, hung, slowly
from tests.support.planted_ledger import PlantedLedger


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
        assert follower.ids == list(range((reader._metadata.last_entry or 0) + 1))
        writer.abandon()
        await writer.close()

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
