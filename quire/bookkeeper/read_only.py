"""A metadata store that refuses every change: for clients that only read another system's cluster.

The refusal is where changes are made, so no code above has to remember that it may only read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

from quire.errors import OpenedReadOnlyError
from quire.metastore.changes import Change
from quire.metastore.store import MetadataStore, Session, Versioned


class ReadOnlyStore:
    """The store below, for reading. Implements `quire.metastore.store.MetadataStore`."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    @property
    def uri(self) -> str:
        """See `MetadataStore.uri`."""
        return self._store.uri

    def _refuse(self) -> NoReturn:
        raise OpenedReadOnlyError(self._store.uri)

    async def get(self, path: str) -> Versioned:
        """See `MetadataStore.get`."""
        return await self._store.get(path)

    async def create(self, path: str, value: bytes) -> int:
        """Refused."""
        self._refuse()

    async def put(self, path: str, value: bytes, version: int) -> int:
        """Refused."""
        self._refuse()

    async def delete(self, path: str, version: int | None = None) -> None:
        """Refused."""
        self._refuse()

    async def commit(self, changes: Sequence[Change]) -> dict[str, int]:
        """Refused."""
        self._refuse()

    async def children(self, path: str) -> list[str]:
        """See `MetadataStore.children`."""
        return await self._store.children(path)

    async def changed(self, seen: Mapping[str, int | None]) -> list[str]:
        """See `MetadataStore.changed`."""
        return await self._store.changed(seen)

    async def wait(self, path: str, version: int | None) -> None:
        """See `MetadataStore.wait`."""
        await self._store.wait(path, version)

    async def wait_children(self, path: str, names: list[str]) -> None:
        """See `MetadataStore.wait_children`."""
        await self._store.wait_children(path, names)

    async def open_session(self, timeout: float) -> Session:
        """Refused: a session is for records of one's own."""
        self._refuse()

    async def close(self) -> None:
        """See `MetadataStore.close`."""
        await self._store.close()
