"""One ZooKeeper session, on a client of kazoo's (made by zookeeper_client.py).

kazoo has threads; this module has none of its own and no locks. Whatever kazoo calls does exactly
one thing: it passes the news to the event loop (`_hand_over`). All decisions are made in the loop,
and kazoo is never called from a state listener.

What becomes of a request when the connection is lost:

    not sent yet                  waits for READY_SECONDS, then `StoreUnavailableError`
    a read                        is repeated, for READ_SECONDS in all
    a change                      is never repeated: `StoreOutcomeUnknownError`
    the session turns out over    nothing was done: `SessionExpiredError`

Reads follow a `sync` on the same connection, so they see every change confirmed before. An answer
that does not come within ANSWER_SECONDS counts as lost; kazoo sends in order, so a later read on
this connection is answered after anything it still holds.

A *lease* (`expires=True`) is over for good once its session is; it also ends itself when it was
disconnected for its whole timeout, since its owner can then no longer know better.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias

from kazoo import exceptions as kazoo_errors
from kazoo.client import KazooClient, KazooState
from kazoo.protocol.states import KeeperState
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_exponential

from quire.errors import (
    ConfigurationError,
    ConflictError,
    HandleClosedError,
    InvalidRequestError,
    NodeExistsError,
    NoSuchNodeError,
    QuireError,
    SessionExpiredError,
    StoreOutcomeUnknownError,
    StoreUnavailableError,
    VersionConflictError,
)
from quire.metastore.zookeeper_client import make_client, remove_watches
from quire.metastore.zookeeper_uri import ZooKeeperUri

READY_SECONDS: Final = 15.0
READ_SECONDS: Final = 15.0
ANSWER_SECONDS: Final = 10.0

_LOST: Final = (
    kazoo_errors.ConnectionLoss,
    kazoo_errors.ConnectionClosedError,
    kazoo_errors.OperationTimeoutError,
    kazoo_errors.SessionExpiredError,
    kazoo_errors.SessionMovedError,
    TimeoutError,
)

_LOG: Final = logging.getLogger("quire.metastore.zookeeper")
_LOG.addHandler(logging.NullHandler())

Request: TypeAlias = Callable[[KazooClient], Any]


@dataclass(slots=True)
class _Watch:
    """A watch on a path, from the first waiter's request until it fires."""

    fired: asyncio.Event = field(default_factory=asyncio.Event)
    waiters: int = 0


class _Listening(logging.LoggerAdapter[logging.Logger]):
    """kazoo's logger; passes on what kazoo warns of, which is why it cannot connect."""

    def __init__(self, on_warning: Callable[[str], None]) -> None:
        super().__init__(_LOG, {})
        self._on_warning = on_warning

    def warning(self, msg: object, *arguments: object, **options: Any) -> None:
        self._on_warning(str(msg) % arguments if arguments else str(msg))
        super().warning(msg, *arguments, **options)


