"""The private event loop that runs every blocking call of this process.

One loop in one daemon thread per process, started by the first `connect` and kept until the process
ends: gRPC's asyncio side wants one loop, and a second thread would buy nothing under the GIL. Any
number of threads may call through the portal at once; each waits for its own work only.

Invariants:
  - A blocking call that is interrupted (Ctrl-C) cancels its work and waits for it to end, at most
    `CANCEL_SECONDS`, before the interruption goes on: nothing runs on without the caller.
  - A context manager that is held is entered and left by the same task, as asyncio's own demand.
  - In a process forked after the portal was started every call raises `ForkedError`.

Not here: anything that knows of ledgers or logs.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import logging
import os
import threading
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Generic, TypeVar

from quire.aio.timing import time_limit
from quire.errors import ForkedError, HandleClosedError, InvalidRequestError

T = TypeVar("T")

_log = logging.getLogger(__name__)

CANCEL_SECONDS: Final = 10.0
"""Longest wait for interrupted work to end; after that it is abandoned."""

WAKE_SECONDS: Final = 0.5
"""A waiting thread looks up this often: a signal that arrives in the instant before it falls asleep
would otherwise be noticed only when the work ends."""

PUMP_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes an iterator runs ahead of its consumer."""

ITEM_BYTES: Final = 128
"""The cost of an item besides its weight: empty records are bounded as well."""


class Portal:
    """An event loop in a thread of its own. Use `Portal.shared()`."""

    _lock = threading.Lock()
    _shared: Portal | None = None

    def __init__(self) -> None:
        self._process = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._thread = threading.Thread(target=self._run, name="quire", daemon=True)
        self._thread.start()

    @classmethod
    def shared(cls) -> Portal:
        """Return the portal of this process, starting it if needed. Raises `ForkedError`."""
        with cls._lock:
            if cls._shared is None:
                cls._shared = cls()
                atexit.register(cls._shared._stop)
            cls._shared._check()
            return cls._shared

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and return its result, or raise its error.

        Ctrl-C in the waiting thread cancels the work. Raises `HandleClosedError` when the work was
        cancelled from elsewhere or the process is at its exit, and `ForkedError`.
        """
        try:
            self._check()
        except BaseException:
            work.close()
            raise
        outcome: concurrent.futures.Future[T] = concurrent.futures.Future()
        try:
            self._loop.call_soon_threadsafe(self._begin, work, outcome)
            return _wait(outcome)
        except BaseException:
            if not outcome.done():
                self._loop.call_soon_threadsafe(self._cancel, work, outcome)
                concurrent.futures.wait([outcome], CANCEL_SECONDS)
            raise

    def time(self) -> float:
        """Return the time of the loop's clock, in any thread."""
        return self._loop.time()

    def call_plain(self, function: Callable[[], T]) -> T:
        """Run a plain function on the loop and return its result."""

        async def work() -> T:
            return function()

        return self.call(work())

    def submit(self, work: Coroutine[Any, Any, asyncio.Future[T]]) -> concurrent.futures.Future[T]:
        """Run a coroutine that returns a future; return a future that any thread can wait for."""
        outcome: concurrent.futures.Future[T] = concurrent.futures.Future()

        async def begin() -> None:
            inner = await work
            inner.add_done_callback(lambda done: _copy(done, outcome))

        self.call(begin())
        return outcome

    def post(self, callback: Callable[[], None]) -> None:
        """Have the loop call something soon, without waiting; nothing happens when it is gone."""
        if os.getpid() == self._process:
            with contextlib.suppress(RuntimeError):  # the loop was closed at exit
                self._loop.call_soon_threadsafe(callback)

    @contextlib.contextmanager
    def hold(self, manager: AbstractAsyncContextManager[T, bool | None]) -> Iterator[T]:
        """Hold an asynchronous context manager from a blocking `with` block.

        An exception of the block is shown to the manager, which may swallow it; Ctrl-C appears to
        it as a cancellation.
        """
        held = _Held(manager)
        try:
            yield self.call(held.enter())
        except BaseException as error:
            if not self._leave(held, error):
                raise
        else:
            self._leave(held, None)

    def _leave(self, held: _Held[T], error: BaseException | None) -> bool:
        """Let the manager end; return whether it swallowed the error."""
        # A child that was forked in the block holds nothing, and at exit the loop let go of all.
        if os.getpid() == self._process and not self._loop.is_closed():
            return self.call(held.leave(error))
        return False

    def iterate(
        self, source: Callable[[], AsyncIterator[T]], weigh: Callable[[T], int]
    ) -> Iterator[T]:
        """Return a plain iterator over an asynchronous one.

        It runs ahead by at most `PUMP_BYTES_MAX` as `weigh` counts them and fetches everything that
        has arrived in one visit to the loop: the thread switch is paid per batch, not per item.
        """
        pump = _Pump(source, weigh)
        try:
            while batch := self.call(pump.take()):
                yield from batch
        finally:
            # Not awaited: a generator may be finalized by any thread, the loop's own included.
            self.post(pump.stop)

    def _check(self) -> None:
        if os.getpid() != self._process:
            raise ForkedError
        if self._loop.is_closed():
            raise HandleClosedError("quire.sync (its loop ended at the exit of the process)")
        if threading.current_thread() is self._thread:
            raise InvalidRequestError(
                "quire.sync was called from its own event loop: use the asynchronous API there"
            )

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._is_over():
            pass  # code in a task wanted to end the process: the portal must not do so
        self._loop.run_until_complete(self._end_everything())
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    def _is_over(self) -> bool:
        """Run until `_stop`; False when a task ended the loop, which it may not."""
        try:
            self._loop.run_forever()
        except (SystemExit, KeyboardInterrupt) as error:
            _log.critical("a task of quire.sync ended with %r", error, exc_info=error)
            return False
        return True

    async def _end_everything(self) -> None:
        rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in rest:
            task.cancel()
        with contextlib.suppress(TimeoutError):
            async with time_limit(CANCEL_SECONDS / 2):
                await asyncio.gather(*rest, return_exceptions=True)

    def _stop(self) -> None:
        if os.getpid() == self._process and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(CANCEL_SECONDS)

    def _begin(self, work: Coroutine[Any, Any, T], outcome: concurrent.futures.Future[T]) -> None:
        task = self._loop.create_task(self._settle(work, outcome))
        self._tasks[id(outcome)] = task
        task.add_done_callback(lambda _: self._forget(work, outcome))

    def _forget(self, work: Coroutine[Any, Any, T], outcome: concurrent.futures.Future[T]) -> None:
        del self._tasks[id(outcome)]
        if not outcome.done():  # cancelled before its first step, the task could not even say so
            _drop(work, outcome)

    def _cancel(self, work: Coroutine[Any, Any, T], outcome: concurrent.futures.Future[T]) -> None:
        if task := self._tasks.get(id(outcome)):
            task.cancel()
        elif not outcome.done():  # the interruption came before the work was handed over
            _drop(work, outcome)

    async def _settle(
        self, work: Coroutine[Any, Any, T], outcome: concurrent.futures.Future[T]
    ) -> None:
        try:
            outcome.set_result(await work)
        except asyncio.CancelledError:
            outcome.set_exception(HandleClosedError("what this call was waiting for"))
        except BaseException as error:
            outcome.set_exception(error)


