"""A web application of two replicas, tested in one process: no port, no server, no bookie process.

This is how a test of an application over quire looks: docs/testing-applications.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import httpx

from examples.web_app import replica
from quire.testing import MemoryCluster
from tests.support.virtual import virtually


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Ask again and again, as a browser does. The time is virtual."""
    async with asyncio.timeout(60):
        while not await holds():  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def client_of(stack: AsyncExitStack, store: str, address: str) -> httpx.AsyncClient:
    app = await stack.enter_async_context(replica(store, address))
    transport = httpx.ASGITransport(app)
    made = httpx.AsyncClient(transport=transport, base_url=f"http://{address}")
    return await stack.enter_async_context(made)


async def scene(cluster: MemoryCluster) -> None:
    async with AsyncExitStack() as followers:
        async with AsyncExitStack() as leaders:
            one = await client_of(leaders, cluster.store_uri, "one:80")
            await until(lambda: adds(one, "from one"))
            two = await client_of(followers, cluster.store_uri, "two:80")

            sent = await two.post("/messages", content="to a follower")
            assert sent.status_code == 307
            assert sent.headers["location"] == "http://one:80/messages"
            cluster.kill(0)
            assert (await one.post("/messages", content="to the leader")).status_code == 201
            await until(lambda: shows(two, ["from one", "to the leader"]))
        await until(lambda: adds(two, "from two"))  # the leader left
        await until(lambda: shows(two, ["from one", "to the leader", "from two"]))


async def adds(client: httpx.AsyncClient, text: str) -> bool:
    return (await client.post("/messages", content=text)).status_code == 201


async def shows(client: httpx.AsyncClient, messages: list[str]) -> bool:
    return bool((await client.get("/messages")).json() == messages)


def test_followers_show_what_the_leader_takes_and_lead_after_it() -> None:
    with MemoryCluster() as cluster:
        virtually(lambda: scene(cluster))
