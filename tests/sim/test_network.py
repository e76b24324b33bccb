"""The simulated network keeps the port's promises however bad the weather."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from quire.aio.timing import time_limit
from quire.bookie import BookieAddress
from quire.entry import DigestKind, Sealer
from quire.errors import BookieUnavailableError, LedgerFencedError, NoSuchEntryError
from quire.run import pack_run
from quire.testing.bookie import MemoryBookie
from quire.testing.sim.loop import SimLoop, new_loop
from quire.testing.sim.policy import Policy
from quire.testing.sim.process import Incarnation
from tests.sim.network import Conditions, Host, Network, SimLink

SEALER = Sealer(7, DigestKind.CRC32C, b"")
KEY = SEALER.access_key


def run_of(*entries: int) -> bytes:
    return pack_run([SEALER.seal(entry, -1, 1, b"x") for entry in entries])


class Scene:
    """One client, one server with a memory bookie, one network."""

    def __init__(self, loop: SimLoop, seed: int, conditions: Conditions) -> None:
        self.loop = loop
        self.network = Network(loop, random.Random(f"{seed}:net"), conditions)
        self.bookie = MemoryBookie("b0")
        self.server = self.start_server()
        self.client = Incarnation(loop, "c0", 0)
        self.link = self.new_link()

    def new_link(self) -> SimLink:
        return self.network.connect(self.client, BookieAddress("b0", "b0:1"))

    def start_server(self) -> Host:
        host = self.network.host("b0:1")
        host.life = Incarnation(self.loop, "b0:1", 0)
        host.bookie = self.bookie
        return host


def play(
    body: Callable[[Scene], Awaitable[Any]],
    seed: int = 0,
    conditions: Conditions | None = None,
    policy: Policy = Policy.WALK,
) -> Scene:
    loop = new_loop(random.Random(f"{seed}:loop"), policy)
    try:
        scene = loop.run_until_complete(_scene(loop, body, seed, conditions or Conditions()))
        assert isinstance(scene, Scene)
        return scene
    finally:
        loop.dispose()


async def _scene(
    loop: SimLoop, body: Callable[[Scene], Awaitable[Any]], seed: int, conditions: Conditions
) -> Scene:
    scene = Scene(loop, seed, conditions)

    async def as_client() -> None:
        await body(scene)

    await scene.client.spawn(as_client())
    return scene


@pytest.mark.parametrize("seed", range(20))
def test_adds_are_carried_out_in_order(seed: int) -> None:
    order: list[int] = []

    async def body(scene: Scene) -> None:
        async def note(method: str, ledger: int) -> None:
            order.append(len(order))

        scene.bookie.before = note
        adds = [asyncio.ensure_future(scene.link.add(7, KEY, run_of(i))) for i in range(30)]
        await asyncio.gather(*adds)

    def check(scene: Scene) -> None:
        assert list(scene.bookie.look(7).frames) == list(range(30))

    # FIFO within the client: asyncio starts tasks in the order they were made
    check(play(body, seed, policy=Policy.INTERLEAVE))


@pytest.mark.parametrize("seed", range(20))
def test_a_broken_stream_fails_everything_and_may_deliver_a_beginning(seed: int) -> None:
    failed: list[int] = []

    async def body(scene: Scene) -> None:
        async def one(entry: int) -> None:
            try:
                await scene.link.add(7, KEY, run_of(entry))
            except BookieUnavailableError:
                failed.append(entry)

        adds = [asyncio.create_task(one(i)) for i in range(30)]
        await asyncio.sleep(0.0006)
        await scene.link.close()
        await asyncio.gather(*adds)
        await asyncio.sleep(1)

    scene = play(body, seed, policy=Policy.INTERLEAVE)
    stored = list(scene.bookie.look(7).frames)
    assert stored == list(range(len(stored)))
    assert failed == list(range(failed[0], 30))
    assert len(stored) >= failed[0]


def test_an_answer_can_be_lost_after_the_work_was_done() -> None:
    outcomes: set[tuple[bool, bool]] = set()

    async def body(scene: Scene) -> None:
        try:
            await scene.link.read_tail(7, fence_key=KEY)
            answered = True
        except BookieUnavailableError:
            answered = False
        outcomes.add((answered, scene.bookie.look(7).fenced))

    for seed in range(40):
        play(body, seed, Conditions(loss=0.3))
    assert outcomes == {(True, True), (False, True), (False, False)}


def test_a_cut_is_one_way() -> None:
    async def body(scene: Scene) -> None:
        scene.network.cut.add(("b0:1", "c0"))
        with pytest.raises(BookieUnavailableError):
            await scene.link.read_tail(7, fence_key=KEY)
        assert scene.bookie.look(7).fenced
        scene.network.cut = {("c0", "b0:1")}
        with pytest.raises(BookieUnavailableError):
            await scene.link.add(8, KEY, run_of(0))
        assert 8 not in scene.bookie.ledgers
        scene.network.cut.clear()
        with pytest.raises(LedgerFencedError):
            await scene.link.add(7, KEY, run_of(0))

    play(body)


def test_a_server_that_is_killed_answers_nothing_more() -> None:
    async def body(scene: Scene) -> None:
        async def hold(method: str, ledger: int) -> None:
            await asyncio.sleep(0.5)

        scene.bookie.before = hold
        add = asyncio.ensure_future(scene.link.add(7, KEY, run_of(0)))
        read = asyncio.create_task(scene.link.read(7, 0, 0))
        await asyncio.sleep(0.1)
        assert scene.server.life is not None
        scene.loop.kill(scene.server.life)
        for call in (add, read):
            with pytest.raises(BookieUnavailableError):
                await call
        assert not scene.bookie.ledgers

    play(body)


def test_errors_arrive_as_copies() -> None:
    async def body(scene: Scene) -> None:
        await scene.link.add(7, KEY, run_of(0))
        with pytest.raises(NoSuchEntryError) as caught:
            await scene.link.read(7, 5, 5)
        assert (caught.value.ledger, caught.value.entry) == (7, 5)

    play(body)


def test_repeated_requests_do_their_work_twice() -> None:
    calls: list[str] = []

    async def body(scene: Scene) -> None:
        async def note(method: str, ledger: int) -> None:
            calls.append(method)

        scene.bookie.before = note
        await scene.link.read_tail(7)
        await asyncio.sleep(1)

    play(body, conditions=Conditions(duplication=1.0))
    assert calls == ["read_tail", "read_tail"]


def test_a_tail_that_nobody_waits_for_is_let_go() -> None:
    async def body(scene: Scene) -> None:
        with pytest.raises(TimeoutError):
            async with time_limit(0.1):
                await scene.link.wait_tail(7, 0, 1000.0)
        await asyncio.sleep(0.1)
        assert scene.server.life is not None
        assert scene.loop.pending(scene.server.life) == []

    play(body)
