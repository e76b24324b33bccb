"""The reference metadata store: the port's law in as few lines as possible, held in memory.

`MemoryTree` is the data of a server; any number of `MemoryStore` clients of one event loop
share it. Every call is atomic and yields to the loop once before it takes effect, so that callers
meet interleavings here too.

Invariants: the version of a record is the number of the change that made it, counted over the
whole tree, so no two changes ever share a version, not even across delete and create. A session is
over when its deadline has passed, even if no call was made since: there is no timer, every call
first reaps overdue sessions.

Time is the event loop; nothing here leaves it, so the simulator runs this as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from quire.aio.tasks import Tasks
from quire.aio.timing import time_limit
from quire.errors import (
    ConflictError,
    HandleClosedError,
    InvalidRequestError,
    NodeExistsError,
    NoSuchNodeError,
    SessionExpiredError,
    VersionConflictError,
)
from quire.metastore.changes import Absent, Change, Check, Create, Put, check_changes
from quire.metastore.layout import (
    SEQUENCE_DIGITS,
    ancestors,
    check_parent,
    check_path,
    check_value,
    name_of,
    parent_of,
)
from quire.metastore.store import Versioned

SessionId: TypeAlias = int

HEARTBEATS_PER_TIMEOUT: Final = 3


@dataclass(slots=True)
class _Node:
    value: bytes
    version: int
    written_ms: int | None = None
    owner: SessionId | None = None
    names: set[str] = field(default_factory=set)
    next_sequence: int = 0


class MemoryTree:
    """The records and sessions that clients share. All methods are synchronous and atomic."""

    def __init__(self) -> None:
        self._records = {"/": _Node(b"", 0)}
        self._deadlines: dict[SessionId, float] = {}
        self._revision = 0
        self._changed = asyncio.Event()
        self.clock: Callable[[], float] | None = None
        """Seconds (Unix), if this store is to have a clock of its own."""

    def get(self, path: str) -> Versioned:
        record = self._record(path)
        return Versioned(record.value, record.version, record.written_ms)

    def create(self, path: str, value: bytes, owner: SessionId | None = None) -> int:
        self._check_owner(owner)
        check_value(path, value)
        if check_path(path) in self._records:
            raise NodeExistsError(path)
        missing = [parent for parent in ancestors(path) if parent not in self._records]
        above = parent_of(missing[0]) if missing else parent_of(path)
        if self._records[above].owner is not None:
            raise InvalidRequestError(f"{above} is ephemeral and can have no records below it")
        for parent in missing:
            self._insert(parent, b"", None)
        return self._insert(path, value, owner)

    def create_sequential(self, prefix: str, value: bytes, owner: SessionId) -> str:
        parent = self._records.get(parent_of(prefix))
        sequence = 0 if parent is None else parent.next_sequence
        path = f"{prefix}{sequence:0{SEQUENCE_DIGITS}d}"
        self.create(path, value, owner)
        self._records[parent_of(path)].next_sequence = sequence + 1
        return path

    def put(self, path: str, value: bytes, version: int) -> int:
        record = self._record(path)
        if record.version != version:
            raise VersionConflictError(path, version)
        record.value = check_value(path, value)
        record.version, record.written_ms = self._next_revision(), self._now_ms()
        return record.version

    def check(self, path: str, version: int) -> None:
        if self._record(path).version != version:
            raise VersionConflictError(path, version)

    def delete(self, path: str, version: int | None) -> None:
        record = self._record(path)
        if version is not None and record.version != version:
            raise VersionConflictError(path, version)
        if record.names:
            raise ConflictError(f"{path} has {len(record.names)} records below it")
        self._remove(path)

    def commit(self, changes: Sequence[Change]) -> dict[str, int]:
        check_changes(changes)
        self._reap()
        self._part_of([change.path for change in changes])._commit(changes)
        return self._commit(changes)

    def children(self, path: str) -> list[str]:
        self._reap()
        record = self._records.get(check_parent(path))
        return sorted(record.names) if record else []

    def version(self, path: str) -> int | None:
        """Return the version of a record, None if it does not exist."""
        self._reap()
        record = self._records.get(check_path(path))
        return record.version if record else None

    def changed(self, seen: Mapping[str, int | None]) -> list[str]:
        """Return the paths, sorted, that are not at the version seen."""
        return sorted(path for path, version in seen.items() if self.version(path) != version)

    def open_session(self, timeout: float) -> SessionId:
        session = self._next_revision()
        self._deadlines[session] = asyncio.get_running_loop().time() + timeout
        return session

    def renew(self, session: SessionId, timeout: float) -> bool:
        """Move a session's deadline on; False when it is over. A session that is over stays so."""
        if not self.is_alive(session):
            return False
        self._deadlines[session] = asyncio.get_running_loop().time() + timeout
        return True

    def is_alive(self, session: SessionId) -> bool:
        self._reap()
        return session in self._deadlines

    def deadline(self, session: SessionId) -> float | None:
        """Return when a session ends, None when it is over. Changes nothing: any thread may ask."""
        return self._deadlines.get(session)

    def end_session(self, session: SessionId) -> None:
        """End a session and remove its ephemeral records; harmless when it is over."""
        if self._deadlines.pop(session, None) is None:
            return
        self._next_revision()
        owned = [path for path, record in self._records.items() if record.owner == session]
        for path in owned:
            self._remove(path)

    def end_sessions(self) -> None:
        """End every session, as if none had been renewed in time."""
        for session in sorted(self._deadlines):
            self.end_session(session)

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        """Return when `condition` holds; it is looked at after every change and expiry."""
        while not condition():
            changed = self._changed
            ends = min(self._deadlines.values(), default=None)
            left = None if ends is None else ends - asyncio.get_running_loop().time()
            with suppress(TimeoutError):
                async with time_limit(left):
                    await changed.wait()

    def wake(self) -> None:
        """Make every waiter look at its condition."""
        self._changed.set()
        self._changed = asyncio.Event()

    def _commit(self, changes: Sequence[Change]) -> dict[str, int]:
        versions: dict[str, int] = {}
        for change in changes:
            if isinstance(change, Create):
                versions[change.path] = self.create(change.path, change.value)
            elif isinstance(change, Put):
                versions[change.path] = self.put(change.path, change.value, change.version)
            elif isinstance(change, Check):
                self.check(change.path, change.version)
            elif isinstance(change, Absent):
                if change.path in self._records:
                    raise NodeExistsError(change.path)
            else:
                self.delete(change.path, change.version)
        return versions

    def _part_of(self, paths: Sequence[str]) -> MemoryTree:
        """Return a copy of the records that some changes depend on, to try the changes unseen."""
        part = MemoryTree()
        above = [parent for path in paths for parent in ancestors(path)]
        for path in ("/", *above, *paths):
            if (record := self._records.get(path)) is not None:
                part._records[path] = replace(record, names=set(record.names))
        return part

    def _record(self, path: str) -> _Node:
        self._reap()
        record = self._records.get(check_path(path))
        if record is None:
            raise NoSuchNodeError(path)
        return record

    def _check_owner(self, owner: SessionId | None) -> None:
        self._reap()
        if owner is not None and owner not in self._deadlines:
            raise SessionExpiredError("it was not renewed in time")

    def _reap(self) -> None:
        if not self._deadlines:
            return  # also before a loop runs
        now = asyncio.get_running_loop().time()
        for session in [each for each, deadline in self._deadlines.items() if deadline <= now]:
            self.end_session(session)

    def _insert(self, path: str, value: bytes, owner: SessionId | None) -> int:
        self._records[path] = _Node(value, self._next_revision(), self._now_ms(), owner)
        self._records[parent_of(path)].names.add(name_of(path))
        return self._revision

    def _remove(self, path: str) -> None:
        self._next_revision()
        del self._records[path]
        self._records[parent_of(path)].names.discard(name_of(path))

    def _now_ms(self) -> int | None:
        return None if self.clock is None else int(1000 * self.clock())

    def _next_revision(self) -> int:
        self._revision += 1
        self.wake()
        return self._revision


