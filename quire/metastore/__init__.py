"""The metadata store: a port (`store.py`), its implementations, and the URIs that name them.

memory:                          a tree of its own, gone with its client
memory://name                    a tree that this process offers (shared.py)
sqlite:///abs/path/metadata.db   a file shared by the processes of one machine
zk://h1:2181,h2:2181/root        ZooKeeper; everything lives below /root, which is made as needed
"""

from __future__ import annotations

from typing import Final

from quire.errors import ConfigurationError, StoreUnavailableError
from quire.metastore.memory import MemoryStore
from quire.metastore.shared import SCHEME, open_shared
from quire.metastore.store import MetadataStore
from quire.timing import time_limit

__all__ = ["open_store"]

_FORMS: Final = "memory:, sqlite:///abs/path/metadata.db or zk://host:2181,host:2181/root"


async def open_store(uri: str, *, timeout: float | None = None) -> MetadataStore:
    """Open the metadata store that a URI names; the caller closes it.

    Raises `ConfigurationError` for a URI of another form or a store that cannot be used, and
    `StoreUnavailableError`, saying why, when it cannot be reached within `timeout` seconds (when
    None, in the time that the store takes for granted: 5 s for a lock, 15 s for a connection).
    """
    scheme, separator, rest = uri.partition("://")
    if uri == "memory:":
        return MemoryStore()
    if separator and scheme == SCHEME and rest:
        return open_shared(rest)
    if separator and scheme == "sqlite" and _is_file(rest):
        from quire.metastore.sqlite import SqliteStore

        try:
            async with time_limit(timeout):
                return await SqliteStore.open(rest)
        except TimeoutError:
            reason = f"it did not answer within {timeout:g} s: it is locked, or its disk is slow"
            raise StoreUnavailableError(uri, reason) from None
    if separator and scheme == "zk" and rest:
        from quire.metastore.zookeeper import ZooKeeperStore

        return await ZooKeeperStore.open(uri, timeout)
    raise ConfigurationError(f"{uri!r} names no metadata store: it must be {_FORMS}")


def _is_file(path: str) -> bool:
    return path.startswith("/") and not path.endswith("/") and "\0" not in path
