"""What is particular to ZooKeeper: a server that dies, hangs and comes back under its clients."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from kazoo import exceptions as kazoo_errors

from quire.cluster.zookeeper.server import ZooKeeperServer
from quire.errors import (
    HandleClosedError,
    NoSuchNodeError,
    SessionExpiredError,
    StoreOutcomeUnknownError,
    StoreUnavailableError,
)
from quire.metastore import zookeeper_connection
from quire.metastore.changes import Create
from quire.metastore.zookeeper import ZooKeeperStore
from quire.metastore.zookeeper_uri import parse_uri
from tests.support.session_holder import holder
from tests.support.threads import thread_states

DEADLINE_SECONDS = 60.0
PATIENT_SECONDS = 20.0
SHORT_SECONDS = 1.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer(tmp_path, sync=False, tick_milliseconds=200) as running:
        yield running


def pause(server: ZooKeeperServer) -> None:
    """Stop the server; return when each of its threads stands still, which takes a moment."""
    assert server.pid is not None
    os.kill(server.pid, signal.SIGSTOP)
    while thread_states(server.pid) != {"T"}:
        time.sleep(0.001)


def resume(server: ZooKeeperServer) -> None:
    assert server.pid is not None
    os.kill(server.pid, signal.SIGCONT)


def with_store(server: ZooKeeperServer, body: Callable[[ZooKeeperStore], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            store = await ZooKeeperStore.open(f"{server.uri}/root")
            try:
                await body(store)
            finally:
                await store.close()

    asyncio.run(main())


def test_a_killed_server_that_comes_back_costs_only_time(server: ZooKeeperServer) -> None:
    async def body(store: ZooKeeperStore) -> None:
        session = await store.open_session(PATIENT_SECONDS)
        await session.create("/live/x", b"")
        version = await store.create("/a", b"before")
        waiting = asyncio.ensure_future(store.wait("/a", version))
        waiting_children = asyncio.ensure_future(store.wait_children("/live", ["x"]))
        assert (await store.get("/a")).value == b"before"
        server.kill()
        reading = asyncio.ensure_future(store.get("/a"))
        await asyncio.to_thread(server.start)
        assert (await reading).value == b"before"
        assert not waiting.done()
        await store.put("/a", b"after", version)
        await waiting
        assert not session.expired
        assert await store.children("/live") == ["x"]
        await session.create("/live/y", b"")
        await waiting_children

    with_store(server, body)


def test_a_change_that_cannot_be_sent_changed_nothing(
    server: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(store: ZooKeeperStore) -> None:
        await store.create("/a", b"")
        session = await store.open_session(PATIENT_SECONDS)
        server.kill()
        with pytest.raises((StoreUnavailableError, StoreOutcomeUnknownError)):
            await store.create("/noticing", b"")
        with monkeypatch.context() as patched:
            patched.setattr(zookeeper_connection, "READY_SECONDS", 0.1)
            for call in (
                store.create("/b", b""),
                session.create("/b", b""),
                store.put("/a", b"", 0),
                store.get("/a"),
                store.children("/"),
                store.wait("/a", None),
                store.open_session(SHORT_SECONDS),
            ):
                with pytest.raises(StoreUnavailableError, match=server.address):
                    await call
        await asyncio.to_thread(server.start)
        with pytest.raises(NoSuchNodeError):
            await store.get("/b")

    with_store(server, body)


def test_a_change_without_an_answer_is_of_unknown_outcome(
    server: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(store: ZooKeeperStore) -> None:
        session = await store.open_session(PATIENT_SECONDS)
        await session.create("/live/x", b"")
        pause(server)
        try:
            with monkeypatch.context() as patched:
                patched.setattr(zookeeper_connection, "ANSWER_SECONDS", 0.1)
                with pytest.raises(StoreOutcomeUnknownError, match="/b"):
                    await store.create("/b", b"")
                with pytest.raises(StoreOutcomeUnknownError, match="/live/c-"):
                    await session.create_sequential("/live/c-", b"mine")
        finally:
            resume(server)
        # kazoo sends in order: what was still on its way is done before anything that is asked now.
        assert (await store.get("/b")).value == b""
        await session.create("/live/y", b"")
        assert await store.children("/live") == ["c-0000000001", "x", "y"]

    with_store(server, body)


def test_a_server_that_hangs_for_too_long_costs_the_session(server: ZooKeeperServer) -> None:
    async def body(store: ZooKeeperStore) -> None:
        session = await store.open_session(SHORT_SECONDS)
        await session.create("/live/x", b"")
        pause(server)
        try:
            await session.wait_expired()
        finally:
            resume(server)
        assert session.expired
        with pytest.raises(SessionExpiredError):
            await session.create("/live/y", b"")
        await store.wait_children("/live", ["x"])
        assert await store.children("/live") == []
        again = await store.open_session(SHORT_SECONDS)
        await again.create("/live/x", b"")

    with_store(server, body)


def test_a_killed_owner_loses_its_records_when_its_time_is_up(server: ZooKeeperServer) -> None:
    async def body(store: ZooKeeperStore) -> None:
        with holder(store.uri, SHORT_SECONDS, "/live/x") as process:
            assert await store.children("/live") == ["x"]
            process.signal(signal.SIGKILL)
            await store.wait_children("/live", ["x"])
            assert await store.children("/live") == []

    with_store(server, body)


def test_a_stopped_owner_learns_that_it_lost_its_lease(server: ZooKeeperServer) -> None:
    async def body(store: ZooKeeperStore) -> None:
        with holder(store.uri, SHORT_SECONDS, "/live/x") as process:
            process.signal(signal.SIGSTOP)
            await store.wait_children("/live", ["x"])
            process.signal(signal.SIGCONT)
            line = await asyncio.to_thread(process.read_line)
            assert line == "expired=True SessionExpiredError"
            assert await store.children("/live") == []

    with_store(server, body)


def test_closing_stops_every_thread(server: ZooKeeperServer) -> None:
    before = set(threading.enumerate())

    async def body(store: ZooKeeperStore) -> None:
        await store.open_session(PATIENT_SECONDS)
        assert len(threading.enumerate()) > len(before)
        await store.close()
        await store.close()
        with pytest.raises(HandleClosedError):
            await store.open_session(PATIENT_SECONDS)

    with_store(server, body)
    assert set(threading.enumerate()) <= before


def test_nobody_there_is_said_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zookeeper_connection, "READY_SECONDS", 0.2)
    with pytest.raises(StoreUnavailableError, match=r"zk://127\.0\.0\.1:1/root"):
        asyncio.run(ZooKeeperStore.open("zk://127.0.0.1:1/root"))


class Slow:
    """A session's connection that stands when it is told to."""

    is_stopped = False

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.stands = asyncio.Event()
        self.closed = False

    async def start(self) -> None:
        self.begun.set()
        await self.stands.wait()

    async def close(self) -> None:
        self.closed = True


