"""Questions to the store for callers without a token, in virtual time."""

from __future__ import annotations

import asyncio

from quire.errors import NoSuchLogError
from quire.gateway.readiness import LOOK_SECONDS, StoreLook
from quire.testing.cluster import MemoryCluster
from tests.gateway.test_app import serving


async def test_one_question_answers_all_callers_of_a_second() -> None:
    asked = 0

    async def ask() -> None:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0.1)
        if asked > 1:
            raise NoSuchLogError("orders")

    store = StoreLook(ask)
    assert await asyncio.gather(*(store.trouble() for _ in range(100))) == 100 * [None]
    assert asked == 1
    await asyncio.sleep(LOOK_SECONDS)
    assert "orders" in str(await store.trouble())
    assert "orders" in str(await store.trouble())
    assert asked == 2


async def test_strangers_that_ask_whether_a_gateway_is_ready_do_not_list_all_logs() -> None:
    async with serving(MemoryCluster()) as one:
        listed, list_logs = 0, one.gateway.client.list_logs

        async def counting() -> list[str]:
            nonlocal listed
            listed += 1
            return await list_logs()

        one.gateway.client.list_logs = counting  # type: ignore[method-assign]
        one.gateway.store = StoreLook(one.gateway.client.list_logs)
        for _ in range(10):
            assert (await one.http.get("/readyz")).status_code == 200
        assert listed == 1
