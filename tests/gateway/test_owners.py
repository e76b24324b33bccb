"""Requests that wait until a log is led keep their place before later ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from quire.gateway.limits import GatewayLimits
from quire.gateway.owners import Owners


class OneLog:
    """A client whose one log is led when the test says so."""

    def __init__(self) -> None:
        self.may_lead = asyncio.Event()

    def election(self, _: str) -> OneLog:
        return self

    async def leader(self) -> None:
        await asyncio.sleep(0)

    async def watch(self) -> AsyncGenerator[None, None]:
        await asyncio.get_running_loop().create_future()
        yield None

    @asynccontextmanager
    async def lead_log(self, *_: Any, **__: Any) -> AsyncIterator[object]:
        await self.may_lead.wait()
        yield object()


async def test_a_request_that_comes_when_a_log_is_led_overtakes_none_that_waited() -> None:
    client: Any = OneLog()
    owners = Owners(client, "http://one", GatewayLimits())
    order: list[str] = []

    async def write(name: str) -> None:
        async with owners.writer("orders"):
            order.append(name)

    async with asyncio.TaskGroup() as tasks:
        for name in ("first", "second"):
            tasks.create_task(write(name))
        await asyncio.sleep(1)
        client.may_lead.set()
        while not owners.written():  # noqa: ASYNC110 - the very turn of the loop counts
            await asyncio.sleep(0)
        await write("late")
    assert order == ["first", "second", "late"]
    await owners.close()
