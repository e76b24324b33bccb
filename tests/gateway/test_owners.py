"""Requests that wait until a log is led keep their place before later ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from quire.gateway.limits import GatewayLimits
from quire.gateway.owners import Owners


class OneLog:
    """A client whose one log is led when the test says so."""

    def __init__(self) -> None:
        self.may_lead = asyncio.Event()
        self.turns: Iterator[int] = iter(())
        """Turns of the loop that each look for the leader takes; then one each."""

    def election(self, _: str) -> OneLog:
        return self

    async def leader(self) -> None:
        for _ in range(next(self.turns, 1)):
            await asyncio.sleep(0)

    async def watch(self) -> AsyncGenerator[None, None]:
        await asyncio.get_running_loop().create_future()
        yield None

    @asynccontextmanager
    async def lead_log(self, *_: Any, **__: Any) -> AsyncIterator[object]:
        await self.may_lead.wait()
        yield object()


@pytest.mark.parametrize(
    "turns",
    [(9, 1), (1, 9, 1), (1, 1, 400), (400, 1, 1)],
    ids=["first looks long", "second looks long", "third looks until it is led", "first likewise"],
)
async def test_a_request_that_looks_long_for_the_leader_is_overtaken_by_none(
    turns: Sequence[int],
) -> None:
    """librdkafka's test 0041: batches of one producer came in another order."""
    client: Any = OneLog()
    client.turns = iter(turns)
    client.may_lead.set()
    owners = Owners(client, "http://one", GatewayLimits())
    order: list[int] = []

    async def write(number: int) -> None:
        async with owners.writer("orders"):
            order.append(number)

    async with asyncio.TaskGroup() as tasks:
        for number in range(30):
            tasks.create_task(write(number))
            for _ in range(number % 5):
                await asyncio.sleep(0)
    assert order == list(range(30))
    await owners.close()


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


async def test_a_request_that_is_cancelled_lets_none_after_it_pass_those_before_it() -> None:
    client: Any = OneLog()
    client.turns = iter((50, 1, 1))
    client.may_lead.set()
    owners = Owners(client, "http://one", GatewayLimits())
    order: list[str] = []

    async def write(name: str) -> None:
        async with owners.writer("orders"):
            order.append(name)

    first, gone, last = (asyncio.create_task(write(name)) for name in ("first", "gone", "last"))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.gather(first, last)
    await write("late")
    assert order == ["first", "last", "late"]
    await owners.close()
