"""The embedded metadata store: one SQLite file, shared by the processes of one machine.

Every call to SQLite is made by one private thread of the store (`sqlite_file.py` has the calls,
`sqlite_waits.py` the waits for changes); the loop only waits for it.

Invariant: a session's deadline here is the deadline written in the file, so its owner knows that a
lease is over no later than a process that removes it, and a stopped process knows when it is woken.

A process that is stopped inside a transaction keeps others from changing anything until it goes on
or dies; they get `StoreUnavailableError`. The file must be on a local file system.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar

from quire.aio.tasks import Tasks
from quire.errors import (
    HandleClosedError,
    OutcomeUnknownError,
    QuireError,
    RetryError,
    SessionExpiredError,
)
from quire.metastore.changes import Change
from quire.metastore.layout import check_parent, check_path
from quire.metastore.sqlite_file import SessionId, SqliteFile
from quire.metastore.sqlite_path import Mode
from quire.metastore.sqlite_waits import Seen, Waits
from quire.metastore.store import Versioned

HEARTBEATS_PER_TIMEOUT: Final = 3

_log: Final = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")
Clock: TypeAlias = Callable[[], float]
_Calls: TypeAlias = "SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]"


class _Worker(Executor):
    """One thread that makes calls one after the other. The end of the process does not wait for it,
    and it ends with its owner, also if the owner was never closed.

    `ThreadPoolExecutor` refuses work as soon as the main thread has ended, while other threads of
    the program may go on for hours, and their leases too.
    """

    def __init__(self, name: str) -> None:
        self._calls: _Calls = SimpleQueue()
        self._is_shut_down = False
        self._thread = threading.Thread(
            target=_make_calls, args=(self._calls,), name=name, daemon=True
        )
        weakref.finalize(self, self._calls.put, None).atexit = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        if self._is_shut_down:
            raise RuntimeError("this worker was shut down")  # as every executor says
        if not self._thread.ident:
            self._thread.start()
        future: Future[T] = Future()
        self._calls.put((future, partial(fn, *args, **kwargs)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._is_shut_down = True
        self._calls.put(None)
        if wait and self._thread.ident:
            self._thread.join()


def _make_calls(calls: _Calls) -> None:
    while (call := calls.get()) is not None:
        _settle(*call)
        del call  # do not keep its objects until the next call comes


def _settle(future: Future[Any], call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)


def _close_unclaimed(opening: Future[SqliteFile]) -> None:
    """Close a file that was opened for a caller that is gone. In the thread that opened it."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


