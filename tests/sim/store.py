"""A metadata store at the far end of a bad connection.

`WatchedTree` is the truth (production's `MemoryTree`) and tells a listener of every change. Its
versions are those of a ZooKeeper, which start anew where an older copy is put back (versions.py).
`SimStore` is one client of it. Each call travels there and back: it may be lost on the way (nothing
changed: `StoreUnavailableError`), or its answer may be lost (`StoreOutcomeUnknownError`, applied or
not). One client's calls take effect in the order they were made, so whoever re-reads after an
unknown outcome sees how it ended; reads are linearizable (T1, T3). Watches come late, for nothing,
or give up.

A session lives while its heartbeats arrive; it may also be expired by decree. Its owner hears late.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from quire.errors import (
    HandleClosedError,
    QuireError,
    SessionExpiredError,
    StoreOutcomeUnknownError,
    StoreUnavailableError,
)
from quire.metastore import versions
from quire.metastore.changes import Change, check_changes, describe
from quire.metastore.memory import MemoryTree
from quire.metastore.store import Versioned
from quire.testing.sim.loop import SimLoop
from quire.testing.sim.process import Incarnation
from tests.sim.network import Network, settle

T = TypeVar("T")

WATCH_LATE_SECONDS = 0.3

STORE = "store"
"""The store's name in the network: cuts use it."""


@dataclass
class StoreWeather:
    """Probabilities per call."""

    unavailable: float = 0.0
    unknown: float = 0.0
    """A change whose answer is lost; half of them were applied."""
    spurious_wake: float = 0.0
    watch_lost: float = 0.0
    watch_late: float = 0.0
    """Probability that the news of a watch takes `WATCH_LATE_SECONDS`, on average, to arrive."""


class Watch:
    """Somebody who waits until a condition on the tree holds; told once."""

    __slots__ = ("condition", "tell")

    def __init__(self, condition: Callable[[], bool], tell: Callable[[], None]) -> None:
        self.condition = condition
        self.tell = tell


class Edits(NamedTuple):
    """What ZooKeeper says of a record's life."""

    created: int
    edits: int
    changed_ms: int


@dataclass(frozen=True)
class Snapshot:
    """A copy of a tree."""

    records: dict[str, bytes]
    edits: dict[str, Edits]
    changes: int


class WatchedTree(MemoryTree):
    """The tree, and a listener that is told (path, value or None, version) of every change.

    Watches cost no task: they are looked at once after each change and each expiry.
    """

    def __init__(self) -> None:
        super().__init__()
        self.listeners: list[Callable[[str, bytes | None, int], None]] = []
        self._edits: dict[str, Edits] = {}
        self._changes = 0
        self._lost_ms = 0
        self._watches: list[Watch] = []
        self._is_looking = False
        self._reaper: asyncio.Handle | None = None

    def watch(self, watch: Watch) -> None:
        """Tell a watch when its condition holds; at once if it does."""
        if watch.condition():
            watch.tell()
        else:
            self._watches.append(watch)

    def unwatch(self, watch: Watch) -> None:
        """Forget a watch; harmless when it was told."""
        if watch in self._watches:
            self._watches.remove(watch)

    def wake(self) -> None:
        super().wake()
        if self._watches and not self._is_looking:
            self._is_looking = True
            loop = _loop()
            loop.call_soon(self._look, context=loop.root.context)

    def _look(self) -> None:
        self._is_looking = False
        due = [watch for watch in self._watches if watch.condition()]
        for watch in due:
            self.unwatch(watch)
            watch.tell()

    def open_session(self, timeout: float) -> int:
        session = super().open_session(timeout)
        self._arm_reaper()
        return session

    def _arm_reaper(self) -> None:
        """See that a session that is not renewed ends in time, whether anybody looks or not."""
        if self._reaper is None and self._deadlines:
            loop = _loop()
            when = min(self._deadlines.values())
            self._reaper = loop.call_at(when, self._reap_due, context=loop.root.context)

    def _reap_due(self) -> None:
        self._reaper = None
        self._reap()
        self._arm_reaper()

    def put(self, path: str, value: bytes, version: int) -> int:
        super().put(path, value, version)
        before = self._edits[path]
        return self._stamp(path, before._replace(edits=before.edits + 1))

    def _insert(self, path: str, value: bytes, owner: int | None) -> int:
        super()._insert(path, value, owner)
        return self._stamp(path, Edits(self._changes + 1, 0, 0))

    def _stamp(self, path: str, edits: Edits) -> int:
        """Give a record that was changed now its version."""
        self._changes += 1
        now_ms = int(1000 * _loop().time()) + self._lost_ms
        self._edits[path] = edits._replace(changed_ms=now_ms)
        record = self._records[path]
        record.version = versions.join_version(*self._edits[path])
        self._tell(path, record.value, record.version)
        return record.version

    def _remove(self, path: str) -> None:
        super()._remove(path)
        self._tell(path, None, self._revision)

    def _tell(self, path: str, value: bytes | None, version: int) -> None:
        for listener in self.listeners:
            listener(path, value, version)

    def snapshot(self) -> Snapshot:
        """Return all that a copy has: records of sessions are not among it."""
        lasting = {path: each.value for path, each in self._records.items() if each.owner is None}
        records = {path: value for path, value in lasting.items() if path != "/"}
        return Snapshot(records, {path: self._edits[path] for path in records}, self._changes)

    def put_back(self, copy: Snapshot, changes: Mapping[str, bytes]) -> None:
        """Hold what a copy has and no more, and no session; then change some records. Listeners
        are not told.

        Changes are counted on from the copy, so what counts them comes again. The clock goes on.
        """
        listeners, self.listeners = self.listeners, []
        self._deadlines.clear()
        self._records = {"/": self._records["/"]}
        self._records["/"].names.clear()
        self._changes, self._edits = copy.changes, {}
        self._lost_ms += 1  # it took some time
        for path, value in sorted(copy.records.items()):
            super()._insert(path, value, None)
            self._edits[path] = copy.edits[path]
            self._records[path].version = versions.join_version(*copy.edits[path])
        for path, value in sorted(changes.items()):
            if path in self._records:
                self.put(path, value, self._records[path].version)
            else:
                self.create(path, value)
        self.listeners = listeners
        self.wake()

    def sessions(self) -> list[int]:
        """The sessions that are alive, oldest first."""
        return sorted(self._deadlines)


