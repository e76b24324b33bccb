"""What a network does to a client of a real ZooKeeper, provoked by a proxy between the two.

The simulated store promises its callers the same ambiguities (tests/sim/store.py): an outcome that
is not known, a session that expired without its owner knowing, a watch that was missed.
"""

from __future__ import annotations

import asyncio
import random
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from quire.cluster.zookeeper.server import ZooKeeperServer
from quire.election.election import Election
from quire.errors import (
    NoSuchNodeError,
    SessionExpiredError,
    StoreOutcomeUnknownError,
    StoreUnavailableError,
    VersionConflictError,
)
from quire.metastore import zookeeper_client, zookeeper_connection
from quire.metastore.changes import Change, Create, Delete, Put
from quire.metastore.zookeeper import ZooKeeperStore
from quire.metastore.zookeeper_uri import ZooKeeperOptions
from tests.support.tcp_proxy import ZooKeeperProxy, proxy

DEADLINE_SECONDS = 60.0
SESSION_SECONDS = 1.0
PATIENT_SECONDS = 20.0
QUEUE = "/quire/elections/dice/candidates"


@dataclass
class Scene:
    """One client behind the proxy, and one that sees how things are."""

    near: ZooKeeperStore
    far: ZooKeeperStore
    proxy: ZooKeeperProxy
    server: ZooKeeperServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    directory: Path = tmp_path_factory.mktemp("zookeeper")
    with ZooKeeperServer(directory, sync=False, tick_milliseconds=200) as running:
        yield running


@pytest.fixture
def play(
    server: ZooKeeperServer, request: pytest.FixtureRequest
) -> Callable[[Callable[[Scene], Awaitable[None]]], None]:
    async def main(body: Callable[[Scene], Awaitable[None]]) -> None:
        root = f"/{request.node.name.replace('[', '-').replace(']', '')}"
        async with asyncio.timeout(DEADLINE_SECONDS), proxy(ZooKeeperProxy, server.address) as line:
            far = await ZooKeeperStore.open(f"{server.uri}{root}")
            near = await ZooKeeperStore.open(f"zk://{line.address}{root}")
            try:
                await body(Scene(near, far, line, server))
            finally:
                line.heal()
                await asyncio.gather(near.close(), far.close())

    return lambda body: asyncio.run(main(body))


Play = Callable[[Callable[[Scene], Awaitable[None]]], None]


def test_an_answer_that_is_lost_with_its_connection(play: Play) -> None:
    async def body(scene: Scene) -> None:
        version = await scene.near.create("/a", b"before")
        scene.proxy.drop_answers(but=2)  # those to the read before the change
        change = asyncio.ensure_future(scene.near.put("/a", b"after", version))
        await scene.far.wait("/a", version)  # it was carried out
        scene.proxy.cut()
        scene.proxy.heal()
        with pytest.raises(StoreOutcomeUnknownError, match="/a"):
            await change
        found = await scene.near.get("/a")
        assert found.value == b"after"
        with pytest.raises(VersionConflictError):
            await scene.near.put("/a", b"again", version)

    play(body)


def test_a_request_that_is_lost_with_its_connection(play: Play) -> None:
    async def body(scene: Scene) -> None:
        await scene.near.children("/")
        scene.proxy.up.block()
        change = asyncio.ensure_future(scene.near.create("/a", b""))
        await asyncio.sleep(0.05)  # give kazoo's thread time to send; either way nothing arrives
        scene.proxy.cut()
        with pytest.raises(StoreOutcomeUnknownError, match="/a"):
            await change
        scene.proxy.heal()
        with pytest.raises(NoSuchNodeError):
            await scene.near.get("/a")

    play(body)