class MemorySession:
    """A lease on a `MemoryTree`, renewed by a task of its client until it is closed."""

    def __init__(self, tree: MemoryTree, timeout: float) -> None:
        self._tree = tree
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._session = tree.open_session(timeout)
        self._tasks = Tasks()
        self._tasks.start(self._beat(), "memory session heartbeat")

    async def create(self, path: str, value: bytes) -> int:
        await asyncio.sleep(0)
        return self._tree.create(path, value, self._session)

    async def create_sequential(self, prefix: str, value: bytes) -> str:
        await asyncio.sleep(0)
        return self._tree.create_sequential(prefix, value, self._session)

    @property
    def expired(self) -> bool:
        deadline = self._tree.deadline(self._session)
        return deadline is None or deadline <= self._loop.time()

    async def wait_expired(self) -> None:
        await self._tree.wait_until(lambda: not self._tree.is_alive(self._session))

    async def close(self) -> None:
        self.expire()
        await self.abandon()

    def expire(self) -> None:
        """End the session as the server would: the owner was not heard of. For tests."""
        self._tree.end_session(self._session)

    async def abandon(self) -> None:
        """Stop renewing, as a process that dies does; the session ends when its time is up."""
        await self._tasks.stop()

    async def _beat(self) -> None:
        alive = True
        while alive:
            await asyncio.sleep(self._timeout / HEARTBEATS_PER_TIMEOUT)
            alive = self._renew()

    def _renew(self) -> bool:
        """Return whether the session goes on."""
        return self._tree.renew(self._session, self._timeout)