class SimStore:
    """One client's view of the tree. Implements `MetadataStore`."""

    def __init__(
        self, network: Network, tree: WatchedTree, client: Incarnation, weather: StoreWeather
    ) -> None:
        self._network = network
        self._tree = tree
        self._client = client
        self._weather = weather
        self._last_arrival = 0.0
        self._closed = False
        self._sessions: list[SimSession] = []

    @property
    def uri(self) -> str:
        return "memory:"

    async def get(self, path: str) -> Versioned:
        return await self.call(path, lambda: self._tree.get(path), changes=False)

    async def create(self, path: str, value: bytes) -> int:
        return await self.call(path, lambda: self._tree.create(path, value))

    async def put(self, path: str, value: bytes, version: int) -> int:
        return await self.call(path, lambda: self._tree.put(path, value, version))

    async def delete(self, path: str, version: int | None = None) -> None:
        return await self.call(path, lambda: self._tree.delete(path, version))

    async def commit(self, changes: Sequence[Change]) -> dict[str, int]:
        check_changes(changes)
        return await self.call(describe(changes), lambda: self._tree.commit(changes))

    async def children(self, path: str) -> list[str]:
        return await self.call(path, lambda: self._tree.children(path), changes=False)

    async def changed(self, seen: Mapping[str, int | None]) -> list[str]:
        return await self.call("changed", lambda: self._tree.changed(seen), changes=False)

    async def wait(self, path: str, version: int | None) -> None:
        await self._wait(lambda: self._tree.version(path) != version)

    async def wait_children(self, path: str, names: list[str]) -> None:
        await self._wait(lambda: self._tree.children(path) != names)

    async def open_session(self, timeout: float) -> SimSession:
        session = await self.call("session", lambda: self._tree.open_session(timeout))
        opened = SimSession(self, self._tree, session, timeout)
        self._sessions.append(opened)
        return opened

    async def close(self) -> None:
        self._closed = True
        while self._sessions:
            await self._sessions.pop().close()

    async def call(self, path: str, operate: Callable[[], T], *, changes: bool = True) -> T:
        """Carry one call to the tree and its answer back."""
        if self._closed:
            raise HandleClosedError(f"metadata store {self.uri}")
        network = self._network
        reply: asyncio.Future[T] = network.loop.create_future()
        fate = self._draw_fate(changes)
        now = network.loop.time()
        self._last_arrival = max(self._last_arrival, now + network.delay())
        network.later(self._last_arrival - now, self._apply, reply, path, operate, changes, fate)
        return await reply

    def _draw_fate(self, changes: bool) -> str:
        chance, weather = self._network.chance, self._weather
        if chance(weather.unavailable):
            self._network.counters["store unavailable"] += 1
            return "unavailable"
        if changes and chance(weather.unknown):
            applied = chance(0.5)
            self._network.counters["store change lost" if not applied else "store answer lost"] += 1
            return "applied" if applied else "lost"
        return "well"

    def _apply(
        self,
        reply: asyncio.Future[T],
        path: str,
        operate: Callable[[], T],
        changes: bool,
        fate: str,
    ) -> None:
        network = self._network
        cut = network.is_cut(self._client.name, STORE)
        if fate == "unavailable" or cut:
            self._answer_later(reply, self._unavailable("connection refused"), slow=cut)
            return
        unknown = StoreOutcomeUnknownError(path, "connection lost")
        if fate == "lost":
            self._answer_later(reply, unknown, slow=True)
            return
        outcome: Any
        try:
            outcome = operate()
        except QuireError as error:
            outcome = error
        back_cut = network.is_cut(STORE, self._client.name)
        if fate == "applied" or back_cut:
            outcome = unknown if changes else self._unavailable("connection lost")
        self._answer_later(reply, outcome, slow=back_cut)

    def _unavailable(self, reason: str) -> StoreUnavailableError:
        return StoreUnavailableError(self.uri, reason)

    def _answer_later(self, reply: asyncio.Future[Any], outcome: Any, *, slow: bool) -> None:
        network = self._network
        delay = network.delay() + (network.rng.random() * 1.5 if slow else 0.0)
        network.later(delay, settle, reply, outcome)

    async def _wait(self, condition: Callable[[], bool]) -> None:
        if self._closed:
            raise HandleClosedError(f"metadata store {self.uri}")
        network, tree = self._network, self._tree
        reply: asyncio.Future[None] = network.loop.create_future()
        watch = Watch(condition, lambda: self._send_news(reply))
        armed = network.later(network.delay(), tree.watch, watch)
        self._disturb(reply)
        try:
            await reply
        finally:
            armed.cancel()
            tree.unwatch(watch)

    def _send_news(self, reply: asyncio.Future[None]) -> None:
        network, delay = self._network, self._network.delay()
        if network.chance(self._weather.watch_late):
            network.counters["watch late"] += 1
            delay += network.rng.expovariate(1 / WATCH_LATE_SECONDS)
        network.later(delay, self._deliver, reply)

    def _deliver(self, reply: asyncio.Future[None]) -> None:
        """Bring a client the news of a watch, when the way back is free."""
        network = self._network
        if not reply.done() and network.is_cut(STORE, self._client.name):
            network.later(network.retry_delay(), self._deliver, reply)
        else:
            settle(reply, None)

    def _disturb(self, reply: asyncio.Future[None]) -> None:
        network = self._network
        if network.chance(self._weather.watch_lost):
            network.counters["watch lost"] += 1
            lost = self._unavailable("watch lost")
            network.later(network.rng.random() * 2, settle, reply, lost)
        elif network.chance(self._weather.spurious_wake):
            network.counters["spurious wake"] += 1
            network.later(network.rng.random(), settle, reply, None)


