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
import socket
import struct
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol, TypeAlias

from quire.cluster.zookeeper.server import ZooKeeperServer
from quire.metastore.memory import MemorySession, MemoryStore, MemoryTree
from quire.metastore.sqlite import SqliteSession, SqliteStore
from quire.metastore.store import MetadataStore, Session
from quire.metastore.zookeeper import ZooKeeperSession, ZooKeeperStore


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
        return await SqliteStore.open_or_create(self.path)

    async def expire(self, session: Session) -> None:
        """Reap the lease as another process would that finds it overdue."""
        assert isinstance(session, SqliteSession)
        reaper = await SqliteStore.open_or_create(self.path)
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


_CONNECT: Final = struct.Struct(">iiqiqi16s?")
_CLOSE: Final = struct.Struct(">iii")
_ANSWER: Final = struct.Struct(">iii")


def _close_zookeeper_session(client_id: tuple[int, bytes]) -> None:
    """Take a session over and close it in one breath, before its owner can take it back.

    Returns when the server knows the session no more: then it grants a timeout of 0.
    """
    session, password = client_id
    connect = _CONNECT.pack(_CONNECT.size - 4, 0, 0, 5000, session, len(password), password, False)
    close = _CLOSE.pack(_CLOSE.size - 4, 1, -11)
    host, _, port = shared_zookeeper().address.partition(":")
    granted = 1
    while granted:
        with socket.create_connection((host, int(port)), 10.0) as connection, suppress(OSError):
            connection.sendall(connect + close)
            received = b""
            while data := connection.recv(4096):
                received += data
            granted = _ANSWER.unpack_from(received)[2] if len(received) >= _ANSWER.size else 1


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
