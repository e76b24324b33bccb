"""Port 2 around a metadata store: tells a meter how long requests take.

Waiting for a change takes as long as nothing changes, so it is not told. Neither is a request that
its caller cancelled.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from quire.metastore.changes import Change
from quire.metastore.store import MetadataStore, Session, Versioned
from quire.metrics.meter import SILENT_METER, ClientMeter, timed

T = TypeVar("T")


def metered(store: MetadataStore, meter: ClientMeter) -> MetadataStore:
    """Return a store that tells a meter of its requests; the same store without one.

    Closing the returned store closes `store`.
    """
    return store if meter is SILENT_METER else MeteredStore(store, meter)


class MeteredStore:
    """See the module. Raises the store's errors."""

    def __init__(self, store: MetadataStore, meter: ClientMeter) -> None:
        self._store = store
        self._meter = meter

    @property
    def uri(self) -> str:
        """See `MetadataStore.uri`."""
        return self._store.uri

    async def get(self, path: str) -> Versioned:
        """See `MetadataStore.get`."""
        return await self._timed("get", self._store.get(path))

    async def create(self, path: str, value: bytes) -> int:
        """See `MetadataStore.create`."""
        return await self._timed("create", self._store.create(path, value))

    async def put(self, path: str, value: bytes, version: int) -> int:
        """See `MetadataStore.put`."""
        return await self._timed("put", self._store.put(path, value, version))

    async def delete(self, path: str, version: int | None = None) -> None:
        """See `MetadataStore.delete`."""
        await self._timed("delete", self._store.delete(path, version))

    async def commit(self, changes: Sequence[Change]) -> dict[str, int]:
        """See `MetadataStore.commit`."""
        return await self._timed("commit", self._store.commit(changes))

    async def children(self, path: str) -> list[str]:
        """See `MetadataStore.children`."""
        return await self._timed("children", self._store.children(path))

    async def changed(self, seen: Mapping[str, int | None]) -> list[str]:
        """See `MetadataStore.changed`."""
        return await self._timed("changed", self._store.changed(seen))

    async def wait(self, path: str, version: int | None) -> None:
        """See `MetadataStore.wait`."""
        await self._store.wait(path, version)

    async def wait_children(self, path: str, names: list[str]) -> None:
        """See `MetadataStore.wait_children`."""
        await self._store.wait_children(path, names)

    async def open_session(self, timeout: float) -> Session:
        """See `MetadataStore.open_session`."""
        return await self._timed("open_session", self._store.open_session(timeout))

    async def close(self) -> None:
        """See `MetadataStore.close`."""
        await self._store.close()

    async def _timed(self, request: str, asked: Awaitable[T]) -> T:
        with timed(partial(self._meter.asked_store, request)):
            return await asked