def _loop() -> SimLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimLoop)
    return loop


class SimSession:
    """A lease kept alive by heartbeats across the network. Implements `Session`."""

    def __init__(self, store: SimStore, tree: WatchedTree, number: int, timeout: float) -> None:
        self._store = store
        self._tree = tree
        self._number = number
        self._timeout = timeout
        self._over = asyncio.Event()
        self._heartbeat = asyncio.create_task(self._beat(), name="session heartbeat")

    @property
    def expired(self) -> bool:
        return self._over.is_set()

    async def wait_expired(self) -> None:
        await self._over.wait()

    async def create(self, path: str, value: bytes) -> int:
        return await self._call(path, lambda: self._tree.create(path, value, self._number))

    async def create_sequential(self, prefix: str, value: bytes) -> str:
        return await self._call(
            prefix, lambda: self._tree.create_sequential(prefix, value, self._number)
        )

    async def close(self) -> None:
        """End the session; when the store cannot be reached it ends by itself in time."""
        self._heartbeat.cancel()
        await asyncio.gather(self._heartbeat, return_exceptions=True)
        if not self._over.is_set():
            self._over.set()
            try:
                await self._store.call("session", lambda: self._tree.end_session(self._number))
            except (StoreUnavailableError, StoreOutcomeUnknownError, HandleClosedError):
                return

    async def _call(self, path: str, operate: Callable[[], T]) -> T:
        if self._over.is_set():
            raise SessionExpiredError("it is over")
        try:
            return await self._store.call(path, operate)
        except SessionExpiredError:
            self._over.set()
            raise

    async def _beat(self) -> None:
        alive = True
        while alive:
            await asyncio.sleep(self._timeout / 3)
            try:
                alive = await self._store.call(
                    "session", lambda: self._tree.renew(self._number, self._timeout)
                )
            except (StoreUnavailableError, StoreOutcomeUnknownError):
                continue
        self._over.set()
