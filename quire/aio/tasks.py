"""Background tasks with an owner: kept until they end, cancelled and awaited together.

A task without an owner outlives the object that it works for, and its error is seen by no caller.
So production code starts tasks here (tests/test_structure.py names the exceptions).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

S = TypeVar("S")
T = TypeVar("T")


class Tasks:
    """The tasks of one object, in the order they were started.

    `on_failure` is called in the task that an exception ends, with that exception. Without it a
    failure is the task's own to report.
    """

    __slots__ = ("_on_failure", "_tasks")

    def __init__(self, on_failure: Callable[[Exception], None] | None = None) -> None:
        self._on_failure = on_failure
        self._tasks: dict[asyncio.Future[Any], None] = {}

    @property
    def count(self) -> int:
        """Tasks that have not ended, as far as is noted."""
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run a coroutine as a task of this owner."""
        if self._on_failure is None:
            return self._start(work, name)
        task = self._start(self._guard(work, self._on_failure), name)
        task.add_done_callback(lambda _: work.close())  # it was cancelled before it began
        return task

    @staticmethod
    async def _guard(
        work: Coroutine[Any, Any, None], on_failure: Callable[[Exception], None]
    ) -> None:
        try:
            await work
        except Exception as error:
            on_failure(error)

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._forget)
        return task

    def keep(self, work: Awaitable[T]) -> asyncio.Future[T]:
        """Own an operation: a future as it is, a coroutine as a task.

        The caller looks at its end.
        """
        kept = asyncio.ensure_future(work)
        self._tasks[kept] = None
        kept.add_done_callback(self._forget)
        return kept

    async def run(self, work: Coroutine[Any, Any, None], name: str) -> bool:
        """Run a coroutine as a task of this owner; return whether it came to its end, False when
        `cancel` kept it from that.

        Raises the coroutine's error, whatever `on_failure` is. Cancelling the call cancels the task
        and waits for its end.
        """
        task = self._start(work, name)
        try:
            await asyncio.wait([task])
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if task.cancelled():
            return False
        task.result()
        return True

    def _forget(self, task: asyncio.Future[Any]) -> None:
        del self._tasks[task]

    def cancel(self) -> None:
        """Cancel all tasks; `join` waits for them."""
        for task in list(self._tasks):
            task.cancel()

    def cancel_others(self) -> None:
        """Cancel all tasks except the caller's, if the caller is one of them."""
        current = asyncio.current_task()
        for task in list(self._tasks):
            if task is not current:
                task.cancel()

    async def stop(self) -> None:
        """Cancel all tasks except the caller's, and wait until they have ended."""
        self.cancel_others()
        await self.join()

    async def join(self) -> None:
        """Wait until no task is left except the caller's."""
        current = asyncio.current_task()
        while tasks := [task for task in self._tasks if task is not current]:
            if all(task.done() for task in tasks):
                # A task is forgotten the turn after it ended, and from Python 3.12 on a gathering
                # of ended tasks takes no turn: this loop would spin forever.
                await asyncio.sleep(0)
            else:
                await asyncio.gather(*tasks, return_exceptions=True)


async def stop(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks and wait until they have ended, whatever their outcomes."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def together(*works: Coroutine[Any, Any, T]) -> list[T]:
    """Return what some works come to, in order. When one fails, the others have ended before its
    error is raised: `asyncio.gather` lets them go on.
    """
    tasks = [asyncio.create_task(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    finally:
        await stop(*tasks)


async def each(
    items: Sequence[S], ask: Callable[[S], Coroutine[Any, Any, T]], at_once: int
) -> list[T]:
    """Ask about each item, some at a time; the answers are in the order of the items. An error ends
    as in `together`.
    """
    places = asyncio.Semaphore(at_once)

    async def one(item: S) -> T:
        async with places:
            return await ask(item)

    return await together(*map(one, items))


async def first_of(*waits: Coroutine[Any, Any, Any]) -> None:
    """Return when the first of some waits is over, cancelling the others.

    Raises the error that a wait ended with.
    """
    finished = asyncio.Event()
    tasks = [asyncio.create_task(wait) for wait in waits]
    for task in tasks:
        task.add_done_callback(lambda _: finished.set())
    try:
        await finished.wait()
    finally:
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome


async def in_thread(work: Callable[[], T]) -> T:
    """Return the result of work that blocks, done in a thread.

    Cancellation:
        Waits for the thread: it has ended when the call does.
    """
    working = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])
        if not working.cancelled():
            working.exception()  # looked at: the caller has gone
        raise
