"""Shares of peers in virtual time: no peer starves another, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from quire.storage.serving.quota import Quota
from tests.support.virtual import virtually


def test_a_peer_takes_its_share_and_no_more() -> None:
    quota = Quota(10, 6)
    assert [quota.take("a", 3) for _ in range(3)] == [True, True, False]
    assert (quota.held("a"), quota.free) == (6, 4)
    assert quota.take("b", 4)
    assert not quota.take("b", 1), "nothing is left for all"
    quota.give_back("a", 3)
    assert quota.take("b", 2)
    assert not quota.take("b", 1), "it has its share"


def test_an_amount_above_the_share_counts_as_the_share() -> None:
    quota = Quota(10, 4)
    assert quota.take("a", 1000)
    assert (quota.held("a"), quota.free) == (4, 6)
    quota.give_back("a", 1000)
    assert (quota.held("a"), quota.free) == (0, 10)


class Scene:
    """Peers that wait for turns, which are noted in their order."""

    def __init__(self, size: int, peer_max: int | None = None) -> None:
        self.quota = Quota(size, peer_max)
        self.begun: list[str] = []
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ends: dict[str, asyncio.Event] = {}

    async def start(self, name: str, amount: int) -> None:
        """Start a request of the peer of its first letter."""

        async def work() -> None:
            async with self.quota.turn(name[0], amount):
                self.begun.append(name)
                await self._ends[name].wait()

        self._ends[name] = asyncio.Event()
        self._tasks[name] = asyncio.create_task(work())
        await asyncio.sleep(1)

    async def end(self, name: str) -> None:
        self._ends[name].set()
        await self._tasks[name]
        await asyncio.sleep(1)

    async def cancel(self, name: str) -> None:
        self._tasks[name].cancel()
        with suppress(asyncio.CancelledError):
            await self._tasks[name]
        await asyncio.sleep(1)


def test_turns_go_around_among_peers() -> None:
    async def main() -> None:
        scene = Scene(10)
        for name in ("a1", "a2", "a3", "b1", "c1"):
            await scene.start(name, 10)
        for name in ("a1", "a2", "b1", "c1", "a3"):
            await scene.end(name)
        assert scene.begun == ["a1", "a2", "b1", "c1", "a3"]
        assert scene.quota.free == 10

    virtually(main)


def test_a_peer_that_waits_for_itself_holds_nobody_up() -> None:
    async def main() -> None:
        scene = Scene(10, 5)
        for name in ("a1", "a2", "a3", "b1"):
            await scene.start(name, 5)
        assert scene.begun == ["a1", "b1"]

    virtually(main)


def test_a_large_request_is_not_overtaken_by_small_ones() -> None:
    async def main() -> None:
        scene = Scene(10)
        await scene.start("a1", 6)
        await scene.start("b1", 8)
        await scene.start("c1", 1)
        assert scene.begun == ["a1"]
        assert not scene.quota.take("d", 1)
        await scene.end("a1")
        assert scene.begun == ["a1", "b1", "c1"]

    virtually(main)


def test_a_request_that_is_cancelled_lets_the_next_one_go_on() -> None:
    async def main() -> None:
        scene = Scene(10)
        await scene.start("a1", 6)
        await scene.start("b1", 8)
        await scene.start("c1", 4)
        await scene.cancel("b1")
        assert scene.begun == ["a1", "c1"]
        await scene.cancel("a1")
        await scene.cancel("c1")
        assert scene.quota.free == 10

    virtually(main)


def test_a_turn_that_comes_with_a_cancellation_is_not_lost() -> None:
    async def main() -> None:
        quota = Quota(10)
        assert quota.take("a", 10)
        waiting = asyncio.create_task(quota.wait("b", 10))
        await asyncio.sleep(1)
        quota.give_back("a", 10)  # the task has its turn, and has not gone on yet
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        assert quota.free == 10

    virtually(main)


REQUESTS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(1, 12), st.integers(0, 5), st.booleans()),
    max_size=30,
)


@given(REQUESTS, st.integers(1, 10), st.integers(1, 12))
def test_what_peers_hold_is_bounded_and_all_come_to_their_turn(
    requests: list[tuple[str, int, int, bool]], size: int, peer_max: int
) -> None:
    async def main() -> None:
        quota, held, done = Quota(size, peer_max), Counter[str](), 0

        async def one(peer: str, amount: int, seconds: int) -> None:
            nonlocal done
            await asyncio.sleep(seconds)
            async with quota.turn(peer, amount):
                held[peer] += quota.fit(amount)
                assert held.total() <= size
                assert held[peer] <= quota.peer_max
                try:
                    await asyncio.sleep(3)
                finally:
                    held[peer] -= quota.fit(amount)
            done += 1

        tasks = [asyncio.create_task(one(*each[:3])) for each in requests]
        await asyncio.sleep(2)
        for task, (*_, is_cancelled) in zip(tasks, requests, strict=True):
            if is_cancelled:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert quota.free == size
        assert done >= sum(not each[3] for each in requests)

    virtually(main)


def test_a_turn_that_is_cancelled_when_others_go_on_is_only_left_out() -> None:
    async def main() -> None:
        quota = Quota(1, 1)
        assert quota.take("a", 1)
        waiting = asyncio.create_task(quota.wait("b", 1))
        await asyncio.sleep(1)
        waiting.cancel()  # its turn is passed over before it wakes
        quota.give_back("a", 1)
        assert await asyncio.gather(waiting, return_exceptions=True)
        assert waiting.cancelled()
        assert quota.take("c", 1), "nothing is held"

    virtually(main)