class MemoryStore:
    """One client of a tree; with none given, of a tree of its own."""

    def __init__(self, tree: MemoryTree | None = None) -> None:
        self.tree = tree or MemoryTree()
        self._sessions: list[MemorySession] = []
        self._closed = False

    @property
    def uri(self) -> str:
        return "memory:"

    async def get(self, path: str) -> Versioned:
        await self._turn()
        return self.tree.get(path)

    async def create(self, path: str, value: bytes) -> int:
        await self._turn()
        return self.tree.create(path, value)

    async def put(self, path: str, value: bytes, version: int) -> int:
        await self._turn()
        return self.tree.put(path, value, version)

    async def delete(self, path: str, version: int | None = None) -> None:
        await self._turn()
        self.tree.delete(path, version)

    async def commit(self, changes: Sequence[Change]) -> dict[str, int]:
        await self._turn()
        return self.tree.commit(changes)

    async def children(self, path: str) -> list[str]:
        await self._turn()
        return self.tree.children(path)

    async def changed(self, seen: Mapping[str, int | None]) -> list[str]:
        await self._turn()
        return self.tree.changed(seen)

    async def wait(self, path: str, version: int | None) -> None:
        await self._turn()
        await self.tree.wait_until(lambda: self._closed or self.tree.version(path) != version)
        self._check_open()

    async def wait_children(self, path: str, names: list[str]) -> None:
        await self._turn()
        await self.tree.wait_until(lambda: self._closed or self.tree.children(path) != names)
        self._check_open()

    async def open_session(self, timeout: float) -> MemorySession:
        await self._turn()
        session = MemorySession(self.tree, timeout)
        self._sessions = [each for each in self._sessions if not each.expired] + [session]
        return session

    async def close(self) -> None:
        self._closed = True
        self.tree.wake()
        while self._sessions:
            await self._sessions.pop().close()

    async def _turn(self) -> None:
        """Let others run first, as a round trip would."""
        self._check_open()
        await asyncio.sleep(0)
        self._check_open()

    def _check_open(self) -> None:
        if self._closed:
            raise HandleClosedError(f"metadata store {self.uri}")
