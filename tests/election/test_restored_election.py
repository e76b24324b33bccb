"""An epoch fences other resources, so none comes again when the metadata store is put back."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from quire.election.election import Election
from quire.errors import StoreWentBackError
from quire.metadata.adopt import adopt
from quire.metadata.backup import back_up
from quire.metadata.restore import MARKER, restore
from quire.metastore.cluster import Cluster, epoch_floor
from quire.metastore.layout import CLUSTER
from quire.metastore.memory import MemoryStore

RNG = random.Random(1)  # of all candidates: a token stands for one candidacy


async def lead_once(store: MemoryStore) -> int:
    """Take office and leave it; return the epoch."""
    election = Election(store, "office", "anna", rng=RNG)
    try:
        async with asyncio.timeout(20), election.lead() as leadership:
            return leadership.epoch
    finally:
        await election.close()


def test_no_epoch_comes_again_after_a_restore(tmp_path: Path) -> None:
    async def main() -> None:
        old, new, second = MemoryStore(), MemoryStore(), MemoryStore()
        await old.create(CLUSTER, Cluster("c").encode())
        seen = [await lead_once(old)]
        await back_up(old, tmp_path / "backup", 1)
        seen += [await lead_once(old) for _ in range(2)]
        assert seen == [1, 2, 3]
        for store in (new, second):
            await restore(store, tmp_path / "backup")
            with pytest.raises(StoreWentBackError, match="quire metadata adopt"):
                await lead_once(store)
            await adopt(store)
            seen += [await lead_once(store) for _ in range(2)]
        assert len(set(seen)) == len(seen)
        assert min(seen[3:]) > 3
        await adopt(new)  # a store that was put back by other means
        assert await lead_once(new) > max(seen[3:5])

    asyncio.run(main())


def test_no_epoch_comes_again_when_a_snapshot_is_put_back_twice() -> None:
    """A snapshot of a disk begins no incarnation: its adoption does, and knows of no other."""

    async def main() -> None:
        seen = []
        for _ in range(2):
            store = MemoryStore()
            await store.create(CLUSTER, Cluster("c", incarnation=5).encode())
            await adopt(store)
            seen += [await lead_once(store) for _ in range(2)]
        assert len(set(seen)) == len(seen)
        assert min(seen) > epoch_floor(5)

    asyncio.run(main())


def test_no_candidate_takes_office_while_a_backup_is_put_back() -> None:
    """The election's record is there before the cluster's, which names the incarnation."""

    async def main() -> None:
        store = MemoryStore()
        await store.create(MARKER, b"{}")
        with pytest.raises(StoreWentBackError, match="is being put back"):
            await lead_once(store)
        await store.delete(MARKER)
        assert await lead_once(store) == 1

    asyncio.run(main())
