"""Ledger metadata in shards: many are listed fast, and what is deleted leaves nothing behind."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from quire.cluster.zookeeper.server import ZooKeeperServer
from quire.errors import ConflictError
from quire.ledger.catalog import LedgerCatalog
from quire.ledger.roster import BookieRoster
from quire.ledger.stored_records import StoredRecords
from quire.metastore.changes import Create
from quire.metastore.layout import LEDGERS, LEDGERS_PER_SHARD, ledger_path
from quire.metastore.memory import MemoryStore
from quire.metastore.sqlite import Clock, SqliteStore
from quire.metastore.store import MetadataStore
from quire.metastore.zookeeper import ZooKeeperStore
from tests.support.memory_cluster import MemoryCluster
from tests.support.planted_ledgers import metadata_of, plant_ledgers
from tests.support.virtual import virtually

MANY = 30_000
"""`python -m benchmarks.metadata` does it with 100,000."""

LIST_SECONDS_MAX = 10.0
"""It takes 0.1 s; a request of the store times out after ten."""


def catalog_of(store: MetadataStore) -> LedgerCatalog:
    def connect(address: object) -> MemoryCluster:
        raise AssertionError("no bookie is asked")

    roster = BookieRoster(store, connect)  # type: ignore[arg-type]
    rng = random.Random(1)
    return LedgerCatalog(StoredRecords(store, rng), roster, rng=rng, clock=lambda: 0.0)


def test_many_ledgers_are_listed_without_a_time_out(tmp_path: Path) -> None:
    async def main(uri: str) -> None:
        store = await ZooKeeperStore.open(uri)
        async with asyncio.timeout(LIST_SECONDS_MAX):
            assert await catalog_of(store).list() == list(range(MANY))
        await store.close()

    with ZooKeeperServer(tmp_path, sync=False) as server:
        plant_ledgers(server.address, "/many", range(MANY))
        asyncio.run(main(f"{server.uri}/many"))


class Counting(SqliteStore):
    """Counts how many names each listing brought."""

    def __init__(self, path: str, clock: Clock) -> None:
        super().__init__(path, clock)
        self.pages: list[int] = []

    async def children(self, path: str) -> list[str]:
        names = await super().children(path)
        self.pages.append(len(names))
        return names


def test_listing_goes_by_pages_in_a_file_too(tmp_path: Path) -> None:
    """However many ledgers there are, no call holds the one thread of the file for all of them."""
    shards, rest = 7, 10

    async def main() -> None:
        store = await Counting.open_or_create(str(tmp_path / "metadata.db"))
        assert isinstance(store, Counting)
        ledgers = range(shards * LEDGERS_PER_SHARD + rest)
        for first in ledgers[::LEDGERS_PER_SHARD]:
            page = ledgers[first : first + LEDGERS_PER_SHARD]
            await store.commit([Create(ledger_path(ledger), b"") for ledger in page])
        store.pages.clear()
        assert await catalog_of(store).list() == list(ledgers)
        assert store.pages == [shards + 1, *[LEDGERS_PER_SHARD] * shards, rest]
        await store.close()

    asyncio.run(main())


def test_an_empty_shard_is_deleted_with_its_last_ledger() -> None:
    async def main() -> None:
        store = MemoryStore()
        catalog = catalog_of(store)
        for ledger in (0, 1, 5_000):
            await store.create(ledger_path(ledger), metadata_of(ledger).encode())
        await catalog.delete(0)
        assert len(await store.children(LEDGERS)) == 2
        await catalog.delete(5_000)
        assert len(await store.children(LEDGERS)) == 1
        assert await catalog.list() == [1]
        await catalog.delete(1)
        assert await store.children(LEDGERS) == []

    virtually(main)


class Undermined(MemoryStore):
    """ZooKeeper's answer when a parent is deleted between its making and the record's."""

    conflicts = 2

    async def create(self, path: str, value: bytes) -> int:
        if path.startswith(LEDGERS) and self.conflicts:
            self.conflicts -= 1
            raise ConflictError(f"a parent of {path} was deleted")
        return await super().create(path, value)


@pytest.mark.parametrize("conflicts", [1, 2, 5])
def test_a_ledger_is_created_though_its_shard_is_deleted(conflicts: int) -> None:
    async def main() -> None:
        store = Undermined()
        store.conflicts = conflicts
        async with MemoryCluster(3, store=store) as cluster:
            writer = await cluster.catalog.create()
            assert await cluster.catalog.list() == [writer.ledger]
            await writer.close()

    virtually(main)
