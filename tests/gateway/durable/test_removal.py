"""A stream is deleted only as the gateway saw it that deletes it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from quire.errors import StoreUnavailableError
from quire.log.leader.log import Log
from quire.log.maintenance import deletion
from quire.metastore.layout import log_path
from quire.testing.cluster import MemoryCluster
from tests.gateway.durable.test_calls import TEXT, URL, cluster, post, whole
from tests.gateway.test_app import Served, serving

__all__ = ["cluster"]

IDLE = {"Stream-TTL": "100"}


class Step:
    """A call that waits before it is made, until the test goes on."""

    def __init__(self, call: Callable[..., Awaitable[Any]], is_meant: Callable[..., bool]) -> None:
        self.reached = asyncio.Event()
        self.goes_on = asyncio.Event()
        self._call = call
        self._is_meant = is_meant

    async def __call__(self, *args: Any, **more: Any) -> Any:
        if self._is_meant(*args):
            self.reached.set()
            await self.goes_on.wait()
        return await self._call(*args, **more)


def before_deletion(one: Served, monkeypatch: pytest.MonkeyPatch) -> Step:
    """The log was given up; its record was not read yet."""
    client = one.gateway.client
    step = Step(client.delete_log, lambda *_: True)
    monkeypatch.setattr(client, "delete_log", step)
    return step


def before_retirement(one: Served, monkeypatch: pytest.MonkeyPatch) -> Step:
    """The log's record was read as the deletion found it, and is about to be replaced."""
    client = one.gateway.client
    delete, step = client.delete_log, Step(client._store.put, lambda path, *_: path == RECORD)

    async def delete_held(*args: Any, **more: Any) -> None:
        monkeypatch.setattr(client._store, "put", step)
        await delete(*args, **more)

    monkeypatch.setattr(client, "delete_log", delete_held)
    return step


RECORD = log_path("chat")
STEPS = pytest.mark.parametrize("pause", [before_deletion, before_retirement])


@STEPS
async def test_a_stream_that_another_gateway_appended_to_stays(
    cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch, pause: Callable[..., Step]
) -> None:
    async with serving(cluster) as one, serving(cluster, "http://two") as two:
        await one.http.put(URL, headers=TEXT | IDLE, content="a")
        await asyncio.sleep(101)
        step = pause(one, monkeypatch)
        late = asyncio.create_task(one.http.get(URL))
        await step.reached.wait()
        assert (await post(two, "b")).status_code == 204
        step.goes_on.set()
        assert (await late).status_code == 503
        assert await whole(two) == "ab"


@STEPS
async def test_the_next_stream_at_the_url_stays(
    cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch, pause: Callable[..., Step]
) -> None:
    async with serving(cluster) as one, serving(cluster, "http://two") as two:
        await one.http.put(URL, headers=TEXT, content="a")
        step = pause(one, monkeypatch)
        late = asyncio.create_task(one.http.delete(URL))
        await step.reached.wait()
        assert (await two.http.delete(URL)).status_code == 204
        assert (await two.http.put(URL, headers=TEXT, content="new")).status_code == 201
        step.goes_on.set()
        assert (await late).status_code in (404, 503)
        assert await whole(two) == "new"


@pytest.mark.parametrize("by", ["DELETE", "PUT"])
@pytest.mark.parametrize("step", ["delete_ledgers", "_delete_records"])
async def test_a_deletion_that_was_interrupted_is_finished(
    cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch, by: str, step: str
) -> None:
    async def fail(*_: Any) -> None:
        raise StoreUnavailableError("the store", "it is away")

    async with serving(cluster) as one, serving(cluster, "http://two") as two:
        await one.http.put(URL, headers=TEXT, content="a")
        with monkeypatch.context() as patched:
            patched.setattr(deletion, step, fail)
            assert (await one.http.delete(URL)).status_code == 503
        assert (await two.http.get(URL)).status_code == 404
        if by == "DELETE":
            assert (await two.http.delete(URL)).status_code == 204
            assert await two.gateway.client.list_logs() == []
        assert (await two.http.put(URL, headers=TEXT, content="new")).status_code == 201
        assert await whole(two) == "new"


async def test_an_append_under_way_is_a_use(
    cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its time would be over when the append is answered: the answer is true, then."""
    submit, certain, submitted = Log.submit_many, asyncio.Event(), asyncio.Event()

    async def submit_late(log: Log, *args: Any, **more: Any) -> Any:
        future = await submit(log, *args, **more)
        submitted.set()

        async def answer() -> Any:
            await certain.wait()
            return await future

        return asyncio.ensure_future(answer())

    async with serving(cluster) as one:
        await one.http.put(URL, headers=TEXT | IDLE, content="a")
        await asyncio.sleep(99)
        monkeypatch.setattr(Log, "submit_many", submit_late)
        append = asyncio.create_task(post(one, "b"))
        await submitted.wait()
        monkeypatch.undo()
        await asyncio.sleep(2)
        again = asyncio.create_task(post(one, "c"))
        answers: list[httpx.Response] = []
        await asyncio.sleep(1)
        certain.set()
        answers += [await append, await again]
        assert [each.status_code for each in answers] == [204, 204]
        assert await whole(one) == "abc"
