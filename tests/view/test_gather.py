"""What a cluster looks like: every part is shown, and a part out of reach hides no other."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import quire
from quire.client import Client
from quire.errors import NoSuchLogError
from quire.healing.state import State
from quire.testing import MemoryCluster
from quire.view.gather import ANSWER_SECONDS, gather, gather_log
from quire.view.shapes import shape_cluster
from tests.support.virtual import virtually

NOW = 1_700_000_000_000

Scene = Callable[[MemoryCluster, Client], Coroutine[Any, Any, None]]


def play(scene: Scene, bookies: int = 3) -> None:
    async def connected(cluster: MemoryCluster) -> None:
        async with quire.connect(cluster.store_uri) as client:
            await scene(cluster, client)

    with MemoryCluster(bookies) as cluster:
        virtually(lambda: connected(cluster))


async def fill(client: Client, name: str, records: int) -> None:
    async with await client.open_log(name) as log:
        for number in range(records):
            await log.append(b"%d" % number)


def test_an_empty_cluster_has_its_bookies() -> None:
    async def scene(cluster: MemoryCluster, client: Client) -> None:
        view = await gather(client, NOW)
        assert [each.bookie for each in view.bookies] == [
            f"{cluster.name}-bookie-{number}" for number in range(3)
        ]
        assert {(each.state, each.answers, each.trouble) for each in view.bookies} == {
            (State.UP, True, "")
        }
        assert (view.logs, view.log_names, view.at_ms) == ([], [], NOW)

    play(scene)


def test_a_log_has_its_end_its_leader_and_its_lags() -> None:
    async def scene(cluster: MemoryCluster, client: Client) -> None:
        await fill(client, "orders", 5)
        cursors = client.log_cursors("orders")
        await cursors.open("slow", 1)
        await cursors.open("quick", 5)
        (log,) = (await gather(client, NOW)).logs
        assert (log.name, log.epoch, log.records, log.segments) == ("orders", 1, 5, 1)
        assert log.leader is not None
        assert (log.leader.host, log.leader.pid) == (socket.gethostname(), os.getpid())
        assert [(each.name, each.lag) for each in log.cursors] == [("quick", 0), ("slow", 4)]
        assert log.slowest == log.cursors[1]

    play(scene)


def test_the_end_of_an_open_log_is_what_its_bookies_tell() -> None:
    async def scene(cluster: MemoryCluster, client: Client) -> None:
        async with client.lead_log("orders") as log:
            await log.append(b"a")
            await log.append(b"b")
            view = await gather_log(client, "orders")
            assert view.records == (await client.log_end("orders")).offset
            assert view.leader is not None
            assert view.leader.candidate is not None
            assert view.youngest[-1].is_open

    play(scene)


def test_a_silent_bookie_and_its_logs_say_why() -> None:
    async def scene(cluster: MemoryCluster, client: Client) -> None:
        async with client.lead_log("orders") as log:
            await log.append(b"a")
            for number in range(3):
                cluster.pause(number)
            view = await gather(client, NOW)
            assert {each.answers for each in view.bookies} == {False}
            assert all(each.trouble for each in view.bookies)
            (shown,) = view.logs
            assert shown.trouble
            assert (shown.epoch, shown.end_offset) == (1, None)
            cluster.heal()

    play(scene)


def test_a_log_that_is_gone_is_left_out() -> None:
    async def scene(cluster: MemoryCluster, client: Client) -> None:
        await fill(client, "orders", 1)
        view = await gather(client, NOW, logs=["gone", "orders"])
        assert [each.name for each in view.logs] == ["orders"]
        with pytest.raises(NoSuchLogError):
            await gather_log(client, "gone")

    play(scene)


def test_many_logs_are_cut_and_counted() -> None:
    async def scene(cluster: MemoryCluster, client: Client) -> None:
        for number in range(5):
            await client.create_log(f"log-{number}")
        view = await gather(client, NOW, logs_max=2)
        assert [each.name for each in view.logs] == ["log-0", "log-1"]
        assert shape_cluster(view)["log_count"] == 5

    play(scene)


def test_a_view_is_json() -> None:
    async def scene(cluster: MemoryCluster, client: Client) -> None:
        await fill(client, "orders", 2)
        await client.log_cursors("orders").open("billing")
        shown = json.loads(json.dumps(shape_cluster(await gather(client, NOW))))
        (log,) = shown["logs"]
        assert (log["records"], log["cursors"][0]["lag"]) == (2, 2)
        assert shown["bookies"][0]["state"] == "up"
        assert shown["health"] in ("ok", "warning")

    play(scene)


def test_the_clients_of_a_cluster_are_shown() -> None:
    async def scene(cluster: MemoryCluster, client: Client) -> None:
        await asyncio.sleep(ANSWER_SECONDS)
        (shown,) = (await gather(client, NOW)).clients
        assert "process" in shown.where
        assert shown.version

    play(scene)
