"""Asking several bookies at once and taking the answers as they come.

`QuorumCall` owns the calls under way for one decision: when its block ends, no call is left
running. Answers arrive in the order of the calls' ends, which on a given loop is deterministic; no
set of tasks is ever iterated.

Not here: which bookies to ask and what their answers mean.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from functools import partial
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

from quire.aio.backoff import Backoff
from quire.aio.retry import retry
from quire.aio.timing import time_limit
from quire.entry import BookieId
from quire.errors import BookieBusyError, BookieUnavailableError, QuireError, RetryError

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

ATTEMPTS: Final = 3
"""How often one question is put to a bookie that answers with a transient error."""

BACKOFF: Final = Backoff(first=0.050, last=0.200)
"""Pauses between these attempts."""

BUSY_BACKOFF: Final = Backoff(first=0.005, last=0.250)
"""Pauses before a busy bookie is asked the same again."""


async def within(seconds: float, bookie: BookieId, call: Awaitable[T]) -> T:
    """Return a call's answer. Raises `BookieUnavailableError` when it takes longer than
    `seconds`.
    """
    try:
        async with time_limit(seconds):
            return await call
    except TimeoutError:
        raise BookieUnavailableError(bookie, f"no answer within {seconds:g} s") from None


async def retry_transient(attempt: Callable[[], Awaitable[T]], attempts: int = ATTEMPTS) -> T:
    """Return the first answer that is not a transient error, after at most `attempts` of them."""
    return await retry(attempt, on=RetryError, backoff=BACKOFF, attempts=attempts)


async def retry_busy(attempt: Callable[[], Awaitable[T]]) -> T:
    """Return the first answer that is not `BookieBusyError`, however long that takes: a bookie that
    is busy has not failed. The caller bounds the time.
    """
    return await retry(attempt, on=BookieBusyError, backoff=BUSY_BACKOFF)


class QuorumCall(Generic[K, T]):
    """Calls under way, each under a key; an async context manager.

    Leaving the block cancels the calls still under way and waits for their end.
    """

    def __init__(self) -> None:
        self._tasks: dict[K, asyncio.Task[T]] = {}
        self._ended: deque[tuple[K, asyncio.Task[T]]] = deque()
        self._arrived = asyncio.Event()

    def ask(self, key: K, call: Coroutine[Any, Any, T]) -> None:
        """Start a call. A key has at most one call under way."""
        assert key not in self._tasks, f"{key} is being asked"
        task = asyncio.create_task(call)
        self._tasks[key] = task
        task.add_done_callback(partial(self._end, key))

    def is_asked(self, key: K) -> bool:
        """Return whether a call under this key is under way."""
        return key in self._tasks

    @property
    def outstanding(self) -> int:
        """Calls under way, and answers not yet taken."""
        return len(self._tasks) + len(self._ended)

    async def next(self) -> tuple[K, T | QuireError]:
        """Return the next answer, or the error of quire that a call ended with.

        Waits as long as the slowest call; bound the calls themselves, or this. Another exception
        of a call is raised here.
        """
        while not self._ended:
            assert self._tasks, "no bookie is being asked"
            self._arrived.clear()
            await self._arrived.wait()
        key, task = self._ended.popleft()
        if task.cancelled():
            return key, BookieUnavailableError(str(key), "the link dropped the call")
        try:
            return key, task.result()
        except QuireError as error:
            return key, error

    def _end(self, key: K, task: asyncio.Task[T]) -> None:
        del self._tasks[key]
        if not task.cancelled():
            task.exception()  # looked at: the task may wait here for long, or forever
        self._ended.append((key, task))
        self._arrived.set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        tasks.extend(task for _, task in self._ended)
        await asyncio.gather(*tasks, return_exceptions=True)
