"""One ZooKeeper session, on a client of kazoo's (made by zookeeper_client.py).

kazoo has threads; this module has no threads and no locks. A callback of kazoo's passes the news to
the event loop (`_hand_over`), and does nothing else: all decisions are made there.

Requests after the connection is lost:

    not sent yet                  waits for READY_SECONDS, then `StoreUnavailableError`
    a read                        is repeated, for READ_SECONDS in all
    a change                      is never repeated: `StoreOutcomeUnknownError`
    the session turns out over    nothing was done: `SessionExpiredError`

Reads follow a `sync` on the same connection, so they see every change confirmed before. An answer
that does not come within ANSWER_SECONDS counts as lost; kazoo sends in order, so a later read on
this connection is answered after anything it still holds.

A thread of kazoo's that dies takes its client and session along: requests under way are lost as by
a lost connection, a lease is over, the store's own connection begins again with a new client. The
same holds for a session that every server rejects, because ZooKeeper was restored from an older
copy.

A *lease* (`expires=True`) is over permanently once its session is; a lost connection also ends it
when the server was not heard of for the whole timeout: the server may have ended it by then. kazoo
notices a loss late, so the time counts from the last answer. The first look after a SIGSTOP
that was longer says so too, before any thread has had the time to notice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias

from kazoo import exceptions as kazoo_errors
from kazoo.client import KazooClient, KazooState
from kazoo.protocol.states import KeeperState

from quire.aio.backoff import Backoff
from quire.aio.retry import retry
from quire.aio.timing import time_limit
from quire.errors import (
    ConfigurationError,
    HandleClosedError,
    QuireError,
    SessionExpiredError,
    StoreOutcomeUnknownError,
    StoreUnavailableError,
)
from quire.metastore.zookeeper_client import (
    LOG,
    Complaints,
    Listening,
    make_client,
    seconds_of_silence,
    stop_client,
)
from quire.metastore.zookeeper_requests import (
    commit_async,
    first_refused,
    reason_of,
    refusal_of,
    remove_watches,
)
from quire.metastore.zookeeper_uri import ZooKeeperUri

READY_SECONDS: Final = 15.0
READ_SECONDS: Final = 15.0
READ_BACKOFF: Final = Backoff(first=0.02, last=1.0)
ANSWER_SECONDS: Final = 10.0

RENEW_SECONDS: Final = 1.0
"""Pause before a client with a dead thread is replaced: the next one may die at once of the same
cause.
"""

_LOST: Final = (
    kazoo_errors.ConnectionLoss,
    kazoo_errors.ConnectionClosedError,
    kazoo_errors.OperationTimeoutError,
    kazoo_errors.SessionExpiredError,
    kazoo_errors.SessionMovedError,
    TimeoutError,
)


Request: TypeAlias = Callable[[KazooClient], Any]
Named: TypeAlias = tuple[str, int]


@dataclass(slots=True)
class _Watch:
    """A watch on a path, from the first waiter's request until it fires."""

    fired: asyncio.Event = field(default_factory=asyncio.Event)
    waiters: int = 0


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
        self._may_be_tls = not target.options.tls
        self.granted = timeout
        self._expires = expires
        self._loop = asyncio.get_running_loop()
        self._complaints = Complaints()
        logger = Listening(self._on_complaint)
        self._make = partial(
            make_client, target.hosts, timeout, target.options, credentials, logger
        )
        self._client = self._new_client()
        self._is_connected = False
        self._refused = False
        self._changed = asyncio.Event()
        self._watched: dict[str, _Watch] = {}
        self._pending: dict[asyncio.Future[Any], None] = {}
        self._alarm: asyncio.TimerHandle | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._renewal: asyncio.TimerHandle | None = None
        self._retiring: list[asyncio.Task[None]] = []
        self._closed = False
        self._silent = False
        self.over = asyncio.Event()
        self._end_reason = "it was closed, or ZooKeeper was not heard of in time"

    async def start(self, timeout: float | None = None) -> None:
        """Connect. Raises `StoreUnavailableError`, saying why as far as it is known, when there is
        no connection within `timeout` seconds (READY_SECONDS when None).
        """
        self._client.start_async()
        try:
            await self._ready(timeout)
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
        return (await self.read_all(path, [call]))[0]

    async def read_all(self, path: str, calls: Sequence[Request]) -> list[Any]:
        """Return the answers to requests that change nothing, sent at once after one `sync`. Raises
        as `read`; errors name `path`.
        """
        try:
            once = partial(self._read_once, path, calls)
            return await retry(once, on=_LOST, backoff=READ_BACKOFF, timeout=READ_SECONDS)
        except _LOST as error:
            raise StoreUnavailableError(self._uri, reason_of(error)) from error
        except kazoo_errors.KazooException as error:
            refusal = refusal_of(self._uri, path, error, 0)
            raise refusal or StoreUnavailableError(self._uri, reason_of(error)) from error

    async def change(self, path: str, call: Request, version: int = 0) -> Any:
        """Return the answer to a request that changes something, which is sent at most once.

        Raises the port's errors; a `VersionConflictError` names `version`.
        """
        await self._ready()
        try:
            async with time_limit(ANSWER_SECONDS):
                return await self._send(call)
        except (kazoo_errors.KazooException, TimeoutError) as error:
            refusal = refusal_of(self._uri, path, error, version)
            raise refusal or StoreOutcomeUnknownError(path, reason_of(error)) from error

    async def commit(
        self, what: str, call: Callable[[KazooClient], Sequence[Any]], named: Sequence[Named]
    ) -> list[Any]:
        """Return the stats of a transaction's parts (True for a deletion), sent at most once.

        `named` gives each part's path and version for the error that says it was refused.
        """
        results = await self.change(what, lambda client: commit_async(client, call(client)))
        if (refused := first_refused(results)) is not None:
            index, error = refused
            path, version = named[index]
            refusal = refusal_of(self._uri, path, error, version)
            raise refusal or StoreUnavailableError(self._uri, reason_of(error)) from error
        return list(results)

    @contextmanager
    def watching(self, path: str) -> Iterator[asyncio.Event]:
        """Yield an event that is set when a watch on a path fires, or can no longer.

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
        """The session's id and password; another client could take the session over with them."""
        return self._client.client_id

    @property
    def is_over(self) -> bool:
        """True once a lease is known to be over; may be asked by any thread."""
        if self._expires and not self._silent:
            self._silent = seconds_of_silence(self._client) >= self.granted
            if self._silent:
                self._hand_over(self._end)
        return self._silent or self.over.is_set()

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
        if self._expires and self.is_over:
            raise SessionExpiredError(self._end_reason)
        self.check_open()

    async def _ready(self, timeout: float | None = None) -> None:
        seconds = READY_SECONDS if timeout is None else timeout
        try:
            async with time_limit(seconds):
                while not self._is_connected or self.over.is_set():
                    self._check_lease()
                    await self._changed.wait()
        except TimeoutError as error:
            complaints = self._complaints.text(may_be_tls=self._may_be_tls)
            reason = f"no connection within {seconds:g} s{complaints}"
            raise StoreUnavailableError(self._uri, reason) from error

    async def _read_once(self, path: str, calls: Sequence[Request]) -> list[Any]:
        await self._ready()
        async with time_limit(ANSWER_SECONDS):
            synced = self._send(lambda client: client.sync_async(path))
            _, *answers = await asyncio.gather(synced, *(self._send(call) for call in calls))
        return answers

    def _send(self, call: Request) -> asyncio.Future[Any]:
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._pending[answer] = None
        answer.add_done_callback(lambda _: self._pending.pop(answer))
        call(self._client).rawlink(partial(self._on_answer, answer))
        return answer

    def _on_answer(self, answer: asyncio.Future[Any], result: Any) -> None:
        self._hand_over(_settle, answer, result)

    def _on_state(self, client: KazooClient, state: str) -> None:
        self._hand_over(self._follow_state, client, state, client.client_state)

    def _on_thread_end(self, client: KazooClient, reason: str) -> None:
        self._hand_over(self._lose_client, client, f"a thread of its client died: {reason}")

    def _on_refusal(self, client: KazooClient, reason: str) -> None:
        self._hand_over(self._lose_client, client, reason)

    def _on_grant(self, seconds: float) -> None:
        self._hand_over(setattr, self, "granted", seconds)

    def _on_complaint(self, complaint: str) -> None:
        self._hand_over(self._complaints.add, complaint)

    def _hand_over(self, call: Callable[..., None], *arguments: Any) -> None:
        """All that ever happens in a thread of kazoo's."""
        with suppress(RuntimeError):  # the loop was closed: no caller waits any more
            self._loop.call_soon_threadsafe(call, *arguments)

    def _new_client(self) -> KazooClient:
        client = self._make()
        client.add_listener(partial(self._on_state, client))
        client.handler.on_end = partial(self._on_thread_end, client)
        client.handler.on_grant = self._on_grant
        client.handler.on_refusal = partial(self._on_refusal, client)
        return client

    def _lose_client(self, client: KazooClient, complaint: str) -> None:
        """End a lease, or begin again with a new client: this one cannot go on."""
        if client is not self._client or self._stopping is not None or self._refused:
            return
        self._complaints.add(complaint)
        LOG.error("%s: %s", self._uri, complaint)
        self._is_connected = False
        if self._expires:
            self._end_reason = complaint
            self._end()
        elif self._renewal is None:
            self._renewal = self._loop.call_later(RENEW_SECONDS, self._renew)
        self._wake()

    def _renew(self) -> None:
        """Begin again with a new client, and so a new session."""
        self._renewal = None
        try:
            client = self._new_client()
        except QuireError as error:  # a file of the URI's options is gone
            self._complaints.add(str(error))
            self._renewal = self._loop.call_later(RENEW_SECONDS, self._renew)
            return
        retiring = asyncio.create_task(asyncio.to_thread(stop_client, self._client))
        self._retiring = [task for task in self._retiring if not task.done()] + [retiring]
        self._client = client
        client.start_async()

    def _follow_state(self, client: KazooClient, state: str, detail: str) -> None:
        if client is not self._client or self._renewal is not None:
            return
        self._is_connected = state == KazooState.CONNECTED
        if self._is_connected:
            self._complaints.clear()
            self._may_be_tls = False
        if detail == KeeperState.AUTH_FAILED:
            self._refused = True  # kazoo does not try again
        self._cancel_alarm()
        if self._expires and state == KazooState.LOST and detail != KeeperState.CLOSED:
            self._end()  # a dying thread says "closed": its end, and the reason, comes next
        elif self._expires and state == KazooState.SUSPENDED:
            left = self.granted - seconds_of_silence(client)
            self._alarm = self._loop.call_later(min(max(left, 0.0), self.granted), self._end)
        self._wake()

    def _end(self) -> None:
        """The session is over: nothing is sent from here on, and kazoo's threads are stopped."""
        self.over.set()
        self._cancel_alarm()
        if self._renewal is not None:
            self._renewal.cancel()
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop(), name="stop of a ZooKeeper client")
        self._wake()

    async def _stop(self) -> None:
        await asyncio.to_thread(stop_client, self._client)
        await asyncio.gather(*self._retiring)

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
