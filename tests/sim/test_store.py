"""The simulated connection to the metadata store keeps the port's law and loses what it may."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from quire.errors import (
    NodeExistsError,
    NoSuchNodeError,
    SessionExpiredError,
    StoreOutcomeUnknownError,
    StoreUnavailableError,
    VersionConflictError,
)
from quire.metastore.changes import Change, Create, Put
from quire.testing.sim.loop import SimLoop, new_loop
from quire.testing.sim.process import Incarnation
from tests.sim.network import Network
from tests.sim.store import STORE, SimStore, StoreWeather, WatchedTree


class Scene:
    """A tree and one client of it."""

    def __init__(self, loop: SimLoop, seed: int, weather: StoreWeather) -> None:
        self.loop = loop
        self.network = Network(loop, random.Random(f"{seed}:net"))
        self.tree = WatchedTree()
        self.client = Incarnation(loop, "c0", 0)
        self.weather = weather
        self.store = SimStore(self.network, self.tree, self.client, weather)


def play(
    body: Callable[[Scene], Awaitable[None]], seed: int = 0, weather: StoreWeather | None = None
) -> None:
    loop = new_loop(random.Random(f"{seed}:loop"))

    async def main() -> None:
        scene = Scene(loop, seed, weather or StoreWeather())

        async def as_client() -> None:
            await body(scene)

        await scene.client.spawn(as_client())

    try:
        loop.run_until_complete(main())
    finally:
        loop.dispose()


def test_calls_reach_the_tree() -> None:
    async def body(scene: Scene) -> None:
        store = scene.store
        version = await store.create("/a/b", b"1")
        with pytest.raises(NodeExistsError):
            await store.create("/a/b", b"1")
        changed = await store.put("/a/b", b"2", version)
        with pytest.raises(VersionConflictError):
            await store.put("/a/b", b"3", version)
        assert (await store.get("/a/b")).version == changed
        assert await store.children("/a") == ["b"]
        await store.delete("/a/b")
        with pytest.raises(NoSuchNodeError):
            await store.get("/a/b")

    play(body)


def test_an_unknown_outcome_is_settled_when_it_is_read_again() -> None:
    seen: set[bool] = set()

    async def body(scene: Scene) -> None:
        with pytest.raises(StoreOutcomeUnknownError):
            await scene.store.create("/a", b"1")
        there = await scene.store.children("/") == ["a"]
        await asyncio.sleep(10)
        assert (await scene.store.children("/") == ["a"]) == there
        seen.add(there)

    for seed in range(20):
        play(body, seed, StoreWeather(unknown=1.0))
    assert seen == {True, False}


@pytest.mark.parametrize("lost", [True, False])
def test_a_transaction_is_made_whole_or_not_at_all(lost: bool) -> None:
    outcomes: set[tuple[str, ...]] = set()

    async def body(scene: Scene) -> None:
        version = scene.tree.create("/a", b"1")
        told: list[str] = []
        scene.tree.listeners.append(lambda path, value, version: told.append(path))
        changes: list[Change] = [Create("/b/c", b""), Put("/a", b"2", version)]
        if lost:
            with pytest.raises(StoreOutcomeUnknownError, match="/b/c and 1 more"):
                await scene.store.commit(changes)
        else:
            refused = [*changes, Create("/a", b"")]
            refused[1] = Put("/d", b"", 0)
            with pytest.raises(NoSuchNodeError, match="/d"):
                await scene.store.commit(refused)
            assert told == []
        there = tuple(await scene.store.children("/"))
        changed = (await scene.store.get("/a")).value == b"2"
        assert changed == ("b" in there)
        assert told == (["/b", "/b/c", "/a"] if changed else [])
        outcomes.add(there)

    for seed in range(20):
        play(body, seed, StoreWeather(unknown=1.0 if lost else 0.0))
    assert outcomes == ({("a",), ("a", "b")} if lost else {("a",)})


def test_unavailable_means_unchanged() -> None:
    async def body(scene: Scene) -> None:
        with pytest.raises(StoreUnavailableError):
            await scene.store.create("/a", b"1")
        scene.weather.unavailable = 0
        assert await scene.store.children("/") == []
        scene.network.cut.add(("c0", STORE))
        with pytest.raises(StoreUnavailableError):
            await scene.store.create("/a", b"1")
        scene.network.cut = {(STORE, "c0")}
        with pytest.raises(StoreOutcomeUnknownError):
            await scene.store.create("/a", b"1")
        with pytest.raises(StoreUnavailableError):
            await scene.store.get("/a")
        scene.network.cut.clear()
        assert (await scene.store.get("/a")).value == b"1"

    play(body, weather=StoreWeather(unavailable=1.0))


@pytest.mark.parametrize("seed", range(10))
def test_waits_wake_at_a_change_and_can_be_cancelled(seed: int) -> None:
    async def body(scene: Scene) -> None:
        version = await scene.store.create("/a", b"1")
        waiting = asyncio.create_task(scene.store.wait("/a", version))
        children = asyncio.create_task(scene.store.wait_children("/", ["a"]))
        await asyncio.sleep(1)
        assert not waiting.done()
        await scene.store.put("/a", b"2", version)
        await waiting
        children.cancel()
        await asyncio.gather(children, return_exceptions=True)
        await asyncio.sleep(1)
        names = scene.loop.pending(scene.loop.root)
        assert "watch" not in names

    play(body, seed)


def test_a_session_that_cannot_be_renewed_expires_and_its_owner_hears_later() -> None:
    async def body(scene: Scene) -> None:
        session = await scene.store.open_session(3.0)
        await session.create("/e", b"")
        await asyncio.sleep(20)
        assert scene.tree.children("/") == ["e"]
        scene.network.cut.add(("c0", STORE))
        await asyncio.sleep(5)
        assert scene.tree.children("/") == []
        assert not session.expired
        scene.network.cut.clear()
        await session.wait_expired()
        with pytest.raises(SessionExpiredError):
            await session.create("/f", b"")

    play(body)


def test_a_closed_session_leaves_nothing() -> None:
    async def body(scene: Scene) -> None:
        session = await scene.store.open_session(3.0)
        path = await session.create_sequential("/q/c-", b"")
        assert path == "/q/c-0000000000"
        await session.close()
        assert scene.tree.children("/q") == []
        assert session.expired

    play(body)


def test_every_change_is_told() -> None:
    told: list[tuple[str, bytes | None]] = []

    async def body(scene: Scene) -> None:
        scene.tree.listeners.append(lambda path, value, version: told.append((path, value)))
        version = await scene.store.create("/a/b", b"1")
        await scene.store.put("/a/b", b"2", version)
        await scene.store.delete("/a/b")

    play(body)
    assert told == [("/a", b""), ("/a/b", b"1"), ("/a/b", b"2"), ("/a/b", None)]
