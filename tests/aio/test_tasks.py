"""Tasks are kept until they end, and end together."""

from __future__ import annotations

import asyncio
import gc
import threading

import pytest

from quire.aio.tasks import Tasks, each, first_of, in_thread, stop, together
from tests.support.virtual import virtually


def test_cancelled_tasks_are_waited_for_even_if_they_start_others() -> None:
    async def main() -> None:
        tasks, ended = Tasks(), list[str]()

        async def linger(name: str) -> None:
            try:
                await asyncio.sleep(3600)
            finally:
                await asyncio.sleep(1)
                ended.append(name)
                if name == "first":
                    tasks.start(quick(), "quick")

        async def quick() -> None:
            ended.append("quick")

        for name in ("first", "second"):
            tasks.start(linger(name), name)
        await asyncio.sleep(1)
        tasks.cancel()
        await tasks.join()
        assert ended == ["first", "second", "quick"]
        await tasks.join()

    virtually(main)


def test_a_task_may_wait_for_the_others() -> None:
    async def main() -> None:
        tasks = Tasks()
        task = tasks.start(tasks.join(), "join")
        tasks.start(asyncio.sleep(1), "other")
        await task

    virtually(main)


def test_joining_tasks_that_just_ended_ends_where_gathering_them_takes_no_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As it is from Python 3.12 on; the owner hears of a task's end one turn after it."""

    rounds = 0

    async def gather(*tasks: asyncio.Future[None], return_exceptions: bool) -> None:
        nonlocal rounds
        rounds += 1
        assert rounds < 10, "what has ended is gathered again and again"
        if pending := [task for task in tasks if not task.done()]:
            await asyncio.wait(pending)

    async def main() -> None:
        tasks = Tasks()
        ended = asyncio.get_running_loop().create_future()
        tasks.keep(ended)
        ended.set_result(None)
        with monkeypatch.context() as patch:
            patch.setattr(asyncio, "gather", gather)
            await tasks.join()

    virtually(main)


def test_an_owner_hears_of_the_error_that_ends_a_task_and_not_of_a_cancellation() -> None:
    async def main() -> None:
        heard: list[tuple[str, Exception]] = []

        def hear(error: Exception) -> None:
            task = asyncio.current_task()
            assert task is not None
            heard.append((task.get_name(), error))

        async def fail() -> None:
            raise ValueError("no")

        tasks = Tasks(hear)
        tasks.start(asyncio.sleep(3600), "sleeper")
        failing = tasks.start(fail(), "failing")
        await asyncio.wait([failing])
        tasks.cancel()
        await tasks.join()
        assert [(name, str(error)) for name, error in heard] == [("failing", "no")]

    virtually(main)


@pytest.mark.filterwarnings("error")
def test_a_task_that_is_cancelled_before_it_began_leaves_nothing() -> None:
    async def main() -> None:
        tasks = Tasks(lambda error: None)
        tasks.start(asyncio.sleep(1), "sleeper")
        tasks.cancel()
        await tasks.join()
        gc.collect()

    virtually(main)


def test_a_task_may_stop_its_owner() -> None:
    async def main() -> None:
        tasks, ended = Tasks(), list[str]()

        async def linger() -> None:
            try:
                await asyncio.sleep(3600)
            finally:
                await asyncio.sleep(1)
                ended.append("other")

        async def end() -> None:
            await asyncio.sleep(1)
            await tasks.stop()
            ended.append("itself")

        tasks.start(linger(), "linger")
        ending = tasks.start(end(), "end")
        await ending
        assert ended == ["other", "itself"]

    virtually(main)


def test_the_first_of_some_waits_ends_the_others() -> None:
    async def main() -> None:
        ended: list[float] = []

        async def wait(seconds: float) -> None:
            try:
                await asyncio.sleep(seconds)
            finally:
                ended.append(seconds)

        begun = asyncio.get_running_loop().time()
        await first_of(wait(3), wait(1), wait(2))
        assert asyncio.get_running_loop().time() - begun == 1
        assert sorted(ended) == [1, 2, 3]

    virtually(main)


def test_the_error_of_the_first_wait_is_raised() -> None:
    async def main() -> None:
        async def fail() -> None:
            raise ValueError("no")

        with pytest.raises(ValueError, match="no"):
            await first_of(asyncio.sleep(3600), fail())

    virtually(main)


def test_a_stopped_task_has_ended_whatever_its_outcome() -> None:
    async def main() -> None:
        async def linger() -> None:
            try:
                await asyncio.sleep(3600)
            finally:
                await asyncio.sleep(1)
                raise ValueError("no")

        tasks = [asyncio.create_task(linger()), asyncio.create_task(asyncio.sleep(3600))]
        await asyncio.sleep(1)
        await stop(*tasks)
        assert [task.done() for task in tasks] == [True, True]

    virtually(main)


def test_a_cancelled_caller_waits_for_its_thread() -> None:
    async def main() -> None:
        begun, may_end = asyncio.Event(), threading.Event()
        loop, ended = asyncio.get_running_loop(), list[str]()

        def work() -> None:
            loop.call_soon_threadsafe(begun.set)
            may_end.wait()
            ended.append("thread")

        calling = asyncio.create_task(in_thread(work))
        await begun.wait()
        calling.cancel()
        loop.call_soon(may_end.set)
        with pytest.raises(asyncio.CancelledError):
            await calling
        assert ended == ["thread"]
        assert await in_thread(lambda: 7) == 7

    asyncio.run(main())


def test_each_item_is_asked_about_some_at_a_time() -> None:
    async def main() -> None:
        running, most = 0, 0

        async def ask(number: int) -> int:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(10 - number)
            running -= 1
            return number * 2

        assert await each(range(10), ask, 3) == list(range(0, 20, 2))
        assert most == 3
        assert await each([], ask, 3) == []

    virtually(main)


def test_works_that_go_together_end_together() -> None:
    async def main() -> None:
        ended: list[str] = []

        async def work(name: str, seconds: float) -> str:
            try:
                await asyncio.sleep(seconds)
                if name == "bad":
                    raise ValueError(name)
                return name
            finally:
                ended.append(name)

        assert await together(work("slow", 2), work("fast", 1)) == ["slow", "fast"]
        assert await together() == []
        ended.clear()
        with pytest.raises(ValueError, match="bad"):
            await together(work("slow", 2), work("bad", 1))
        assert ended == ["bad", "slow"]

    virtually(main)