class SqliteSession:
    """A lease row of the file, renewed by a task of this process until it is closed."""

    def __init__(
        self, store: SqliteStore, session: SessionId, timeout: float, deadline: float
    ) -> None:
        self._store = store
        self.id = session
        self._timeout = timeout
        self._deadline = deadline
        self._over = asyncio.Event()
        self._alarm: asyncio.TimerHandle | None = None
        self._wait_for_deadline()
        self._tasks = Tasks()
        self._tasks.start(self._beat(), "sqlite session heartbeat")

    async def create(self, path: str, value: bytes) -> int:
        with self._noticing_expiry():
            return await self._store.change(lambda file: file.create(path, value, self.id))

    async def create_sequential(self, prefix: str, value: bytes) -> str:
        with self._noticing_expiry():
            return await self._store.change(
                lambda file: file.create_sequential(prefix, value, self.id)
            )

    @property
    def expired(self) -> bool:
        return self._over.is_set() or self._store.clock() >= self._deadline

    async def wait_expired(self) -> None:
        await self._over.wait()

    async def close(self) -> None:
        await self.abandon()
        try:
            if not self.expired:
                await self._store.change(lambda file: file.end_session(self.id))
        finally:
            self._end()

    async def abandon(self) -> None:
        """Stop renewing, as a process that dies does; the lease ends when its time is up."""
        await self._tasks.stop()

    @contextmanager
    def _noticing_expiry(self) -> Iterator[None]:
        if self.expired:
            raise SessionExpiredError("it was not renewed in time, or was closed")
        try:
            yield
        except SessionExpiredError:
            self._end()
            raise

    async def _beat(self) -> None:
        try:
            while not self.expired:
                await asyncio.sleep(self._timeout / HEARTBEATS_PER_TIMEOUT)
                # A renewal that failed, or may have, is tried again until the deadline last known.
                with suppress(RetryError, OutcomeUnknownError):
                    deadline = await self._store.change(self._renew)
                    if deadline is None:
                        break
                    self._deadline = deadline
                    self._wait_for_deadline()
        except QuireError as error:
            _log.error("a lease in %s is given up: %s", self._store.uri, error)
        self._end()

    def _renew(self, file: SqliteFile) -> float | None:
        return file.renew(self.id, self._timeout)

    def _wait_for_deadline(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        remaining = max(0.0, self._deadline - self._store.clock())
        self._alarm = asyncio.get_running_loop().call_later(remaining, self._look_at_deadline)

    def _look_at_deadline(self) -> None:
        if self.expired:
            self._end()
        else:
            self._wait_for_deadline()

    def _end(self) -> None:
        self._over.set()
        if self._alarm is not None:
            self._alarm.cancel()


class SqliteStore:
    """One client of a metadata file. Use `SqliteStore.open`."""

    def __init__(self, path: str, clock: Clock) -> None:
        self.clock = clock
        self._path = os.path.abspath(path)
        self._thread = _Worker("quire-sqlite")
        self._file: SqliteFile | None = None
        self._sessions: list[SqliteSession] = []
        self._waits = Waits(lambda mark, seen: self._call(lambda file: file.look(mark, seen)))

    @classmethod
    async def open(cls, path: str, *, clock: Clock = time.monotonic) -> SqliteStore:
        """Open a metadata file that exists.

        `clock` returns seconds and is shared by every process of the machine. Raises
        `ConfigurationError` if the file does not exist, or the directory or the file cannot be used
        or belongs to another application, `CorruptStorageError` when it cannot be believed,
        `StoreUnavailableError` when it stays locked.
        """
        return await cls._open(path, clock, Mode.EXISTING)

    @classmethod
    async def open_or_create(cls, path: str, *, clock: Clock = time.monotonic) -> SqliteStore:
        """Open a metadata file, creating it if it does not exist. Raises as `open`."""
        return await cls._open(path, clock, Mode.CREATE)

    @classmethod
    async def _open(cls, path: str, clock: Clock, mode: Mode) -> SqliteStore:
        store = cls(path, clock)
        opening = store._thread.submit(SqliteFile, store._path, clock, mode)
        try:
            store._file = await asyncio.wrap_future(opening)
        except BaseException:
            store._thread.submit(_close_unclaimed, opening)
            store._thread.shutdown(wait=False)
            raise
        return store

    @property
    def uri(self) -> str:
        return f"sqlite://{self._path}"

    async def get(self, path: str) -> Versioned:
        return await self._call(lambda file: file.get(path))

    async def create(self, path: str, value: bytes) -> int:
        return await self.change(lambda file: file.create(path, value))

    async def put(self, path: str, value: bytes, version: int) -> int:
        return await self.change(lambda file: file.put(path, value, version))

    async def delete(self, path: str, version: int | None = None) -> None:
        await self.change(lambda file: file.delete(path, version))

    async def commit(self, changes: Sequence[Change]) -> dict[str, int]:
        return await self.change(lambda file: file.commit(changes))

    async def children(self, path: str) -> list[str]:
        return await self._call(lambda file: file.children(path))

    async def changed(self, seen: Mapping[str, int | None]) -> list[str]:
        views = [Seen(check_path(path), seen[path]) for path in sorted(seen)]
        _, differ = await self._call(lambda file: file.look(None, views))
        return [view.path for view, is_changed in zip(views, differ, strict=True) if is_changed]

    async def wait(self, path: str, version: int | None) -> None:
        await self._waits.until_changed(Seen(check_path(path), version))

    async def wait_children(self, path: str, names: list[str]) -> None:
        await self._waits.until_changed(Seen(check_parent(path), names=names))

    async def open_session(self, timeout: float) -> SqliteSession:
        session, deadline = await self.change(lambda file: file.open_session(timeout))
        if self._file is None:  # closed meanwhile: this store will not renew it
            raise self._closed_error()
        lease = SqliteSession(self, session, timeout, deadline)
        self._sessions = [each for each in self._sessions if not each.expired] + [lease]
        return lease

    async def close(self) -> None:
        try:
            while self._sessions:
                session = self._sessions.pop()
                with suppress(QuireError):  # the lease then ends when its time is up
                    await session.close()
        finally:  # also when this is cancelled: close is called only once
            await self._close_file()

    async def _close_file(self) -> None:
        file, self._file = self._file, None
        try:
            await self._waits.close(self._closed_error())
        finally:
            if file is not None:
                closing = asyncio.get_running_loop().run_in_executor(self._thread, file.close)
                self._thread.shutdown(wait=False)
                await asyncio.shield(closing)

    async def change(self, call: Callable[[SqliteFile], T]) -> T:
        """Make a call that changes the file, and wake the waiters of this process."""
        try:
            return await self._call(call)
        finally:
            self._waits.changed()

    async def _call(self, call: Callable[[SqliteFile], T]) -> T:
        if self._file is None:
            raise self._closed_error()
        return await self._in_thread(partial(call, self._file))

    def _closed_error(self) -> HandleClosedError:
        return HandleClosedError(f"metadata store {self.uri}")

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)
