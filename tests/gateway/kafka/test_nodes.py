"""Which brokers clients are told of, and which one writes a log, also when a gateway ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

import quire
from quire.gateway.answers import BusyError
from quire.gateway.kafka.broker import Broker, KafkaSession
from quire.gateway.kafka.coordinating import Coordinators
from quire.gateway.kafka.groups import JoinRequest
from quire.gateway.kafka.nodes import Nodes, first_guess, node_at
from quire.gateway.kafka.topics import describe
from quire.gateway.limits import Admission, GatewayLimits
from quire.gateway.owners import Owners
from quire.gateway.place import GatewayPlace
from quire.gateway.quotas import Quotas
from quire.testing.cluster import MemoryCluster

ONE, TWO = GatewayPlace("http://one", "one:9092"), GatewayPlace("http://two", "two:9092")
LOGS = [f"log-{number}" for number in range(20)]


@asynccontextmanager
async def joined(cluster: MemoryCluster, place: GatewayPlace) -> AsyncIterator[Broker]:
    """The parts of a gateway that clients are told of."""
    async with quire.connect(cluster.store_uri) as client:
        limits = GatewayLimits()
        owners = Owners(client, place.url, limits, None, place.kafka)
        quotas = Quotas(limits, asyncio.get_running_loop().time)
        broker = Broker(client, owners, Nodes(client, place), Admission(limits), quotas, limits)
        await broker.nodes.join()
        try:
            yield broker
        finally:
            await broker.nodes.leave()
            await owners.close()


async def metadata(broker: Broker) -> Any:
    """The hosts that are named, and the host that should write each log; None: none now."""
    topics = [SimpleNamespace(name=name) for name in LOGS]
    answer: Any = await describe(broker, KafkaSession(), SimpleNamespace(topics=topics))
    hosts = {each["node_id"]: each["host"] for each in answer["brokers"]}
    assert answer["controller_id"] in hosts or not hosts
    leaders = {}
    for topic in answer["topics"]:
        assert topic["error_code"] is ErrorCode.none
        (partition,) = topic["partitions"]
        is_led = partition["error_code"] is ErrorCode.none
        leaders[topic["name"]] = hosts[partition["leader_id"]] if is_led else None
    return sorted(hosts.values()), leaders


async def test_every_gateway_names_all_and_the_same_one_for_a_log_that_none_writes() -> None:
    cluster = MemoryCluster()
    async with joined(cluster, ONE) as one:
        assert (await metadata(one))[0] == ["one"]
        async with joined(cluster, TWO) as two:
            hosts, leaders = await metadata(one)
            assert hosts == ["one", "two"]
            assert set(leaders.values()) == {"one", "two"}
            assert await metadata(two) == (hosts, leaders)
        assert await metadata(one) == (["one"], dict.fromkeys(LOGS, "one"))


async def test_no_client_is_sent_to_a_gateway_that_ends() -> None:
    """A client whose last answer named the ended one alone would never find the next."""
    cluster = MemoryCluster()
    async with joined(cluster, ONE) as one, joined(cluster, TWO) as two:
        async with one.owners.writer(LOGS[0]) as log:
            await log.append(b"a")
        assert (await metadata(two))[1][LOGS[0]] == "one"
        await one.nodes.leave()
        hosts, leaders = await metadata(one)
        assert (hosts, leaders[LOGS[0]]) == (["two"], None), "it still leads the log, and ends"
        await one.owners.close()
        everything = ["two"], dict.fromkeys(LOGS, "two")
        assert await metadata(one) == everything
        assert await metadata(two) == everything


async def test_the_last_gateway_that_ends_names_none() -> None:
    async with joined(MemoryCluster(), ONE) as one:
        await one.nodes.leave()
        assert await metadata(one) == ([], dict.fromkeys(LOGS))


async def test_a_gateway_that_lost_its_session_is_named_again() -> None:
    cluster = MemoryCluster()
    async with joined(cluster, ONE) as one, joined(cluster, TWO) as two:
        (session,) = one.nodes._presence._election._terms.values()
        await session.close()
        assert (await metadata(two))[0] == ["two"]
        await asyncio.sleep(60)
        assert (await metadata(two))[0] == ["one", "two"]


async def test_a_gateway_that_ends_coordinates_no_group() -> None:
    cluster = MemoryCluster()
    async with joined(cluster, ONE) as one, joined(cluster, TWO) as two:
        limits = GatewayLimits()
        first = Coordinators(one.client, ONE, limits)
        second = Coordinators(two.client, TWO, limits)
        assert await first.find("g", one.nodes.mine, 1.0) == one.nodes.mine
        assert await second.find("g", two.nodes.mine, 1.0) == one.nodes.mine
        await first.close()
        assert await first.find("g", one.nodes.mine, 1.0) is None
        assert await second.find("g", two.nodes.mine, 1.0) == two.nodes.mine
        await second.close()


async def test_a_gateway_coordinates_so_many_groups_and_gives_up_those_without_members() -> None:
    limits = GatewayLimits(groups=1, idle_seconds=60)
    async with joined(MemoryCluster(), ONE) as one:
        groups = Coordinators(one.client, ONE, limits)
        mine = one.nodes.mine
        assert await groups.find("a", mine, 1.0) == mine
        with pytest.raises(BusyError, match="it coordinates 1 groups"):
            await groups.find("b", mine, 1.0)
        await asyncio.sleep(61)
        assert await groups.find("b", mine, 1.0) == mine
        assert groups.get("a") is None
        led = groups.get("b")
        assert led is not None
        assert led.group is not None
        given = JoinRequest("consumer", (("range", b"topics"),), 1000.0, 1000.0)
        led.group.join("m", given, asyncio.get_running_loop().time(), lambda _: None)
        led.changed.set()
        await asyncio.sleep(61)
        assert groups.get("b") is led, "it has a member"
        await groups.close()


async def test_what_members_of_all_groups_say_is_bounded() -> None:
    limits = GatewayLimits(bytes=800)
    async with joined(MemoryCluster(), ONE) as one:
        groups = Coordinators(one.client, ONE, limits)
        assert groups.has_space(200)
        assert not groups.has_space(201)
        assert await groups.find("a", one.nodes.mine, 1.0) == one.nodes.mine
        led = groups.get("a")
        assert led is not None
        assert led.group is not None
        given = JoinRequest("consumer", (("range", b"x" * 90),), 10.0, 10.0)
        led.group.join("m", given, asyncio.get_running_loop().time(), lambda _: None)
        assert groups.has_space(40)
        assert not groups.has_space(41)
        await groups.close()


@pytest.mark.parametrize("topic", ["orders", "a", "b-c"])
def test_a_log_keeps_its_gateway_when_another_one_goes(topic: str) -> None:
    nodes = [node_at(f"host{number}:9092") for number in range(5)]
    chosen = first_guess(topic, nodes)
    for other in nodes:
        if other != chosen:
            assert first_guess(topic, [each for each in nodes if each != other]) == chosen
    assert first_guess(topic, []) is None
