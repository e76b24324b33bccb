"""A metadata store that fails on demand: a client of a real one, with a bad line in between.

`before` and `after` are called around every call that reads or changes (not around waits) with the
method's name and the path, and may raise or wait: `before` raising `StoreUnavailableError` is a
refusal, `after` raising `StoreOutcomeUnknownError` a lost answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from quire.metastore.changes import Change
from quire.metastore.store import MetadataStore, Session, Versioned

T = TypeVar("T")
Hook: TypeAlias = Callable[[str, str], Awaitable[None]]


async def _nothing(method: str, path: str) -> None:
    return None


class FaultySession:
    """A session behind the bad line."""

    def __init__(self, store: FaultyStore, inner: Session) -> None:
        self._store = store
        self.inner = inner

    async def create(self, path: str, value: bytes) -> int:
        return await self._store.around("session.create", path, self.inner.create(path, value))

    async def create_sequential(self, prefix: str, value: bytes) -> str:
        call = self.inner.create_sequential(prefix, value)
        return await self._store.around("session.create_sequential", prefix, call)

    @property
    def expired(self) -> bool:
        return self.inner.expired

    async def wait_expired(self) -> None:
        await self.inner.wait_expired()

    async def close(self) -> None:
        await self.inner.close()


class FaultyStore:
    """A store behind a bad line."""

    def __init__(self, inner: MetadataStore) -> None:
        self.inner = inner
        self.before: Hook = _nothing
        self.after: Hook = _nothing
        self.sessions: list[FaultySession] = []

    @property
    def uri(self) -> str:
        return self.inner.uri

    async def get(self, path: str) -> Versioned:
        return await self.around("get", path, self.inner.get(path))

    async def create(self, path: str, value: bytes) -> int:
        return await self.around("create", path, self.inner.create(path, value))

    async def put(self, path: str, value: bytes, version: int) -> int:
        return await self.around("put", path, self.inner.put(path, value, version))

    async def delete(self, path: str, version: int | None = None) -> None:
        await self.around("delete", path, self.inner.delete(path, version))

    async def commit(self, changes: Sequence[Change]) -> dict[str, int]:
        """The hooks see the path of the first change."""
        path = changes[0].path if changes else ""
        return await self.around("commit", path, self.inner.commit(changes))

    async def children(self, path: str) -> list[str]:
        return await self.around("children", path, self.inner.children(path))

    async def changed(self, seen: Mapping[str, int | None]) -> list[str]:
        """The hooks see the first path."""
        return await self.around("changed", next(iter(seen), ""), self.inner.changed(seen))

    async def wait(self, path: str, version: int | None) -> None:
        await self.inner.wait(path, version)

    async def wait_children(self, path: str, names: list[str]) -> None:
        await self.inner.wait_children(path, names)

    async def open_session(self, timeout: float) -> FaultySession:
        inner = await self.around("open_session", "", self.inner.open_session(timeout))
        session = FaultySession(self, inner)
        self.sessions.append(session)
        return session

    async def close(self) -> None:
        await self.inner.close()

    async def around(self, method: str, path: str, call: Awaitable[T]) -> T:
        try:
            await self.before(method, path)
        except BaseException:
            if hasattr(call, "close"):
                call.close()
            raise
        result = await call
        await self.after(method, path)
        return result
