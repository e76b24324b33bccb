"""Questions to the store for callers without a token, in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from quire.errors import NoSuchLogError
from quire.gateway.readiness import LOOK_SECONDS, StoreLook
from quire.metastore.layout import LOGS
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


async def test_strangers_that_ask_whether_a_gateway_is_ready_do_not_list_all_logs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving(MemoryCluster()) as one:
        store = one.gateway.client._store
        listed: list[str] = []
        children = store.children

        async def counting(path: str) -> list[str]:
            listed.extend([path] if path.startswith(LOGS) else [])
            return await children(path)

        monkeypatch.setattr(store, "children", counting)
        assert (await one.http.get("/readyz")).status_code == 200
        once = list(listed)
        assert once, "the gateway asks the store"
        for _ in range(10):
            assert (await one.http.get("/readyz")).status_code == 200
        assert listed == once
        await asyncio.sleep(LOOK_SECONDS)
        assert (await one.http.get("/readyz")).status_code == 200
        assert listed == 2 * once