def _drop(work: Coroutine[Any, Any, T], outcome: concurrent.futures.Future[T]) -> None:
    """Give up work that never began."""
    work.close()
    outcome.set_exception(HandleClosedError("what this call was waiting for"))


def _wait(outcome: concurrent.futures.Future[T]) -> T:
    while not outcome.done():
        concurrent.futures.wait((outcome,), WAKE_SECONDS)
    return outcome.result()


def _copy(inner: asyncio.Future[T], outer: concurrent.futures.Future[T]) -> None:
    if not outer.set_running_or_notify_cancel():
        return
    if inner.cancelled():
        outer.set_exception(HandleClosedError("what this call was waiting for"))
    elif (error := inner.exception()) is not None:
        outer.set_exception(error)
    else:
        outer.set_result(inner.result())


class _Held(Generic[T]):
    """One asynchronous context manager, entered and left by one task."""

    def __init__(self, manager: AbstractAsyncContextManager[T, bool | None]) -> None:
        self._manager = manager
        self._task: asyncio.Task[None] | None = None

    async def enter(self) -> T:
        loop = asyncio.get_running_loop()
        self._entered: asyncio.Future[T] = loop.create_future()
        self._left: asyncio.Future[None] = loop.create_future()
        self._task = loop.create_task(self._live())
        try:
            return await asyncio.shield(self._entered)
        except asyncio.CancelledError:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            raise

    async def leave(self, error: BaseException | None) -> bool:
        """Let the manager end, showing it an error of the block; harmless if it never began.

        Returns whether the manager swallowed the error.
        """
        if self._task is None or self._task.done():
            return False
        is_shown = isinstance(error, Exception) and not isinstance(error, StopIteration)
        if error is None:
            self._left.set_result(None)
        elif is_shown:
            self._left.set_exception(error)
        else:
            self._left.cancel()  # a KeyboardInterrupt set in a future would end the loop
        try:
            await asyncio.shield(self._task)
            return is_shown
        except asyncio.CancelledError:
            self._task.cancel()  # no work continues after its caller was interrupted
            await asyncio.gather(self._task, return_exceptions=True)
            if error is None:
                raise
        except BaseException as raised:
            if error is None or (raised is not error and isinstance(raised, Exception)):
                raise
        return False

    async def _live(self) -> None:
        try:
            async with self._manager as value:
                self._entered.set_result(value)
                await self._left
        except BaseException as error:
            if self._entered.done():
                raise
            if isinstance(error, Exception):
                self._entered.set_exception(error)
            else:
                self._entered.cancel()


class _Pump(Generic[T]):
    """Reads an asynchronous iterator ahead of a consumer that takes batches."""

    def __init__(self, source: Callable[[], AsyncIterator[T]], weigh: Callable[[T], int]) -> None:
        self._source = source
        self._weigh = weigh
        self._items: deque[T] = deque()
        self._bytes = 0
        self._task: asyncio.Task[None] | None = None
        self._ended = False
        self._error: Exception | None = None
        self._changed = asyncio.Event()

    async def take(self) -> list[T]:
        """Return the items that have arrived, at least one; empty at the end of the source."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._pump())
        while not self._items and not self._ended:
            self._changed.clear()
            await self._changed.wait()
        batch = list(self._items)
        self._items.clear()
        self._bytes = 0
        self._changed.set()
        if not batch and self._error is not None:
            raise self._error
        return batch

    def stop(self) -> None:
        """End the iteration; the source is closed soon after."""
        if self._task is not None:
            self._task.cancel()

    async def _pump(self) -> None:
        source = self._source()
        try:
            async for item in source:
                self._items.append(item)
                self._bytes += self._weigh(item) + ITEM_BYTES
                self._changed.set()
                while self._bytes >= PUMP_BYTES_MAX:
                    self._changed.clear()
                    await self._changed.wait()
        except asyncio.CancelledError:
            self._error = HandleClosedError("what this iterator reads")  # no end of the source
            raise
        except Exception as error:
            self._error = error
        finally:
            self._ended = True
            self._changed.set()
            if isinstance(source, AsyncGenerator):
                await source.aclose()
