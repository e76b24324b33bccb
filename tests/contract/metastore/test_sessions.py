"""Sessions: what they created goes with them, by closing, by expiry, and with the store."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from quire.errors import (
    HandleClosedError,
    InvalidRequestError,
    NodeExistsError,
    SessionExpiredError,
)
from quire.metastore.store import MetadataStore
from tests.contract.metastore.two_clients import SESSION_SECONDS, Run, wakes
from tests.support.store_backends import Backend


def test_what_a_session_created_goes_when_it_is_closed(run: Run) -> None:
    async def scenario(one: MetadataStore, other: MetadataStore, _: Backend) -> None:
        session = await one.open_session(SESSION_SECONDS)
        version = await session.create("/live/x", b"here")
        await session.create("/live/y", b"")
        assert (await other.get("/live/x")).version == version
        with pytest.raises(NodeExistsError):
            await session.create("/live/x", b"")
        names = await other.children("/live")
        assert names == ["x", "y"]
        await wakes(other.wait_children("/live", names), other, session.close)
        await other.wait_children("/live", ["x"])
        assert await other.children("/live") == []
        assert session.expired
        await session.wait_expired()
        await session.close()

    run(scenario)


def test_an_ephemeral_record_has_nothing_below_it(run: Run) -> None:
    async def scenario(one: MetadataStore, other: MetadataStore, _: Backend) -> None:
        session = await one.open_session(SESSION_SECONDS)
        await session.create("/live", b"")
        with pytest.raises(InvalidRequestError, match="/live"):
            await other.create("/live/x", b"")

    run(scenario)


def test_an_ephemeral_record_can_be_changed_and_deleted_by_anybody(run: Run) -> None:
    async def scenario(one: MetadataStore, other: MetadataStore, _: Backend) -> None:
        session = await one.open_session(SESSION_SECONDS)
        version = await session.create("/live", b"")
        assert await other.put("/live", b"changed", version) > version
        await other.delete("/live")
        await session.close()

    run(scenario)


def test_a_session_that_expires_wakes_its_owner_and_loses_its_records(run: Run) -> None:
    async def scenario(one: MetadataStore, other: MetadataStore, backend: Backend) -> None:
        session = await one.open_session(1.0)
        await session.create("/live/x", b"")
        await wakes(session.wait_expired(), one, lambda: backend.expire(session))
        assert session.expired
        await other.wait_children("/live", ["x"])
        assert await other.children("/live") == []
        with pytest.raises(SessionExpiredError):
            await session.create("/live/x", b"")
        with pytest.raises(SessionExpiredError):
            await session.create_sequential("/live/x-", b"")
        assert await other.children("/live") == []

    run(scenario)


def test_a_session_outlives_its_timeout_while_its_owner_does(run: Run) -> None:
    async def scenario(one: MetadataStore, other: MetadataStore, _: Backend) -> None:
        session = await one.open_session(2.0)
        await session.create("/live", b"")
        await asyncio.sleep(3.5)
        assert not session.expired
        await other.get("/live")

    run(scenario)


def test_sequential_records_queue_in_the_order_of_the_calls(run: Run) -> None:
    async def scenario(one: MetadataStore, other: MetadataStore, _: Backend) -> None:
        sessions = [await store.open_session(SESSION_SECONDS) for store in (one, other)]
        paths = [await sessions[n % 2].create_sequential("/q/c-", b"%d" % n) for n in range(12)]
        assert paths == sorted(set(paths))
        assert all(len(path) == len("/q/c-") + 10 for path in paths)
        assert all(path.removeprefix("/q/c-").isdigit() for path in paths)
        assert [(await one.get(path)).value for path in paths] == [b"%d" % n for n in range(12)]
        await other.delete(paths[-1])
        later = await sessions[0].create_sequential("/q/other-", b"")
        assert later.removeprefix("/q/other-") > paths[-1].removeprefix("/q/c-")

    run(scenario)


def test_sequential_records_made_at_once_have_each_its_own_number(run: Run) -> None:
    async def scenario(one: MetadataStore, other: MetadataStore, _: Backend) -> None:
        sessions = [await store.open_session(SESSION_SECONDS) for store in (one, other)]
        calls = [sessions[n % 2].create_sequential("/q/c-", b"") for n in range(10)]
        paths = await asyncio.gather(*calls)
        assert len(set(paths)) == 10
        assert await one.children("/q") == sorted(path.removeprefix("/q/") for path in paths)

    run(scenario)


def test_closing_a_store_ends_its_sessions_and_its_waits(run: Run) -> None:
    async def scenario(one: MetadataStore, other: MetadataStore, backend: Backend) -> None:
        client = await backend.client()
        session = await client.open_session(SESSION_SECONDS)
        await session.create("/live/x", b"")
        waiting = asyncio.ensure_future(client.wait("/a", None))
        await client.get("/live/x")
        await client.close()
        with pytest.raises(HandleClosedError):
            await waiting
        assert session.expired
        await other.wait_children("/live", ["x"])
        for call in (client.get("/a"), client.create("/a", b""), client.children("/a")):
            with pytest.raises(HandleClosedError):
                await call
        await client.close()

    run(scenario)


def test_any_thread_may_ask_whether_a_session_is_over(run: Run) -> None:
    async def scenario(one: MetadataStore, other: MetadataStore, backend: Backend) -> None:
        session = await one.open_session(SESSION_SECONDS)
        with ThreadPoolExecutor(1) as thread:
            assert not thread.submit(lambda: session.expired).result()
            await session.close()
            assert thread.submit(lambda: session.expired).result()

    run(scenario)


def test_a_session_that_opens_while_its_store_closes_is_none(run: Run) -> None:
    async def scenario(one: MetadataStore, other: MetadataStore, backend: Backend) -> None:
        client = await backend.client()
        opening = asyncio.ensure_future(client.open_session(SESSION_SECONDS))
        await asyncio.sleep(0)
        await client.close()
        (opened,) = await asyncio.gather(opening, return_exceptions=True)
        if isinstance(opened, BaseException):
            assert isinstance(opened, HandleClosedError)
        else:
            assert opened.expired

    run(scenario)
