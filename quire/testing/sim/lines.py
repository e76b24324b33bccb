"""Lines between simulated processes and the cluster: messages take time, get lost, come late.

A call is two messages. The first one may be lost: nothing happened. The second one may be lost as
well: the call took effect, and its caller cannot know. A line that is cut loses both, and its
callers hear after `PATIENCE_SECONDS`.

The caller of a call is the process of the task that makes it (process.py).
"""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from quire.errors import (
    BookieUnavailableError,
    StoreOutcomeUnknownError,
    StoreUnavailableError,
)
from quire.metastore.changes import Change
from quire.metastore.memory import MemorySession, MemoryStore
from quire.metastore.store import Versioned
from quire.testing.link import LineState, SwitchedBookie
from quire.testing.sim.process import NODE
from quire.testing.sim.weather import Weather
from quire.testing.store import SwitchedTree

T = TypeVar("T")

PATIENCE_SECONDS: Final = 1.0
"""A message over a line that is cut is given up after so long."""

End: TypeAlias = int | str
"""The other end of a process's line: a bookie's number, `STORE`, or another process's name."""

STORE: Final = -1
"""The metadata store."""


class Lines:
    """All lines of a world.

    Args:
        rng: the chance of messages.
        weather: how long they take.
    """

    def __init__(self, rng: random.Random, weather: Weather) -> None:
        self._rng = rng
        self.weather = weather
        self._cut: set[tuple[str, End]] = set()

    def cut(self, process: str, end: End) -> None:
        """Cut a line."""
        self._cut.add((process, end))

    def mend(self, process: str, end: End) -> None:
        """Mend a line."""
        self._cut.discard((process, end))

    def mend_all(self) -> None:
        """Mend all lines."""
        self._cut.clear()

    def is_cut(self, end: End) -> bool:
        """Return whether the process that calls is cut off."""
        node = NODE.get(None)
        return node is not None and (node.name, end) in self._cut

    async def message(self, end: End) -> bool:
        """Let a message travel; return whether it arrived."""
        await asyncio.sleep(self.weather.travel(self._rng))
        if not self.is_cut(end):
            return True
        await asyncio.sleep(PATIENCE_SECONDS)
        return False


_CALLS: Final = (
    *("add", "read", "read_tail", "wait_tail", "write_lac", "sync"),
    *("list_entries", "list_ledgers", "info"),
)
"""The calls of the `Bookie` port (quire/bookie.py)."""


class DistantBookie(SwitchedBookie):
    """A reference bookie at the end of a line."""

    def __init__(self, bookie: str, number: int, lines: Lines) -> None:
        super().__init__(bookie)
        for name in _CALLS:
            setattr(self, name, self._over(getattr(self, name), number, lines))

    def _over(
        self, call: Callable[..., Awaitable[T]], number: int, lines: Lines
    ) -> Callable[..., Awaitable[T]]:
        @functools.wraps(call)
        async def travels(*given: Any, **named: Any) -> T:
            if not await lines.message(number):
                raise BookieUnavailableError(self.bookie, "it did not answer")
            answer = await call(*given, **named)
            if not await lines.message(number):
                raise BookieUnavailableError(self.bookie, "its answer was lost")
            if self.state is LineState.DOWN:
                raise BookieUnavailableError(self.bookie, "it was killed before it answered")
            return answer

        return travels


class DistantTree(SwitchedTree):
    """The metadata store at the end of a line."""

    def __init__(self, name: str, lines: Lines) -> None:
        super().__init__(name)
        self.lines = lines
        self.sessions: dict[str, list[MemorySession]] = {}
        """By the process that opened them."""

    def open(self) -> DistantStore:  # type: ignore[override]
        """Return a new client's store."""
        return DistantStore(self)

    def expire(self, process: str) -> bool:
        """End the sessions of a process; return whether it had one."""
        found = [each for each in self.sessions.pop(process, ()) if not each.expired]
        for session in found:
            session.expire()
        return bool(found)


class DistantStore(MemoryStore):
    """A client's store over a line."""

    def __init__(self, tree: DistantTree) -> None:
        super().__init__(tree.tree)
        self._distant = tree
        self._lines = tree.lines

    @property
    def uri(self) -> str:
        """See `MetadataStore.uri`."""
        return f"memory://{self._distant.name}"

    async def _turn(self) -> None:
        await super()._turn()
        if not await self._lines.message(STORE):
            raise StoreUnavailableError(self.uri, "it did not answer")
        self._check_open()

    async def _changed(self, change: Awaitable[T], path: str) -> T:
        done = await change
        if not await self._lines.message(STORE):
            raise StoreOutcomeUnknownError(path, "the answer was lost")
        return done

    async def get(self, path: str) -> Versioned:
        """See `MetadataStore.get`."""
        found = await super().get(path)
        if not await self._lines.message(STORE):
            raise StoreUnavailableError(self.uri, "its answer was lost")
        return found

    async def create(self, path: str, value: bytes) -> int:
        """See `MetadataStore.create`."""
        return await self._changed(super().create(path, value), path)

    async def put(self, path: str, value: bytes, version: int) -> int:
        """See `MetadataStore.put`."""
        return await self._changed(super().put(path, value, version), path)

    async def delete(self, path: str, version: int | None = None) -> None:
        """See `MetadataStore.delete`."""
        await self._changed(super().delete(path, version), path)

    async def commit(self, changes: Sequence[Change]) -> dict[str, int]:
        """See `MetadataStore.commit`."""
        return await self._changed(super().commit(changes), changes[0].path)

    async def open_session(self, timeout: float) -> MemorySession:
        """See `MetadataStore.open_session`."""
        await self._turn()
        session = DistantSession(self._distant, timeout)
        self._sessions = [each for each in self._sessions if not each.expired] + [session]
        node = NODE.get(None)
        if node is not None:
            self._distant.sessions.setdefault(node.name, []).append(session)
        return session


class DistantSession(MemorySession):
    """A session that is not renewed while its line is cut."""

    def __init__(self, tree: DistantTree, timeout: float) -> None:
        super().__init__(tree.tree, timeout)
        self._lines = tree.lines

    async def create(self, path: str, value: bytes) -> int:
        """See `MetadataSession.create`."""
        return await self._travels(super().create(path, value), path)

    async def create_sequential(self, prefix: str, value: bytes) -> str:
        """See `MetadataSession.create_sequential`."""
        return await self._travels(super().create_sequential(prefix, value), prefix)

    async def _travels(self, change: Awaitable[T], path: str) -> T:
        if not await self._lines.message(STORE):
            change.close()  # type: ignore[attr-defined]
            raise StoreUnavailableError("memory:", "it did not answer")
        done = await change
        if not await self._lines.message(STORE):
            raise StoreOutcomeUnknownError(path, "the answer was lost")
        return done

    async def close(self) -> None:
        """See `MetadataSession.close`. Over a cut line the session ends when its time is up."""
        if self._lines.is_cut(STORE):
            await self.abandon()
        else:
            await super().close()

    def _renew(self) -> bool:
        if self._lines.is_cut(STORE):
            return not self.expired
        return super()._renew()
