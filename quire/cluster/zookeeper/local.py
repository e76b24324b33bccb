"""The ZooKeeper servers of a local cluster, seen from an event loop.

    DIRECTORY/zookeeper-1/ ...   one server each: zoo.cfg, data, zookeeper.out
    DIRECTORY/store              the URI of their last start

A directory decides about its metadata once: a cluster that began with a SQLite file continues with
it, and a cluster that began with three servers continues with three.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

from quire.cluster.zookeeper.ensemble import ZooKeeperEnsemble, check_size, found_size
from quire.errors import ConfigurationError
from quire.metastore.place import METADATA_FILE, STORE_FILE, remember_store

POLL_SECONDS: Final = 0.5
"""How soon a server that died is noticed."""


def servers_of(directory: Path, wanted: int | None) -> int:
    """Return how many ZooKeeper servers the cluster in a directory has, or is to have.

    Raises `ConfigurationError` if it was created with another number than `wanted`.
    """
    found = found_size(directory)
    if found and wanted is not None:
        check_size(directory, found, wanted)
    if not found and wanted and (kept := _kept_otherwise(directory)):
        raise ConfigurationError(
            f"the cluster in {directory} keeps its metadata in {kept}: "
            "choose another directory for one with ZooKeeper"
        )
    return found or wanted or 0


def _kept_otherwise(directory: Path) -> str | None:
    if (directory / STORE_FILE).exists():
        return "the store that --metadata named"
    return METADATA_FILE if (directory / METADATA_FILE).exists() else None


class LocalZooKeeper:
    """An ensemble, started, watched and stopped without blocking the event loop."""

    def __init__(
        self,
        directory: Path,
        size: int,
        jars: Path | None,
        on_death: Callable[[int, str], None],
    ) -> None:
        """`on_death` is called with a server's number and last words when it ended by itself."""
        self.ensemble = ZooKeeperEnsemble(directory, size, jars=jars)
        self._on_death = on_death
        self._directory = directory
        self._expected: set[int] = set()
        self._watcher: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start every server and return when all serve. Raises `StoreUnavailableError`."""
        self._expected.clear()
        await self._uninterrupted(self.ensemble.start)
        remember_store(self._directory, self.ensemble.uri)
        self._watcher = asyncio.create_task(self._watch(), name="watch of ZooKeeper servers")

    async def stop(self) -> None:
        """End every server. Harmless when none runs.

        When this is cancelled, servers that still run are killed, which does not harm them.
        """
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.cancel()
        try:
            await self._uninterrupted(self.ensemble.stop)
        finally:
            if watcher is not None:
                await asyncio.gather(watcher, return_exceptions=True)

    def kill(self, number: int) -> None:
        """End a server, by its number from 1 on, as a crash would."""
        self._expected.add(number)
        self.ensemble.servers[number - 1].kill()

    def pause(self, number: int) -> None:
        """Freeze a server: its connections stay open, and it does not answer."""
        self.ensemble.servers[number - 1].pause()

    def resume(self, number: int) -> None:
        """Let a paused server continue."""
        self.ensemble.servers[number - 1].resume()

    async def restart(self, number: int) -> None:
        """Start a server again, ending it first if it runs; return when it serves."""
        self._expected.add(number)
        server = self.ensemble.servers[number - 1]
        await asyncio.to_thread(server.stop)
        await self._uninterrupted(server.start)
        self._expected.discard(number)

    async def _uninterrupted(self, work: Callable[[], None]) -> None:
        """Start or stop in a thread; when cancelled, kill what runs and wait for the thread."""
        working = asyncio.ensure_future(asyncio.to_thread(work))
        try:
            await asyncio.shield(working)
        except asyncio.CancelledError:
            while not working.done():
                for server in self.ensemble.servers:
                    server.interrupt()
                await asyncio.sleep(POLL_SECONDS / 10)
            await asyncio.gather(working, return_exceptions=True)
            raise

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(POLL_SECONDS)
            for number, server in enumerate(self.ensemble.servers, start=1):
                if server.pid is None and number not in self._expected:
                    self._expected.add(number)
                    self._on_death(number, server.last_words())
