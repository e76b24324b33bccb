"""A ledger counts as deleted only when the store of this very cluster proves it."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import pytest

from quire.errors import (
    CorruptRecordError,
    NoSuchNodeError,
    QuireError,
    StoreWentBackError,
    WrongBookieError,
)
from quire.metastore.cluster import Cluster
from quire.metastore.layout import CLUSTER, LEDGER_IDS, ledger_path
from quire.metastore.memory import MemoryStore
from quire.metastore.record import encode_record
from quire.storage.identity.identity import cluster_id
from quire.storage.maintenance.deletions import MetadataDeletions
from tests.storage.scene import KEY, Scene, drive, run_of


async def made(next_id: int = 5000) -> tuple[MemoryStore, MetadataDeletions]:
    store = MemoryStore()
    cluster = await cluster_id(store, random.Random(1))
    await store.create(LEDGER_IDS, encode_record("ledger-ids", 1, {"next": next_id}))
    for ledger in (1, 3, 1004):
        await store.create(ledger_path(ledger), b"a record")
    return store, MetadataDeletions(store, cluster)


def test_what_is_not_there_any_more_is_deleted() -> None:
    async def main() -> None:
        _, deletions = await made()
        assert await deletions.deleted([1, 2, 3, 4, 1003, 1004, 2005]) == [2, 4, 1003, 2005]
        assert await deletions.deleted([]) == []

    asyncio.run(main())


def test_an_id_that_was_never_given_out_was_not_deleted() -> None:
    async def main() -> None:
        _, deletions = await made(next_id=4)
        assert await deletions.deleted([2, 4, 1003]) == [2]

    asyncio.run(main())


def test_who_waits_for_a_ledger_that_cannot_be_does_not_stop_collection() -> None:
    async def main() -> None:
        scene = Scene()
        await scene.start()
        _, deletions = await made()
        collector = scene.node.collector(deletions)
        waiting = asyncio.ensure_future(scene.node.wait_tail(-1, 0, 60))
        await scene.node.add(2, KEY, run_of(2, 0))
        for _ in range(2):
            await collector.round()
        assert (collector.counts.rounds_failed, collector.counts.ledgers_dropped) == (0, 1)
        waiting.cancel()
        await scene.close()

    drive(main())


@pytest.mark.parametrize("path", [CLUSTER, LEDGER_IDS])
def test_a_store_that_lost_its_data_deletes_nothing(path: str) -> None:
    async def main() -> None:
        store, deletions = await made()
        await store.delete(path)
        with pytest.raises(NoSuchNodeError):
            await deletions.deleted([2])

    asyncio.run(main())


@pytest.mark.parametrize(
    ("path", "value", "error"),
    [
        (CLUSTER, encode_record("cluster", 1, {"cluster": "other"}), WrongBookieError),
        (LEDGER_IDS, encode_record("ledger-ids", 1, {"next": "7"}), CorruptRecordError),
        (LEDGER_IDS, b"", CorruptRecordError),
    ],
)
def test_another_store_or_a_damaged_one_deletes_nothing(
    path: str, value: bytes, error: type[QuireError]
) -> None:
    async def main() -> None:
        store, deletions = await made()
        await store.put(path, value, (await store.get(path)).version)
        with pytest.raises(error):
            await deletions.deleted([2])

    asyncio.run(main())


def test_a_listing_that_lies_is_not_enough() -> None:
    async def main() -> None:
        store, deletions = await made()

        async def nothing(path: str) -> list[str]:
            return []

        store.children = nothing  # type: ignore[method-assign]
        assert await deletions.deleted([1, 2, 3]) == [2]

    asyncio.run(main())


@pytest.mark.parametrize("adopted", [False, True])
def test_a_store_that_was_put_back_deletes_nothing_at_first(adopted: bool) -> None:
    async def main() -> None:
        store, deletions = await made()
        assert await deletions.deleted([2]) == [2]
        record = await store.get(CLUSTER)
        found = Cluster.decode(record.value)
        later = replace(found, incarnation=1, adopted=adopted)
        await store.put(CLUSTER, later.encode(), record.version)
        with pytest.raises(StoreWentBackError):
            await deletions.deleted([2])
        if adopted:  # agreed to from the next round on
            assert await deletions.deleted([2]) == [2]

    asyncio.run(main())


def test_a_counter_that_fell_proves_nothing() -> None:
    async def main() -> None:
        store, deletions = await made()
        await deletions.deleted([2])
        record = await store.get(LEDGER_IDS)
        lower = encode_record("ledger-ids", 1, {"next": 4999})
        await store.put(LEDGER_IDS, lower, record.version)
        with pytest.raises(StoreWentBackError, match="is 4999, and was 5000 before"):
            await deletions.deleted([2])

    asyncio.run(main())


def test_an_id_that_is_waited_for_may_still_be_used() -> None:
    """Clients hold drawn ids for a while, and a follower may ask for one of them before."""

    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        store, deletions = await made()
        waiting = asyncio.ensure_future(node.wait_tail(77, 0, 3600))
        await asyncio.sleep(0)
        collector = node.collector(deletions)
        for _ in range(3):
            await collector.round()
        await store.create(ledger_path(77), b"a record")
        await node.add(77, KEY, run_of(77, 0))
        assert collector.counts.ledgers_dropped == 0
        waiting.cancel()
        await scene.close()

    drive(main())
