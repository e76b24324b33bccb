"""The common half of the peers on Apache's bookies: servers, and a client in Java."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from benchmarks.peers.java_client import JavaBench
from benchmarks.peers.peer import Took
from benchmarks.peers.workloads import Kind, Workload
from tests.interop.jars import NEWEST, install
from tests.interop.servers import ApacheServers, JavaProgram

BOOKIES: Final = 3
CACHES: Final = {
    "dbStorage_writeCacheMaxSizeMb": 256,
    "dbStorage_readAheadCacheMaxSizeMb": 256,
    "dbStorage_rocksDB_blockCacheSize": 100 << 20,
}
"""BookKeeper's defaults: a quarter, a quarter and a tenth of the direct memory."""
SETTINGS: Final[Mapping[str, Mapping[str, object]]] = MappingProxyType(
    {
        "default": CACHES,
        "tuned": {**CACHES, "journalMaxGroupWaitMSec": 1, "journalFlushWhenQueueEmpty": "true"},
    }
)


class Bookies:
    """Three bookies and a ZooKeeper, which run while one or more peers use them.

    Args:
        directory: for configurations, logs and data; it does not exist yet.
        setting: a key of `SETTINGS`.
    """

    def __init__(self, directory: Path, setting: str) -> None:
        self.setting = setting
        self._servers = ApacheServers(
            directory, install(NEWEST), "db", BOOKIES, thorough=True, settings=SETTINGS[setting]
        )
        self._users: set[object] = set()

    async def join(self, user: object) -> ApacheServers:
        """Return the servers, which start for the first user."""
        self._users.add(user)
        if len(self._users) == 1:
            await asyncio.to_thread(self._servers.__enter__)
        return self._servers

    async def leave(self, user: object) -> None:
        """End the servers, if no other user is left. A second call does nothing."""
        if user in self._users:
            self._users.remove(user)
            if not self._users:
                await asyncio.to_thread(self._servers.__exit__, None, None, None)

    def pids(self) -> Sequence[int]:
        """Return the pids of the bookies, without ZooKeeper's."""
        return self._servers.pids() if self._users else []


class OnBookies(ABC):
    """A JVM with a client of bookies."""

    name: str
    kinds: Sequence[Kind]

    def __init__(self, bookies: Bookies) -> None:
        self._bookies = bookies
        self._client: JavaBench | None = None

    @abstractmethod
    def open_client(self, servers: ApacheServers) -> JavaProgram:
        """Start the client's process, in a thread."""

    @abstractmethod
    async def run(self, workload: Workload, seconds: float) -> Took:
        """Append, or read back. Raises `PeerError`."""

    @property
    def client(self) -> JavaBench:
        """The client, once `start` has returned."""
        assert self._client is not None, "start comes first"
        return self._client

    async def start(self) -> None:
        """Start ZooKeeper and bookies, if they do not run yet, and the client."""
        servers = await self._bookies.join(self)
        self._client = JavaBench(await asyncio.to_thread(self.open_client, servers))

    def servers(self) -> Sequence[int]:
        """Return the pids of the bookies."""
        return self._bookies.pids()

    async def stop(self) -> None:
        """End the client, and the servers if no other peer uses them."""
        if self._client is not None:
            self._client.end()
            self._client = None
        await self._bookies.leave(self)
