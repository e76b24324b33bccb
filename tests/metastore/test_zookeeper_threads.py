"""kazoo's threads: one that dies is noticed, ends leases, and is replaced."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from quire.election.election import Election
from quire.election.leadership import Leadership
from quire.errors import (
    LeadershipLostError,
    NodeExistsError,
    SessionExpiredError,
    StoreOutcomeUnknownError,
    StoreUnavailableError,
)
from quire.metastore import zookeeper_client, zookeeper_connection
from quire.metastore.zookeeper import ZooKeeperStore
from quire.metastore.zookeeper_connection import ZooKeeperConnection
from tests.election.test_election import make_election
from tests.support.store_backends import ZooKeeperBackend, shared_zookeeper

DEADLINE_SECONDS = 60.0
PATIENT_SECONDS = 20.0

Killer = Callable[[ZooKeeperConnection], None]


def kill_connection_thread(connection: ZooKeeperConnection) -> None:
    """What comes next from the server is more than the thread can bear."""

    def burst(*_: object) -> None:
        raise RuntimeError("burst by order of the test")

    connection._client._connection._read_socket = burst
    connection._client.sync_async("/")


def kill_worker(connection: ZooKeeperConnection) -> None:
    """kazoo's workers survive what is an Exception; this is not."""

    def burst() -> None:
        raise SystemExit("burst by order of the test")

    connection._client.handler.completion_queue.put(burst)


KILLERS = pytest.mark.parametrize("kill", [kill_connection_thread, kill_worker])


def play(body: Callable[[ZooKeeperStore, ZooKeeperStore], Awaitable[None]], path: Any) -> None:
    async def main() -> None:
        backend = ZooKeeperBackend(path)
        async with asyncio.timeout(DEADLINE_SECONDS):
            store, other = await backend.client(), await backend.client()
            try:
                await body(store, other)
            finally:
                await asyncio.gather(store.close(), other.close())

    asyncio.run(main())


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zookeeper_connection, "RENEW_SECONDS", 0.05)


@KILLERS
@pytest.mark.usefixtures("soon")
def test_a_store_goes_on_with_a_new_client(kill: Killer, tmp_path: Any) -> None:
    async def body(store: ZooKeeperStore, other: ZooKeeperStore) -> None:
        version = await store.create("/a", b"before")
        waiting = asyncio.ensure_future(store.wait("/a", version))
        await store.children("/")
        first = store._connection._client
        kill(store._connection)
        while store._connection._client is first:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        # Reads are repeated, watches are set again, changes are made.
        assert (await store.get("/a")).value == b"before"
        assert not waiting.done()
        await other.put("/a", b"after", version)
        await waiting
        await store.create("/b", b"")

    play(body, tmp_path)


@KILLERS
def test_a_lease_is_over_and_says_of_what_it_died(kill: Killer, tmp_path: Any) -> None:
    async def body(store: ZooKeeperStore, other: ZooKeeperStore) -> None:
        session = await store.open_session(PATIENT_SECONDS)
        await session.create("/live/x", b"")
        kill(session.connection)
        await session.wait_expired()
        with pytest.raises(SessionExpiredError, match=r"thread of its client died: .*burst"):
            await session.create("/live/y", b"")
        await store.create("/a", b"")  # the store itself has another client

    play(body, tmp_path)


@KILLERS
def test_a_leadership_ends_with_its_thread(kill: Killer, tmp_path: Any) -> None:
    async def body(store: ZooKeeperStore, other: ZooKeeperStore) -> None:
        election: Election = make_election(store, "anna")
        async with election.lead() as leadership:
            kill(store._sessions[-1].connection)
            await leadership.wait_lost()
            assert leadership.is_lost

    play(body, tmp_path)


async def create_until_refused(store: ZooKeeperStore) -> None:
    """Until a loss is noticed a request may be on its way: its outcome is unknown, not refused."""
    while True:
        with suppress(StoreOutcomeUnknownError, NodeExistsError):
            await store.create("/b", b"")


@pytest.mark.usefixtures("soon")
def test_a_client_whose_threads_die_again_and_again_is_unavailable_and_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    async def body(store: ZooKeeperStore, other: ZooKeeperStore) -> None:
        await store.create("/a", b"")

        def burst(*_: object) -> None:
            raise RuntimeError("burst by order of the test")

        with monkeypatch.context() as patched:
            patched.setattr(zookeeper_client, "_connect", burst)
            patched.setattr(zookeeper_connection, "READY_SECONDS", 1.0)
            kill_worker(store._connection)
            with pytest.raises(StoreUnavailableError, match="died: RuntimeError burst"):
                await create_until_refused(store)
        assert (await store.get("/a")).value == b""

    play(body, tmp_path)


@pytest.mark.usefixtures("soon")
def test_a_store_that_was_closed_is_not_brought_back(tmp_path: Any) -> None:
    async def main() -> None:
        store = await ZooKeeperBackend(tmp_path).client()
        kill_worker(store._connection)
        while store._connection._renewal is None:  # noqa: ASYNC110
            await asyncio.sleep(0)  # each turn: a renewal may be short
        before = store._connection._client
        await store.close()
        await asyncio.sleep(0.1)
        assert store._connection._client is before

    asyncio.run(main())


def is_lost(leadership: Leadership) -> bool:
    return leadership.is_lost


def test_a_lease_of_which_nothing_was_heard_is_over_at_the_first_look(tmp_path: Any) -> None:
    """As after SIGSTOP and SIGCONT: the owner may be asked before any thread has noticed."""

    async def body(store: ZooKeeperStore, other: ZooKeeperStore) -> None:
        election: Election = make_election(store, "anna")
        async with election.lead() as leadership:
            connection = store._sessions[-1].connection
            for _ in range(8):
                assert not is_lost(leadership)  # pings are heard of, without any request
                await asyncio.sleep(connection.granted / 5)
            read = connection._client._connection._read_socket
            connection._client._connection._read_socket = lambda _: None  # nothing more is heard
            connection._client.handler.heard_at -= connection.granted
            assert is_lost(leadership)
            connection._client._connection._read_socket = read
            await leadership.wait_lost()  # and that is final
            with pytest.raises(LeadershipLostError):
                leadership.check()
        assert (await store.children("/")) != []  # the store's own connection is no lease

    play(body, tmp_path)


def test_a_lease_lasts_as_long_as_the_server_grants(tmp_path: Any) -> None:
    """Ours grants 120 ticks at most and two at least; kazoo does not tell."""
    ticks = 0.2

    async def body(store: ZooKeeperStore, other: ZooKeeperStore) -> None:
        long, short = await asyncio.gather(store.open_session(600.0), store.open_session(0.01))
        for session, granted in ((long, 120 * ticks), (short, 2 * ticks)):
            while session.connection.granted != pytest.approx(granted):  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    assert shared_zookeeper()._tick_milliseconds == ticks * 1000
    play(body, tmp_path)
