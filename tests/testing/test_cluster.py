"""The cluster in memory: production's client over it, and every fault that it offers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import quire
import quire.sync
from quire.errors import (
    ConfigurationError,
    DeposedError,
    NotEnoughBookiesError,
    NotEnoughDomainsError,
    StoreUnavailableError,
)
from quire.labels import Labels
from quire.ledger.domains import Placement
from quire.ledger.options import LedgerOptions
from quire.ledger.quorum import Replication
from quire.testing import MemoryCluster
from tests.support.virtual import virtually

QUICK = LedgerOptions(append_timeout=5.0)

Scene = Callable[[MemoryCluster], Coroutine[Any, Any, None]]


def play(scene: Scene, bookies: int = 4) -> None:
    with MemoryCluster(bookies) as cluster:
        virtually(lambda: scene(cluster))


async def payloads(cluster: MemoryCluster, name: str = "orders") -> list[bytes]:
    async with quire.connect(cluster.store_uri) as client:
        return [record.payload async for record in await client.read_log(name)]


def test_clients_of_one_cluster_share_logs() -> None:
    async def scene(cluster: MemoryCluster) -> None:
        async with quire.connect(cluster.store_uri) as client:
            log = await client.open_log("orders")
            await log.append(b"a")
            await log.close()
        assert await payloads(cluster) == [b"a"]

    play(scene)


def test_bookies_stand_in_racks() -> None:
    racks = [Labels(rack="r0"), Labels(rack="r1")]
    with MemoryCluster(3, labels=racks) as cluster, quire.sync.connect(cluster.store_uri) as client:
        placement = Placement.parse("durable=rack:2")
        with client.create_ledger(Replication(2, 2, 1), placement=placement) as writer:
            assert writer.append(b"a") == 0
            (fragment,) = writer.info.fragments
            places = {each.bookie: each.labels.rack for each in client.bookies()}
            assert sorted(places[each] for each in fragment.bookies) == ["r0", "r1"]
        cluster.kill(1)
        with pytest.raises(NotEnoughDomainsError, match=r"in r0 \(2\)"):
            client.create_ledger(Replication(2, 2, 1), placement=placement)
        cluster.add_bookie()
        client.create_ledger(Replication(2, 2, 1), placement=placement).close()


def test_appends_go_on_without_a_bookie_that_was_killed() -> None:
    async def scene(cluster: MemoryCluster) -> None:
        async with quire.connect(cluster.store_uri) as client:
            log = await client.open_log("orders")
            await log.append(b"a")
            cluster.kill(0)
            await log.append(b"b")
            cluster.kill(1)
            cluster.kill(2)
            submitted = await log.submit(b"c")
            await asyncio.sleep(2)
            assert not submitted.done()
            cluster.restart(1)
            cluster.restart(2)
            await submitted
        assert await payloads(cluster) == [b"a", b"b", b"c"]

    play(scene)


def test_a_paused_bookie_answers_when_it_goes_on() -> None:
    async def scene(cluster: MemoryCluster) -> None:
        async with quire.connect(cluster.store_uri) as client:
            log = await client.open_log("orders")
            for index in range(3):
                cluster.pause(index)
            cluster.cut(3)
            submitted = await log.submit(b"a")
            await asyncio.sleep(0.5)
            assert not submitted.done()
            for index in range(3):
                cluster.resume(index)
            await submitted
            cluster.heal()
        assert await payloads(cluster) == [b"a"]

    play(scene)


def test_a_deposed_leader_is_told() -> None:
    async def scene(cluster: MemoryCluster) -> None:
        async with quire.connect(cluster.store_uri) as old, quire.connect(cluster.store_uri) as new:
            deposed = await old.open_log("orders")
            await new.open_log("orders")
            with pytest.raises(DeposedError):
                await deposed.append(b"late")

    play(scene)


def test_a_lost_session_ends_a_leadership() -> None:
    async def scene(cluster: MemoryCluster) -> None:
        async with quire.connect(cluster.store_uri) as client:
            election = client.election("board")
            async with election.lead() as leadership:
                assert not leadership.is_lost
                cluster.expire_sessions()
                await leadership.wait_lost()

    play(scene)


def test_a_client_without_its_store_goes_on_appending() -> None:
    async def scene(cluster: MemoryCluster) -> None:
        async with quire.connect(cluster.store_uri) as client:
            log = await client.open_log("orders")
            cluster.cut_store()
            await log.append(b"a")
            with pytest.raises(StoreUnavailableError, match="cut off"):
                await client.list_ledgers()
            cluster.heal()
            assert await client.list_ledgers()

    play(scene)


def test_too_few_bookies_are_an_error_until_one_is_added() -> None:
    async def scene(cluster: MemoryCluster) -> None:
        async with quire.connect(cluster.store_uri) as client:
            with pytest.raises(NotEnoughBookiesError):
                await client.create_ledger()
            assert cluster.add_bookie() == 2
            writer = await client.create_ledger()
            assert await writer.append(b"a") == 0

    play(scene, bookies=2)


def test_faults_are_safe_from_another_thread() -> None:
    with MemoryCluster() as cluster, quire.sync.connect(cluster.store_uri) as client:
        log = client.open_log("orders")
        cluster.kill(0)
        log.append(b"a")
        cluster.heal()
        log.close()
        assert [record.payload for record in client.read_log("orders")] == [b"a"]


def test_a_cluster_belongs_to_one_loop() -> None:
    async def connect(cluster: MemoryCluster) -> None:
        async with quire.connect(cluster.store_uri):
            pass

    with MemoryCluster() as cluster:
        virtually(lambda: connect(cluster))
        with pytest.raises(ConfigurationError, match="belongs to the event loop"):
            virtually(lambda: connect(cluster))


def test_a_name_means_one_cluster_while_it_is_open() -> None:
    async def connect(uri: str) -> None:
        async with quire.connect(uri):
            pass

    with MemoryCluster(name="mine") as cluster:
        assert cluster.store_uri == "memory://mine"
        with pytest.raises(ConfigurationError, match="in use"):
            MemoryCluster(name="mine")
    with pytest.raises(ConfigurationError, match="not a cluster of this process"):
        virtually(lambda: connect("memory://mine"))


@pytest.mark.parametrize("index", [-1, 4])
def test_a_bookie_that_does_not_exist_is_named(index: int) -> None:
    with MemoryCluster() as cluster, pytest.raises(ConfigurationError, match=f"bookie {index} "):
        cluster.kill(index)


def test_a_cluster_has_a_bookie() -> None:
    with pytest.raises(ConfigurationError, match="at least one bookie"):
        MemoryCluster(0)


def test_a_cluster_says_what_its_bookies_do() -> None:
    with MemoryCluster(name="shown") as cluster:
        cluster.kill(1)
        cluster.pause(2)
        expected = "MemoryCluster('memory://shown', bookies: up, down, silent, up)"
        assert repr(cluster) == expected
