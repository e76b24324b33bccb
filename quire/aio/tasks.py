"""Background tasks with an owner: kept until they end, cancelled and awaited together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any


class Tasks:
    """The tasks of one object, in the order they were started. A failure is theirs to report."""

    __slots__ = ("_tasks",)

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Future[None], None] = {}

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run a coroutine as a task of this owner."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._forget)
        return task

    def keep(self, work: Awaitable[None]) -> asyncio.Future[None]:
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

        Raises the coroutine's error. Cancelling the call cancels the task and waits for its end.
        """
        task = self.start(work, name)
        try:
            await asyncio.wait([task])
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if task.cancelled():
            return False
        task.result()
        return True

    def _forget(self, task: asyncio.Future[None]) -> None:
        del self._tasks[task]

    def cancel(self) -> None:
        """Cancel all tasks; `join` waits for them."""
        for task in list(self._tasks):
            task.cancel()

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
