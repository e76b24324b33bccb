"""The threads that the calls of a disk block, instead of the event loop.

Beside the disk itself, a small synced write costs the way to a thread and back, and this cost
depends on the thread. `concurrent.futures` wakes the thread that has slept longest and has left the
processor's caches. This module wakes the thread that was idle last. The writes of a journal follow
one another, and so stay with one thread: a fifth less time for small writes
(`benchmarks.disk_write`).
"""

from __future__ import annotations

import asyncio
import errno
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class _ThreadCall(NamedTuple):
    do: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Any]


class DiskThreads:
    """At most so many threads, started when they are needed."""

    def __init__(self, name: str, count: int) -> None:
        self._name = name
        self._count = count
        self._guard = threading.Lock()
        self._waiting: deque[_ThreadCall] = deque()
        self._threads: list[_Thread] = []
        self._idle: list[_Thread] = []
        self._is_closed = False

    @property
    def are_busy(self) -> bool:
        """Whether the next job would have to wait."""
        return not self._idle and len(self._threads) == self._count

    def run(self, do: Callable[[], T]) -> asyncio.Future[T]:
        """Have something done. Cancelling abandons the wait, not the job.

        Raises OSError when the threads were stopped; the future has the errors of the job.
        """
        if self._is_closed:
            raise OSError(errno.EBADF, "disk is closed")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        self._hand_over(_ThreadCall(do, loop, answer))
        return answer

    def _hand_over(self, job: _ThreadCall) -> None:
        with self._guard:
            if self._idle:
                self._idle.pop().inbox.put(job)
            elif len(self._threads) < self._count:
                self._threads.append(_Thread(f"{self._name}-{len(self._threads)}", self))
                self._threads[-1].inbox.put(job)
            else:
                self._waiting.append(job)

    def next_for(self, thread: _Thread) -> None:
        """Give a thread that has nothing to do the job that waits longest, or let it be idle."""
        with self._guard:
            if self._waiting:
                thread.inbox.put(self._waiting.popleft())
            elif self._is_closed:
                thread.inbox.put(None)
            else:
                self._idle.append(thread)

    async def close(self) -> None:
        """Wait for the jobs under way and for the queued jobs, and stop."""
        with self._guard:
            self._is_closed = True
            while self._idle:
                self._idle.pop().inbox.put(None)
        for thread in self._threads:
            await asyncio.to_thread(thread.join)


class _Thread:
    def __init__(self, name: str, threads: DiskThreads) -> None:
        self.inbox: SimpleQueue[_ThreadCall | None] = SimpleQueue()
        self._threads = threads
        thread = threading.Thread(target=self._work, name=name, daemon=True)
        thread.start()
        self.join = thread.join

    def _work(self) -> None:
        while (job := self.inbox.get()) is not None:
            try:
                settle = partial(_resolve, job.answer, job.do())
            except BaseException as error:
                settle = partial(_reject, job.answer, _named(error))
            self._threads.next_for(self)
            with suppress(RuntimeError):  # the loop is closed: no task waits
                job.loop.call_soon_threadsafe(settle)
            del job, settle  # nothing is kept while there is nothing to do


def _named(error: BaseException) -> BaseException:
    """Report a used-up quota as a full disk, which callers can handle."""
    if isinstance(error, OSError) and error.errno == errno.EDQUOT:
        return OSError(errno.ENOSPC, error.strerror, error.filename)
    return error


def _resolve(answer: asyncio.Future[T], result: T) -> None:
    if not answer.done():
        answer.set_result(result)


def _reject(answer: asyncio.Future[T], error: BaseException) -> None:
    if not answer.done():
        answer.set_exception(error)
