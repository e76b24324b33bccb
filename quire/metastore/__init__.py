"""The metadata store: a port (`store.py`), its implementations, and the URIs that name them.

memory:                          a tree of its own, gone with its client
memory://name                    a tree that this process offers (shared.py)
sqlite:///abs/path/metadata.db   a file shared by the processes of one machine
zk://h1:2181,h2:2181/root        ZooKeeper; everything lives below /root, which is made as needed

Read `store.py` (the port), `memory.py` (its reference, in few lines), `layout.py`, `record.py` and
`changes.py` with `changing.py` (paths, envelope and changes of records), then `sqlite*.py`,
`versions.py` and `zookeeper*.py`.
`cluster.py`, `registration.py` and `place.py` are records and the way to them.

May import: quire.aio, values. Never: any other package.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final

from quire.aio.timing import time_limit
from quire.errors import ConfigurationError, StoreUnavailableError
from quire.extras import needed_for
from quire.metastore.memory import MemoryStore
from quire.metastore.shared import SCHEME, open_shared
from quire.metastore.store import MetadataStore

__all__ = ["create_store", "open_store"]

_FORMS: Final = "memory:, sqlite:///abs/path/metadata.db or zk://host:2181,host:2181/root"


async def open_store(uri: str, *, timeout: float | None = None) -> MetadataStore:
    """Open the metadata store that a URI names; the caller closes it.

    A SQLite file must exist: a mistyped path would be an empty cluster. Raises
    `ConfigurationError` for a URI of another form or a store that cannot be used, and
    `StoreUnavailableError`, saying why, when it cannot be reached within `timeout` seconds (when
    None, in the time that the store takes for granted: 5 s for a lock, 15 s for a connection).
    """
    path = _sqlite_path(uri)
    if path is None:
        return await _open_other(uri, timeout)
    from quire.metastore.sqlite import SqliteStore

    return await _in_time(uri, SqliteStore.open(path), timeout)


async def create_store(uri: str, *, timeout: float | None = None) -> MetadataStore:
    """Open the metadata store that a URI names, creating a SQLite file that does not exist.

    For the commands that begin a cluster. Raises as `open_store`.
    """
    path = _sqlite_path(uri)
    if path is None:
        return await _open_other(uri, timeout)
    from quire.metastore.sqlite import SqliteStore

    return await _in_time(uri, SqliteStore.open_or_create(path), timeout)


async def _open_other(uri: str, timeout: float | None) -> MetadataStore:
    scheme, separator, rest = uri.partition("://")
    if uri == "memory:":
        return MemoryStore()
    if separator and scheme == SCHEME and rest:
        return open_shared(rest)
    if separator and scheme == "zk" and rest:
        with needed_for(f"metadata store {uri}", "zookeeper"):
            from quire.metastore.zookeeper import ZooKeeperStore
        return await ZooKeeperStore.open(uri, timeout)
    raise ConfigurationError(f"{uri!r} names no metadata store: it must be {_FORMS}")


async def _in_time(
    uri: str, opening: Coroutine[Any, Any, MetadataStore], timeout: float | None
) -> MetadataStore:
    try:
        async with time_limit(timeout):
            return await opening
    except TimeoutError:
        reason = f"it did not answer within {timeout:g} s: it is locked, or its disk is slow"
        raise StoreUnavailableError(uri, reason) from None


def _sqlite_path(uri: str) -> str | None:
    scheme, _, path = uri.partition("://")
    return path if scheme == "sqlite" and _is_file(path) else None


def _is_file(path: str) -> bool:
    return path.startswith("/") and not path.endswith("/") and "\0" not in path
