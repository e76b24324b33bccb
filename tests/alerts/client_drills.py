"""Drills on clients and gateways in virtual time: production's client over a cluster in memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Final
from unittest.mock import patch

import httpx
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

import quire
from quire.client import Client
from quire.errors import AppendOutcomeUnknownError, QuireError
from quire.gateway.app import Gateway
from quire.gateway.limits import GatewayLimits
from quire.gateway.owners import Owners
from quire.ledger.options import LedgerOptions
from quire.testing import MemoryCluster
from tests.alerts.drill import drill
from tests.alerts.monitor import Monitor

LOG: Final = "orders"
QUICK: Final = LedgerOptions(append_timeout=5.0)


def figures_of(registry: CollectorRegistry) -> Iterable[Metric]:
    """Return a program's figures, without the ones of this test's process."""
    return [each for each in registry.collect() if not each.name.startswith("process_")]


@asynccontextmanager
async def client(
    monitor: Monitor, cluster: MemoryCluster, name: str = "app", options: LedgerOptions = QUICK
) -> AsyncIterator[Client]:
    """A client with a registry that is scraped."""
    registry = CollectorRegistry()

    async def look() -> Iterable[Metric]:
        return figures_of(registry)

    connecting = quire.connect(
        cluster.store_uri, options=options, metrics=registry, leave_timeout=1.0
    )
    async with connecting as made:
        monitor.add("app", name, look)
        yield made


@drill("QuireAppendsSlow")
async def slow_appends(monitor: Monitor) -> None:
    """Two of three bookies answer half a second late."""
    with MemoryCluster(3) as cluster:
        async with client(monitor, cluster) as it:
            writer = await it.create_ledger()

            async def append() -> None:
                await writer.append(b"x")

            await append()
            await monitor.calm()

            async def append_slowly() -> None:
                for number in (0, 1):
                    cluster.pause(number)
                waiting = await writer.submit(b"x")
                await asyncio.sleep(0.5)
                for number in (0, 1):
                    cluster.resume(number)
                await waiting

            await monitor.until_all_fired(append_slowly)
            await writer.close()


@drill("QuireUnknownOutcomes")
async def unknown_outcome(monitor: Monitor) -> None:
    """All bookies of a ledger fall silent while an append is under way."""
    with MemoryCluster(3) as cluster:
        async with client(monitor, cluster) as it:
            writer = await it.create_ledger()
            await writer.append(b"x")
            await monitor.calm()
            for number in range(3):
                cluster.pause(number)
            with suppress(AppendOutcomeUnknownError):
                await writer.append(b"y")
            await monitor.until_all_fired()
            writer.abandon()
            cluster.heal()


@drill("QuirePositionDown")
async def no_spare_bookie(monitor: Monitor) -> None:
    """One of three bookies ends, and no other may take its place in an ensemble."""
    with MemoryCluster(3) as cluster:
        async with client(monitor, cluster) as it:
            writer = await it.create_ledger()
            await writer.append(b"x")
            await monitor.calm()
            cluster.kill(0)

            async def append() -> None:
                await writer.append(b"y")

            await monitor.until_all_fired(append)
            writer.abandon()
            cluster.heal()


@drill("QuireStoreUnreachable")
async def store_away(monitor: Monitor) -> None:
    """A client is cut off from the metadata store."""
    with MemoryCluster(4) as cluster:
        async with client(monitor, cluster) as it:
            await (await it.create_ledger()).close()
            await monitor.calm()
            cluster.cut_store()

            async def create() -> None:
                with suppress(QuireError):
                    await it.create_ledger()

            await monitor.until_all_fired(create)
            cluster.heal()


@drill("QuireLeaderChanges")
async def two_leaders(monitor: Monitor) -> None:
    """Two programs take a log over in turn, without an election between them."""
    with MemoryCluster(4) as cluster:
        async with client(monitor, cluster, "one") as one, client(monitor, cluster, "two") as two:
            log = await one.open_log(LOG)
            await log.append(b"x")
            await monitor.calm()
            turn = 0

            async def take_over() -> None:
                nonlocal turn
                turn += 1
                for _ in range(4):
                    await asyncio.sleep(15.0)
                log = await (one, two)[turn % 2].open_log(LOG)
                await log.append(b"x")

            await monitor.until_all_fired(take_over)


@drill("QuireNoLeader")
async def no_leader(monitor: Monitor) -> None:
    """Both candidates of an election lose their sessions, and the store does not come back."""
    with MemoryCluster(4) as cluster:
        async with client(monitor, cluster, "one") as one, client(monitor, cluster, "two") as two:

            async def lead(it: Client) -> None:
                with suppress(QuireError):
                    async with it.lead_log(LOG) as log:
                        await log.append(b"x")
                        await asyncio.Event().wait()

            leading = [asyncio.ensure_future(lead(each)) for each in (one, two)]
            await monitor.calm()
            cluster.cut_store()
            cluster.expire_sessions()
            await monitor.until_all_fired()
            for each in leading:
                each.cancel()
            await asyncio.gather(*leading, return_exceptions=True)
            cluster.heal()


@drill("QuireReaderLags")
async def slow_reader(monitor: Monitor) -> None:
    """A program stays at one record while the log grows."""
    loop, start = asyncio.get_running_loop(), time.time()
    with MemoryCluster(4) as cluster, patch("time.time", lambda: start + loop.time()):
        async with client(monitor, cluster) as it:
            log = await it.open_log(LOG)
            await log.append(b"x")
            reader = await it.read_log(LOG, follow=True)
            await anext(reader)
            await monitor.calm()

            async def append() -> None:
                await log.append(b"y")

            await monitor.until_all_fired(append)
            await reader.close()


@drill("QuireGatewayErrors")
async def failing_gateway(monitor: Monitor) -> None:
    """The bookies behind a gateway are gone, and programs go on appending."""
    with MemoryCluster(3) as cluster:
        registry = CollectorRegistry()
        async with quire.connect(cluster.store_uri, options=QUICK, metrics=registry) as it:
            limits = GatewayLimits()
            owners = Owners(it, "http://gateway", limits)
            gateway = Gateway(it, owners, limits, registry=registry)

            async def look() -> Iterable[Metric]:
                return figures_of(registry)

            monitor.add("quire-gateway", "gateway", look)
            transport = httpx.ASGITransport(app=gateway.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as http:

                async def append() -> None:
                    records, call = {"records": ["a"]}, f"/v1/logs/{LOG}/records"
                    await asyncio.gather(*(http.post(call, json=records) for _ in range(10)))

                await append()
                await monitor.calm()
                for number in range(3):
                    cluster.kill(number)
                await monitor.until_all_fired(append)
                cluster.heal()
            await owners.close()


CLIENT_DRILLS: Final = (
    *(slow_appends, unknown_outcome, no_spare_bookie, store_away, two_leaders, no_leader),
    *(slow_reader, failing_gateway),
)
