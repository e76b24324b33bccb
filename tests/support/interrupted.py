"""Something happens while work waits: at each of its waits, one after another.

What a signal, a timeout or a failing neighbour ends may be waiting for anything at that moment.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")


async def cancelled_at(wait: int, work: Coroutine[Any, Any, T]) -> T:
    """Do some work in this task, and cancel the task as the work waits for the n-th time."""
    task = asyncio.current_task()
    assert task is not None
    return await at_wait(wait, task.cancel, work)


async def at_wait(wait: int, happen: Callable[[], object], work: Coroutine[Any, Any, T]) -> T:
    """Do some work, and have something happen as it waits for the n-th time.

    It happens while the task is suspended, as anything from outside does.
    """
    return await _observed(wait, happen, work)


@types.coroutine
def _observed(
    wait: int, happen: Callable[[], object], work: Coroutine[Any, Any, T]
) -> Generator[Any, Any, T]:
    """Do some work as `await` does, step by step."""
    error: BaseException | None = None
    while True:
        try:
            waited_for = work.send(None) if error is None else work.throw(error)
        except StopIteration as end:
            result: T = end.value
            return result
        wait -= 1
        if wait == 0:
            asyncio.get_running_loop().call_soon(happen)
        error = None
        try:
            yield waited_for
        except BaseException as thrown:
            error = thrown