class ZooKeeperConnection:
    """A client of a ZooKeeper ensemble, as the event loop sees it."""

    def __init__(
        self,
        uri: str,
        target: ZooKeeperUri,
        timeout: float,
        *,
        expires: bool,
        credentials: tuple[str, str] | None = None,
    ) -> None:
        self._uri = uri
        self._timeout = timeout
        self._expires = expires
        self._loop = asyncio.get_running_loop()
        self._complaint = ""
        self._client = make_client(
            target.hosts, timeout, target.options, credentials, _Listening(self._on_complaint)
        )
        self._client.add_listener(self._on_state)
        self._is_connected = False
        self._refused = False
        self._changed = asyncio.Event()
        self._watched: dict[str, _Watch] = {}
        self._pending: dict[asyncio.Future[Any], None] = {}
        self._alarm: asyncio.TimerHandle | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._closed = False
        self.over = asyncio.Event()

    async def start(self) -> None:
        """Connect. Raises `StoreUnavailableError` when nobody answers."""
        self._client.start_async()
        try:
            await self._ready()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End the session and kazoo's threads; harmless when called again."""
        self._closed = True
        self._end()
        if self._stopping is not None:
            await asyncio.shield(self._stopping)

    async def read(self, path: str, call: Request) -> Any:
        """Return the answer to a request that changes nothing. Raises `StoreUnavailableError` when
        none is to be had, and the port's errors.
        """
        try:
            async for attempt in AsyncRetrying(
                stop=stop_after_delay(READ_SECONDS),
                wait=wait_exponential(multiplier=0.02, max=1.0),
                retry=retry_if_exception_type(_LOST),
                reraise=True,
            ):
                with attempt:
                    return await self._read_once(path, call)
        except _LOST as error:
            raise StoreUnavailableError(self._uri, _reason(error)) from error
        except kazoo_errors.KazooException as error:
            refusal = _refusal(path, error, 0)
            raise refusal or StoreUnavailableError(self._uri, _reason(error)) from error

    async def change(self, path: str, call: Request, version: int = 0) -> Any:
        """Return the answer to a request that changes something, which is sent at most once.

        Raises the port's errors; `version` is what a `VersionConflictError` names.
        """
        await self._ready()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._send(call)
        except (kazoo_errors.KazooException, TimeoutError) as error:
            refusal = _refusal(path, error, version)
            raise refusal or StoreOutcomeUnknownError(path, _reason(error)) from error

    @contextmanager
    def watching(self, path: str) -> Iterator[asyncio.Event]:
        """Give what is set when a watch on a path fires, or can no longer.

        Enter before the request that leaves the watch. Waiters of a path share one watch; when the
        last of them leaves without it having fired, it is taken back from the server.
        """
        watch = self._watched.setdefault(path, _Watch())
        watch.waiters += 1
        try:
            yield watch.fired
        finally:
            watch.waiters -= 1
            if not watch.waiters and self._watched.get(path) is watch:
                del self._watched[path]
                # Requests are carried out in order: a watch that is left from now on stays.
                if self._is_connected and not self._closed:
                    remove_watches(self._client, path)

    def on_watch(self, event: Any) -> None:
        """Called by kazoo; the same function for all watches, so that kazoo keeps one a path."""
        self._hand_over(self._wake_watchers, event.path)

    @property
    def client_id(self) -> Any:
        """The session's id and password, with which another client could take it over."""
        return self._client.client_id

    @property
    def is_stopped(self) -> bool:
        """True once kazoo's threads are gone."""
        return self._stopping is not None and self._stopping.done()

    def check_open(self) -> None:
        """Raise `HandleClosedError` once `close` was called."""
        if self._closed:
            raise HandleClosedError(f"metadata store {self._uri}")

    def _check_lease(self) -> None:
        if self._refused:
            raise ConfigurationError(f"{self._uri}: ZooKeeper refuses our credentials")
        if self._expires and self.over.is_set():
            raise SessionExpiredError("it was closed, or ZooKeeper was not heard of in time")
        self.check_open()

    async def _ready(self) -> None:
        try:
            async with asyncio.timeout(READY_SECONDS):
                while not self._is_connected or self.over.is_set():
                    self._check_lease()
                    await self._changed.wait()
        except TimeoutError as error:
            reason = f"no connection within {READY_SECONDS} s. {self._complaint}".rstrip(". ")
            raise StoreUnavailableError(self._uri, reason) from error

    async def _read_once(self, path: str, call: Request) -> Any:
        await self._ready()
        async with asyncio.timeout(ANSWER_SECONDS):
            synced = self._send(lambda client: client.sync_async(path))
            _, answer = await asyncio.gather(synced, self._send(call))
        return answer

    def _send(self, call: Request) -> asyncio.Future[Any]:
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._pending[answer] = None
        answer.add_done_callback(lambda _: self._pending.pop(answer))
        call(self._client).rawlink(partial(self._on_answer, answer))
        return answer

    def _on_answer(self, answer: asyncio.Future[Any], result: Any) -> None:
        self._hand_over(_settle, answer, result)

    def _on_state(self, state: str) -> None:
        refused = self._client.client_state == KeeperState.AUTH_FAILED
        self._hand_over(self._follow_state, state, refused)

    def _on_complaint(self, complaint: str) -> None:
        self._hand_over(self._remember, complaint)

    def _remember(self, complaint: str) -> None:
        self._complaint = complaint

    def _hand_over(self, call: Callable[..., None], *arguments: Any) -> None:
        """All that ever happens in a thread of kazoo's."""
        with suppress(RuntimeError):  # the loop was closed: nobody waits any more
            self._loop.call_soon_threadsafe(call, *arguments)

    def _follow_state(self, state: str, refused: bool) -> None:
        self._is_connected = state == KazooState.CONNECTED
        self._refused = self._refused or refused  # kazoo does not try again
        self._cancel_alarm()
        if self._expires and state == KazooState.LOST:
            self._end()
        elif self._expires and state == KazooState.SUSPENDED:
            self._alarm = self._loop.call_later(self._timeout, self._end)
        self._wake()

    def _end(self) -> None:
        """The session is over: nothing is sent from here on, and kazoo's threads are stopped."""
        self.over.set()
        self._cancel_alarm()
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop(), name="stop of a ZooKeeper client")
        self._wake()

    async def _stop(self) -> None:
        await asyncio.to_thread(self._stop_in_thread)

    def _stop_in_thread(self) -> None:
        # kazoo complains when a server that does not answer keeps its thread busy; the thread
        # ends by itself when its connection times out.
        for step in (self._client.stop, self._client.close):
            with suppress(Exception):
                step()

    def _cancel_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
        if not self._is_connected or self.over.is_set():
            self._wake_watchers(None)
            self._give_up_pending()

    def _wake_watchers(self, path: str | None) -> None:
        """Wake the waiters of a path, or of all when a lost connection took the watches along."""
        paths = list(self._watched) if path is None else [path]
        for each in paths:
            watch = self._watched.pop(each, None)
            if watch is not None:
                watch.fired.set()

    def _give_up_pending(self) -> None:
        """Nothing that is under way now is answered, or not before a new connection stands."""
        for answer in list(self._pending):
            if not answer.done():
                answer.set_exception(kazoo_errors.ConnectionLoss("the connection was lost"))


