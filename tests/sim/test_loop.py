"""The simulated loop keeps asyncio's promises, its own clock, and the dead dead."""

from __future__ import annotations

import asyncio
import gc
import random
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from quire.aio.timing import time_limit
from quire.testing.sim.loop import SimLoop, new_loop
from quire.testing.sim.policy import Policy
from quire.testing.sim.process import Incarnation
from quire.testing.sim.sealed import SimDeadlock, SimEscape, SimLivelock, SimUnhandled


def run(
    main: Callable[[SimLoop], Awaitable[Any]], seed: int = 0, policy: Policy = Policy.INTERLEAVE
) -> Any:
    loop = new_loop(random.Random(f"{seed}"), policy)
    try:
        return loop.run_until_complete(main(loop))
    finally:
        loop.dispose()


def test_time_is_virtual_and_exact() -> None:
    async def main(loop: SimLoop) -> float:
        await asyncio.sleep(3600)
        with pytest.raises(TimeoutError):
            async with time_limit(0.5):
                await loop.create_future()
        return loop.time()

    assert run(main) == 3600.5


@pytest.mark.parametrize("policy", list(Policy))
def test_a_nap_ends_in_time_or_when_it_is_cancelled(policy: Policy) -> None:
    async def main(loop: SimLoop) -> list[float]:
        times = list[float]()

        async def doze() -> None:
            try:
                await loop.nap(5.0)
            finally:
                times.append(loop.time())
            await loop.create_future()

        whole, cut = loop.create_task(doze()), loop.create_task(doze())
        await asyncio.sleep(2.0)
        cut.cancel()
        cut.cancel()
        await asyncio.sleep(6.0)
        whole.cancel()
        assert await asyncio.gather(whole, cut, return_exceptions=True)
        assert whole.cancelled()
        assert cut.cancelled()
        return times

    assert run(main, policy=policy) == [2.0, 5.0]


def test_who_cancels_himself_takes_no_nap() -> None:
    async def main(loop: SimLoop) -> float:
        async def doze() -> None:
            current = asyncio.current_task()
            assert current is not None
            current.cancel()
            await loop.nap(5.0)

        await asyncio.gather(loop.create_task(doze()), return_exceptions=True)
        return loop.time()

    assert run(main) == 0.0


def test_callbacks_of_one_process_keep_their_order() -> None:
    async def main(loop: SimLoop) -> list[int]:
        seen: list[int] = []
        for number in range(20):
            loop.call_soon(seen.append, number)
        await asyncio.sleep(0)
        return seen

    assert run(main) == list(range(20))
    assert sorted(run(main, policy=Policy.WALK)) != run(main, policy=Policy.WALK)


async def _chatter(loop: SimLoop) -> str:
    async def talk(number: int) -> None:
        for _ in range(5):
            await asyncio.sleep(0)
            if number == 7:
                raise ValueError(number)

    nodes = [Incarnation(loop, f"n{i}", 0) for i in range(3)]
    tasks = [node.spawn(talk(i)) for i, node in enumerate(nodes)]
    await asyncio.gather(*tasks)
    try:
        async with asyncio.TaskGroup() as group:
            for number in range(10):
                group.create_task(talk(number))
    except ExceptionGroup:
        pass
    return loop.trace.digest()


@pytest.mark.parametrize("policy", list(Policy))
def test_a_seed_decides_the_run(policy: Policy) -> None:
    first = run(_chatter, 1, policy)
    ballast = [object() for _ in range(1000)]
    assert run(_chatter, 1, policy) == first
    assert run(_chatter, 2, policy) != first
    del ballast


def test_a_killed_process_takes_no_step_and_runs_no_cleanup() -> None:
    said: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()  # what tests before this one left is not what it collects

    async def victim() -> None:
        try:
            said.append("started")
            await asyncio.sleep(1)
            said.append("went on")
        finally:
            said.append("cleaned up")

    async def main(loop: SimLoop) -> None:
        node = Incarnation(loop, "n", 0)
        node.spawn(victim())
        await asyncio.sleep(0.5)
        loop.kill(node)
        node.spawn(victim())
        await asyncio.sleep(10)
        gc.collect()
        assert said == ["started"]

    run(main)


def test_a_paused_process_goes_on_later() -> None:
    async def main(loop: SimLoop) -> float:
        node = Incarnation(loop, "n", 0)
        task = node.spawn(asyncio.sleep(1, "late"))
        await asyncio.sleep(0.5)
        loop.pause(node)
        await asyncio.sleep(5)
        assert not task.done()
        loop.resume(node)
        assert await task == "late"
        return loop.time()

    assert run(main) == 5.5


def test_deadlock_names_who_waits() -> None:
    async def main(loop: SimLoop) -> None:
        await Incarnation(loop, "bookie", 0).spawn(_forever(loop), name="journal")

    with pytest.raises(SimDeadlock, match="bookie#0:journal"):
        run(main)


async def _forever(loop: SimLoop) -> None:
    await loop.create_future()


def test_livelock_is_noticed() -> None:
    async def main(loop: SimLoop) -> None:
        for _ in range(10**9):
            await asyncio.sleep(0)

    with pytest.raises(SimLivelock):
        run(main)


def test_an_exception_that_reaches_nobody_is_a_failure() -> None:
    async def fail() -> None:
        raise ValueError("lost")

    async def main(loop: SimLoop) -> None:
        task = asyncio.create_task(fail())
        await asyncio.sleep(1)
        loop.check_unhandled()
        del task

    with pytest.raises(SimUnhandled):
        run(main)

    async def callback(loop: SimLoop) -> None:
        loop.call_soon(lambda: 1 / 0)
        await asyncio.sleep(1)

    with pytest.raises(ZeroDivisionError):
        run(callback)


def test_a_callback_after_the_last_step_of_a_run_may_still_look() -> None:
    async def fail() -> None:
        raise ValueError

    def ended(seed: int, look: Callable[[asyncio.Task[None]], object]) -> None:
        loop = new_loop(random.Random(f"{seed}"), Policy.INTERLEAVE)

        async def main() -> None:
            node = Incarnation(loop, "bookie", 0)
            task = node.spawn(fail(), name="failing")
            task.add_done_callback(look, context=node.context.copy())
            await asyncio.wait([task])

        try:
            loop.run_until_complete(main())
            loop.check_unhandled()
        finally:
            loop.dispose()

    for seed in range(20):  # in some of them the run ends before the callback
        ended(seed, lambda task: task.exception())
        with pytest.raises(SimUnhandled):
            ended(seed, lambda task: None)


def test_nothing_leaves_the_simulation() -> None:
    async def main(loop: SimLoop) -> None:
        with pytest.raises(SimEscape):
            await asyncio.to_thread(print)
        with pytest.raises(SimEscape):
            await asyncio.open_connection("127.0.0.1", 1)
        with ThreadPoolExecutor(1) as pool, pytest.raises(SimEscape):
            pool.submit(loop.call_soon_threadsafe, print).result()

    run(main)


def test_an_abandoned_generator_is_closed_by_a_task() -> None:
    said: list[str] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            said.append("closed")

    async def main(loop: SimLoop) -> None:
        async for _ in numbers():
            break
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert said == ["closed"]

    run(main)


def test_dispose_unwinds_stubborn_coroutines_silently() -> None:
    async def stubborn() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(100)

    async def main(loop: SimLoop) -> None:
        node = Incarnation(loop, "n", 0)
        loop.kill(node)
        task = Incarnation(loop, "m", 0).spawn(stubborn())
        await asyncio.sleep(1)
        del task, node

    run(main)
    gc.collect()
