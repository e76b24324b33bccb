"""Stores that decide by themselves which clients may change a record, and a tree that is open.

Certificates of bookies protect nothing if each client that reaches the metadata store may delete
the records of ledgers there. `exposed_records` looks at the records that all programs share,
`protect_records` gives every record the access that the store's URI asks for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, Protocol, runtime_checkable

from quire.errors import ConfigurationError, NoSuchNodeError
from quire.metastore.layout import CLIENTS, CURSORS
from quire.metastore.store import MetadataStore

ROOT: Final = "/quire"

AT_ONCE: Final = 64
"""Records that are looked at together."""


@runtime_checkable
class Protected(Protocol):
    """Port: a store with an access control of its own."""

    @property
    def servers(self) -> Sequence[str]:
        """host:port of each server."""
        ...

    @property
    def is_private(self) -> bool:
        """Whether the store's URI keeps other clients from changing records."""
        ...

    async def is_exposed(self, path: str) -> bool:
        """Return whether any client may change a record. Raises `NoSuchNodeError`."""
        ...

    async def protect(self, path: str) -> None:
        """Give a record the access that the store's URI asks for. Raises `NoSuchNodeError`, and
        `ConfigurationError` when this client may not.
        """
        ...

    async def make_place(self, path: str) -> None:
        """Make an empty record unless it is there."""
        ...


class Protection(NamedTuple):
    """The records of a tree."""

    records: int
    exposed: int
    """How many any client could change."""


async def exposed_records(store: MetadataStore) -> list[str]:
    """Return the records that any client may change, among those that all programs share.

    Raises the store's errors.
    """
    if not isinstance(store, Protected):
        return []
    paths = [ROOT, *[f"{ROOT}/{name}" for name in await store.children(ROOT)]]
    return [each for each in paths if await _is_exposed(store, each)]


async def protect_records(
    store: MetadataStore,
    on_progress: Callable[[int], None] = lambda done: None,
    *,
    is_dry: bool = False,
) -> Protection:
    """Give every record the access that the store's URI asks for, parents first.

    Also makes the places where readers make records of their own.

    Args:
        store: a store with an access control.
        on_progress: told of the number of records done so far.
        is_dry: only look.

    Returns:
        The number of records, and of those that any client could change before.

    Raises:
        ConfigurationError: the store has no access control, its URI asks for none, or this client
            may not change a record.
        QuireError: the store's errors.

    Cancellation: repeat the call.
    """
    if not isinstance(store, Protected):
        raise ConfigurationError(
            f"metadata store {store.uri} has no access control of its own: the permissions of its "
            "files protect it"
        )
    if not is_dry and store.is_private:
        for path in (ROOT, CLIENTS, CURSORS):
            await store.make_place(path)
    records = exposed = 0
    async for paths in _levels(store):
        found = await asyncio.gather(*(_is_exposed(store, each) for each in paths))
        if not is_dry:
            await asyncio.gather(*(_protect(store, each) for each in paths))
        records, exposed = records + len(paths), exposed + sum(found)
        on_progress(records)
    return Protection(records, exposed)


async def _levels(store: MetadataStore) -> AsyncGenerator[list[str], None]:
    """Yield all paths, some at a time, each after its parent."""
    waiting = [ROOT]
    while waiting:
        paths, waiting = waiting[:AT_ONCE], waiting[AT_ONCE:]
        yield paths
        below = await asyncio.gather(*map(store.children, paths))
        waiting = [
            *[f"{path}/{name}" for path, names in zip(paths, below, strict=True) for name in names],
            *waiting,
        ]


async def _is_exposed(store: Protected, path: str) -> bool:
    """A record whose ACL we may not see is one of others', and not open."""
    with suppress(NoSuchNodeError, ConfigurationError):
        return await store.is_exposed(path)
    return False


async def _protect(store: Protected, path: str) -> None:
    with suppress(NoSuchNodeError):
        await store.protect(path)