def _settle(answer: asyncio.Future[Any], result: Any) -> None:
    if answer.done():
        return
    if result.exception is None:
        answer.set_result(result.value)
    else:
        answer.set_exception(result.exception)


def _refusal(path: str, error: BaseException, version: int) -> QuireError | None:
    """Return what a server's refusal means, None when the error is no refusal: all is possible."""
    match error:
        case kazoo_errors.ConnectionClosedError():
            return None  # a kind of SessionExpiredError to kazoo, which may hold the request yet
        case kazoo_errors.NoNodeError():
            return NoSuchNodeError(path)
        case kazoo_errors.NodeExistsError():
            return NodeExistsError(path)
        case kazoo_errors.BadVersionError():
            return VersionConflictError(path, version)
        case kazoo_errors.NotEmptyError():
            return ConflictError(f"{path} has records below it")
        case kazoo_errors.NoChildrenForEphemeralsError():
            return InvalidRequestError(f"{path} would be below an ephemeral record")
        case kazoo_errors.NoAuthError():
            return ConfigurationError(f"ZooKeeper allows no access to {path}: check its ACL")
        case kazoo_errors.AuthFailedError():
            return ConfigurationError("ZooKeeper refuses our credentials")
        case kazoo_errors.SessionExpiredError():
            return SessionExpiredError("ZooKeeper was not heard of in time")
    return None


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__} {error}".strip()
