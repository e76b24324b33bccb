"""Tasks are kept until they end, and end together."""

from __future__ import annotations

import asyncio

import pytest

from quire.aio.tasks import Tasks
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