def test_a_session_that_opens_while_its_store_closes_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        uri = "zk://127.0.0.1:1/root"
        store, slow = ZooKeeperStore(uri, parse_uri(uri), None), Slow()
        monkeypatch.setattr(store, "_connect", lambda *_, **__: slow)
        opening = asyncio.ensure_future(store.open_session(6.0))
        await slow.begun.wait()
        await store.close()
        slow.stands.set()
        with pytest.raises(HandleClosedError):
            await opening
        assert slow.closed

    asyncio.run(main())


def test_what_a_quota_forbids_changed_nothing_and_says_so(tmp_path: Path) -> None:
    quota = "/zookeeper/quota/root"

    async def body(server: ZooKeeperServer) -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            everything = await ZooKeeperStore.open(server.uri)
            limits = b"count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=2"
            await everything.create("/root/a", b"before")
            await everything.create(f"{quota}/zookeeper_limits", limits)
            await everything.create(f"{quota}/zookeeper_stats", b"count=2,bytes=0")
            store = await ZooKeeperStore.open(f"{server.uri}/root")
            session = await store.open_session(PATIENT_SECONDS)
            for change in (
                store.create("/b", b""),
                store.commit([Create("/b", b""), Create("/c", b"")]),
                session.create("/b", b""),
                session.create_sequential("/b-", b""),
            ):
                with pytest.raises(StoreUnavailableError, match="QuotaExceeded"):
                    await change
            assert await store.children("/") == ["a"]
            assert not session.expired
            await asyncio.gather(store.close(), everything.close())

    with ZooKeeperServer(tmp_path, sync=False, settings={"enforceQuota": "true"}) as server:
        asyncio.run(body(server))


@pytest.mark.parametrize("code", [-121, -122, -123, -124, -125, -127])
def test_every_code_of_a_server_is_known(code: int) -> None:
    """kazoo's thread would die of another one, and the lease with it."""
    assert isinstance(kazoo_errors.EXCEPTIONS[code](), kazoo_errors.ZookeeperError)
