"""Counts the operations of the metadata store that an append and a roll cost."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Final

from quire.ledger.catalog import LedgerCatalog
from quire.ledger.links import link_bookie
from quire.ledger.roster import open_roster
from quire.ledger.stored_records import StoredRecords
from quire.log.directory import LogDirectory
from quire.metastore import open_store
from quire.metastore.changes import Change
from quire.metastore.store import MetadataStore, Session, Versioned

APPENDS: Final = 1_000
ROLLS: Final = 20
QUIET_SECONDS: Final = 0.25
LOOKS_MAX: Final = 40


class CountingStore:
    """A metadata store that counts its operations; waiting does not count."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self.operations = 0

    @property
    def uri(self) -> str:
        return self._store.uri

    async def settled(self) -> int:
        """Return the count after a quiet while: watches of the last changes are answered late, and
        cause more operations.
        """
        for _ in range(LOOKS_MAX):
            seen = self.operations
            await asyncio.sleep(QUIET_SECONDS)
            if seen == self.operations:
                break
        return self.operations

    async def get(self, path: str) -> Versioned:
        self.operations += 1
        return await self._store.get(path)

    async def create(self, path: str, value: bytes) -> int:
        self.operations += 1
        return await self._store.create(path, value)

    async def put(self, path: str, value: bytes, version: int) -> int:
        self.operations += 1
        return await self._store.put(path, value, version)

    async def delete(self, path: str, version: int | None = None) -> None:
        self.operations += 1
        await self._store.delete(path, version)

    async def commit(self, changes: Sequence[Change]) -> dict[str, int]:
        self.operations += 1
        return await self._store.commit(changes)

    async def children(self, path: str) -> list[str]:
        self.operations += 1
        return await self._store.children(path)

    async def changed(self, seen: Mapping[str, int | None]) -> list[str]:
        self.operations += 1
        return await self._store.changed(seen)

    async def wait(self, path: str, version: int | None) -> None:
        await self._store.wait(path, version)

    async def wait_children(self, path: str, names: list[str]) -> None:
        await self._store.wait_children(path, names)

    async def open_session(self, timeout: float) -> Session:
        return await self._store.open_session(timeout)

    async def close(self) -> None:
        await self._store.close()


async def count_operations(store_uri: str) -> tuple[float, float]:
    """Return the operations of an append and of a roll, each the mean of many; a ledger created
    ahead of a roll counts for the roll.
    """
    async with AsyncExitStack() as stack:
        store = CountingStore(await open_store(store_uri))
        stack.push_async_callback(store.close)
        rng = random.Random(1)
        roster = await stack.enter_async_context(open_roster(store, link_bookie))
        catalog = LedgerCatalog(StoredRecords(store, rng), roster, rng=rng, clock=time.time)
        log = await LogDirectory(store, catalog, rng=rng, clock=time.time).open("bench operations")
        stack.push_async_callback(log.close)
        await log.append(b"x")
        await log.roll()
        before = await store.settled()
        for _ in range(APPENDS):
            await log.submit(b"x")
        await log.drain()
        appended = await store.settled()
        for _ in range(ROLLS):
            await log.append(b"x")
            await log.roll()
        rolled = await store.settled()
        return (appended - before) / APPENDS, (rolled - appended) / ROLLS
