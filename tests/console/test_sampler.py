"""Looks at a cluster in memory: bounded work, and what happens when parts are away."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import quire
from quire.client import Client
from quire.console.sampler import LOGS_IN_TURN, QUICK_LOGS, Sampler
from quire.console.views.troubles import answers
from quire.testing.cluster import MemoryCluster

ANNOUNCED = 1.0


class Ticking:
    """A wall clock that goes with the loop, and begins where the clock of the client is."""

    def __init__(self) -> None:
        self._begin = time.time() - asyncio.get_running_loop().time()

    def __call__(self) -> float:
        return self._begin + asyncio.get_running_loop().time()


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster(5)


@asynccontextmanager
async def sampling(cluster: MemoryCluster) -> AsyncIterator[tuple[Client, Sampler]]:
    async with quire.connect(cluster.store_uri) as client:
        sampler = Sampler(client, Ticking())
        try:
            yield client, sampler
        finally:
            await sampler.close()


async def test_growth_and_lag_come_from_two_looks(cluster: MemoryCluster) -> None:
    async with sampling(cluster) as (client, sampler):
        async with client.lead_log("quick") as log, client.lead_log("slow") as other:
            await log.append(b"x")
            await other.append(b"x")
            await client.log_cursors("quick").open("billing", 0)
            await asyncio.sleep(ANNOUNCED)
            await sampler.look()
            for _ in range(200):
                await log.append(b"x")
            await asyncio.sleep(9)
            seen = await sampler.look()
            assert seen.trouble == ""
            assert seen.logs["quick"].per_second == pytest.approx(20.0, rel=0.2)
            assert seen.logs["slow"].per_second == 0.0
            (cursor,) = seen.logs["quick"].view.cursors
            assert cursor.lag == 201
            assert answers(seen)[2].headline == "quick"
            assert seen.logs["quick"].view.leader is not None
            await asyncio.sleep(70)
            assert answers(await sampler.look())[3].headline == "billing"
        assert [point.value for point in sampler.day_of("quick")][-1] == 201


async def test_the_logs_of_a_look_have_a_bound_and_all_come_in_turn(
    cluster: MemoryCluster,
) -> None:
    async with sampling(cluster) as (client, sampler):
        for number in range(120):
            await client.create_log(f"log-{number:03}")
        sizes = []
        for _ in range(3):
            sampler_seen = await sampler.look()
            sizes.append(len(sampler_seen.logs))
        assert sizes[0] == LOGS_IN_TURN
        assert sizes[1] <= 2 * LOGS_IN_TURN + QUICK_LOGS
        assert sizes[2] == 120, "three looks see 120 logs"
        await client.delete_log("log-007")
        assert "log-007" not in (await sampler.look()).logs
        assert sampler.day_of("log-007") == ()


async def test_a_silent_bookie_costs_a_look_three_seconds(cluster: MemoryCluster) -> None:
    async with sampling(cluster) as (_, sampler):
        await sampler.look()
        cluster.pause(2)
        loop = asyncio.get_running_loop()
        begun = loop.time()
        seen = await sampler.look()
        assert loop.time() - begun < 4
        assert seen.facts is not None
        silent = [each.bookie for each in seen.facts.bookies if each.silence]
        assert silent == [f"{cluster.name}-bookie-2"]
        assert answers(seen)[0].severity == "warning"
        cluster.heal()
        assert answers(await sampler.look())[0].severity == "ok"


async def test_without_its_store_a_console_keeps_the_last_look_and_says_why(
    cluster: MemoryCluster,
) -> None:
    async with sampling(cluster) as (client, sampler):
        await client.create_log("orders")
        before = await sampler.look()
        cluster.cut_store()
        seen = await sampler.look()
        assert seen.trouble
        assert (seen.facts, seen.log_names) == (before.facts, before.log_names)
        cluster.heal()
        assert (await sampler.look()).trouble == ""


async def test_looks_go_on_until_the_end(cluster: MemoryCluster) -> None:
    async with sampling(cluster) as (client, sampler):
        sampler.start()
        await asyncio.sleep(0.1)
        assert sampler.snapshot.facts is not None
        await client.create_log("orders")
        await asyncio.sleep(6)
        assert "orders" in sampler.snapshot.logs


async def test_a_defect_of_a_look_is_told_and_does_not_end_the_looks(
    cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with sampling(cluster) as (_, sampler):

        async def broken() -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(sampler, "_look", broken)
        assert "a defect of the console" in (await sampler.look()).trouble
        monkeypatch.undo()
        assert (await sampler.look()).trouble == ""