def test_a_transaction_whose_answer_is_lost_is_made_whole_or_not_at_all(play: Play) -> None:
    async def body(scene: Scene) -> None:
        version = await scene.near.create("/a", b"before")
        changes: list[Change] = [Put("/a", b"after", version), Create("/b", b"")]
        scene.proxy.drop_answers(but=2)  # those to the read before the change
        change = asyncio.ensure_future(scene.near.commit(changes))
        await scene.far.wait("/a", version)  # it was carried out
        scene.proxy.cut()
        scene.proxy.heal()
        with pytest.raises(StoreOutcomeUnknownError, match="/a and 1 more"):
            await change
        assert (await scene.near.get("/a")).value == b"after"
        assert await scene.near.children("/") == ["a", "b"]
        with pytest.raises(VersionConflictError, match="/a"):
            await scene.near.commit(changes)
        # One that never arrives.
        now = (await scene.near.get("/a")).version
        again: list[Change] = [Create("/c", b""), Delete("/b"), Put("/a", b"lost", now)]
        scene.proxy.drop_answers(but=2)
        scene.proxy.up.block()
        change = asyncio.ensure_future(scene.near.commit(again[:2]))
        await asyncio.sleep(0.05)  # give kazoo's thread time to send; either way nothing arrives
        scene.proxy.cut()
        with pytest.raises(StoreOutcomeUnknownError, match="/c and 1 more"):
            await change
        scene.proxy.heal()
        assert await scene.near.children("/") == ["a", "b"]
        await scene.near.commit(again)
        assert await scene.far.children("/") == ["a", "c"]

    play(body)


def test_nothing_of_a_creation_is_done_after_its_outcome_was_called_unknown(play: Play) -> None:
    """Whoever reads again and finds nothing may rely on it: nothing comes later (T3)."""

    async def body(scene: Scene) -> None:
        await scene.near.create("/here", b"")
        goes_on = threading.Event()
        # kazoo's thread for answers is late: it learns that a parent is missing after the cut.
        scene.near._connection._client.handler.completion_queue.put(goes_on.wait)
        creation = asyncio.ensure_future(scene.near.create("/a/b/c", b""))
        await asyncio.sleep(0.1)  # give the answer time to arrive; either way nothing is created
        scene.proxy.refuses = True
        scene.proxy.cut()
        with pytest.raises(StoreOutcomeUnknownError, match="/a/b/c"):
            await creation
        goes_on.set()
        scene.proxy.heal()
        for _ in range(20):
            assert await scene.near.children("/") == ["here"]

    play(body)


