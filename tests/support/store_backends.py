"""The kinds of metadata store that contract and election tests run over.

A backend is one tree with any number of clients. `expire` ends a session as the server would when
its owner was not heard of: the owner is not told by it.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import itertools
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

from kazoo.client import KazooClient

from quire.metastore.memory import MemorySession, MemoryStore, MemoryTree
from quire.metastore.sqlite import SqliteSession, SqliteStore
from quire.metastore.store import MetadataStore, Session
from quire.metastore.zookeeper import ZooKeeperSession, ZooKeeperStore
from quire.metastore.zookeeper_server import ZooKeeperServer


class Backend(Protocol):
    """One tree, fresh for each test."""

    async def client(self) -> MetadataStore: ...

    async def expire(self, session: Session) -> None: ...


class MemoryBackend:
    def __init__(self, directory: Path) -> None:
        self.tree = MemoryTree()

    async def client(self) -> MemoryStore:
        return MemoryStore(self.tree)

    async def expire(self, session: Session) -> None:
        assert isinstance(session, MemorySession)
        session.expire()


class SqliteBackend:
    def __init__(self, directory: Path) -> None:
        self.path = str(directory / "metadata.db")

    async def client(self) -> SqliteStore:
        return await SqliteStore.open(self.path)

    async def expire(self, session: Session) -> None:
        """Reap the lease as another process would that finds it overdue."""
        assert isinstance(session, SqliteSession)
        reaper = await SqliteStore.open(self.path)
        await reaper.change(lambda file: file.end_session(session.id))
        await reaper.close()


class ZooKeeperBackend:
    """A root of its own on the server that all tests of this process share."""

    def __init__(self, directory: Path) -> None:
        self.uri = f"{shared_zookeeper().uri}/test-{next(_roots)}/deep"

    async def client(self) -> ZooKeeperStore:
        return await ZooKeeperStore.open(self.uri)

    async def expire(self, session: Session) -> None:
        """Close the session from another connection, which the server cannot tell from ours."""
        assert isinstance(session, ZooKeeperSession)
        await asyncio.to_thread(_close_zookeeper_session, session.connection.client_id)


def _close_zookeeper_session(client_id: Any) -> None:
    client = KazooClient(shared_zookeeper().address, client_id=client_id)
    client.start()
    client.stop()
    client.close()


@functools.cache
def shared_zookeeper() -> ZooKeeperServer:
    """Return this process's server, started at first use and stopped at exit."""
    directory = Path(tempfile.mkdtemp(prefix="quire-zookeeper-"))
    server = ZooKeeperServer(directory, sync=False, tick_milliseconds=200)
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    atexit.register(server.stop)
    server.start()
    return server


_roots = itertools.count()

BackendFactory: TypeAlias = Callable[[Path], Backend]

BACKENDS: Final[dict[str, BackendFactory]] = {
    "memory": MemoryBackend,
    "sqlite": SqliteBackend,
    "zookeeper": ZooKeeperBackend,
}