def test_an_answer_that_never_comes(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection seems fine, pings pass, and an answer is missing: time tells."""
    monkeypatch.setattr(zookeeper_connection, "ANSWER_SECONDS", 0.3)

    async def body(scene: Scene) -> None:
        session = await scene.near.open_session(PATIENT_SECONDS)
        await session.create("/live/x", b"")
        scene.proxy.drop_answers()
        with pytest.raises(StoreOutcomeUnknownError, match="/live/c-"):
            await session.create_sequential("/live/c-", b"mine")
        assert not session.expired
        scene.proxy.cut()
        scene.proxy.heal()
        # Nobody retried it in secret.
        assert await scene.near.children("/live") == ["c-0000000001", "x"]

    play(body)


def test_a_read_is_repeated_until_it_is_answered(play: Play) -> None:
    async def body(scene: Scene) -> None:
        await scene.near.create("/a", b"value")
        scene.proxy.drop_answers()
        reading = asyncio.ensure_future(scene.near.get("/a"))
        await scene.proxy.until_dropped(1)
        scene.proxy.heal()
        scene.proxy.cut()
        assert (await reading).value == b"value"

    play(body)


@pytest.mark.parametrize("cut", [True, False])
def test_a_missed_watch_is_made_up_for_after_the_reconnect(play: Play, cut: bool) -> None:
    """The event is lost; whoever waits is woken by the reconnect and reads again (T4)."""

    async def body(scene: Scene) -> None:
        version = await scene.near.create("/a", b"")
        await scene.near.create("/d/x", b"")
        waits = [
            asyncio.ensure_future(scene.near.wait("/a", version)),
            asyncio.ensure_future(scene.near.wait_children("/d", ["x"])),
        ]
        for _ in range(3):
            await scene.near.children("/")
        if cut:
            scene.proxy.refuses = True
            scene.proxy.cut()
        else:
            scene.proxy.drop_events()
        await scene.far.put("/a", b"changed", version)
        await scene.far.create("/d/y", b"")
        if not cut:
            await scene.proxy.until_dropped(2)
        assert not any(wait.done() for wait in waits)
        scene.proxy.heal()
        scene.proxy.cut()
        await asyncio.gather(*waits)

    play(body)


@pytest.mark.parametrize("blocked", ["up", "down", "both"])
def test_a_one_way_loss_costs_the_session_and_its_owner_knows(play: Play, blocked: str) -> None:
    async def body(scene: Scene) -> None:
        session = await scene.near.open_session(SESSION_SECONDS)
        await session.create("/live/x", b"")
        for name in ("up", "down"):
            if blocked in (name, "both"):
                getattr(scene.proxy, name).block()
        await session.wait_expired()
        with pytest.raises(SessionExpiredError):
            await session.create("/live/y", b"")
        scene.proxy.heal()
        scene.proxy.cut()
        await scene.far.wait_children("/live", ["x"])
        assert await scene.far.children("/live") == []
        # The client itself goes on.
        again = await scene.near.open_session(SESSION_SECONDS)
        await again.create("/live/x", b"")

    play(body)


def test_a_slow_network_is_only_slow(play: Play) -> None:
    async def body(scene: Scene) -> None:
        scene.proxy.up.delay_seconds = scene.proxy.down.delay_seconds = 0.05
        session = await scene.near.open_session(SESSION_SECONDS * 2)
        await session.create("/live/x", b"")
        version = await scene.near.create("/a", b"")
        for _ in range(5):
            version = await scene.near.put("/a", b"", version)
        assert not session.expired
        assert scene.proxy.connections == 2

    play(body)


def test_a_server_that_is_gone_changes_nothing_and_says_so(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(scene: Scene) -> None:
        await scene.near.create("/a", b"")
        scene.proxy.refuses = True
        scene.proxy.cut()
        with monkeypatch.context() as patched:
            patched.setattr(zookeeper_connection, "READY_SECONDS", 0.3)
            while True:
                # Until the loss is noticed a request may be on its way: unknown, not refused.
                try:
                    await scene.near.create("/b", b"")
                except StoreOutcomeUnknownError:
                    continue
                except StoreUnavailableError:
                    break
        scene.proxy.heal()
        assert await scene.near.children("/") == ["a"]

    play(body)


def elect(store: ZooKeeperStore, candidate: str) -> Election:
    rng = random.Random(candidate)
    return Election(store, "dice", candidate, rng=rng, session_timeout=SESSION_SECONDS)


def test_a_leader_that_is_cut_off_learns_it_and_the_next_has_a_higher_epoch(play: Play) -> None:
    async def body(scene: Scene) -> None:
        async with elect(scene.near, "near").lead() as first:
            scene.proxy.up.block()
            scene.proxy.down.block()
            async with elect(scene.far, "far").lead() as second:
                assert second.epoch > first.epoch
                await first.wait_lost()
                assert first.is_lost
                assert not second.is_lost
                scene.proxy.heal()
                scene.proxy.cut()

    play(body)


def test_a_candidate_whose_place_is_in_doubt_stands_once(play: Play) -> None:
    """The answer to queueing up is lost: no ghost of the first attempt may block the queue."""

    async def body(scene: Scene) -> None:
        scene.proxy.drop_answers()
        leading = elect(scene.near, "near").lead()
        standing = asyncio.ensure_future(leading.__aenter__())
        await scene.proxy.until_dropped(1)
        scene.proxy.heal()
        scene.proxy.cut()
        leadership = await standing
        async with asyncio.timeout(PATIENT_SECONDS):
            while len(names := await scene.far.children(QUEUE)) != 1:
                await scene.far.wait_children(QUEUE, names)
        assert not leadership.is_lost
        await leading.__aexit__(None, None, None)
        assert await scene.far.children(QUEUE) == []

    play(body)


def test_a_host_that_is_silently_gone_costs_little_time() -> None:
    """Its SYNs are not answered: a listener whose queue is full does the same."""

    with socket.socket() as listener, socket.socket() as filler:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        filler.connect(listener.getsockname())
        handler = zookeeper_client._Handler(ZooKeeperOptions(), "a,b,c")
        host, port = listener.getsockname()
        started = time.monotonic()
        with pytest.raises(TimeoutError):
            handler.create_connection(address=(host, port), hostname=host, timeout=9.0)
        assert time.monotonic() - started < 3.0
