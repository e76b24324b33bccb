"""An epoch of a log fences its leaders: none comes again when the metadata store is put back."""

from __future__ import annotations

from pathlib import Path

import pytest

from quire.errors import DeposedError, StoreWentBackError
from quire.metadata.adopt import adopt
from quire.metadata.backup import back_up
from quire.metadata.restore import restore
from quire.metastore.cluster import Cluster
from quire.metastore.layout import CLUSTER
from quire.metastore.memory import MemoryStore
from tests.support.log_cluster import NAME, LogCluster, append_all, numbered, run


class Restored(LogCluster):
    """A cluster whose clients can be given another store."""

    async def put_back(self, backup: Path) -> MemoryStore:
        """Put a backup into a new store, for clients made from now on. It is not adopted yet."""
        self.store = MemoryStore()
        await restore(self.store, backup)
        return self.store


def test_no_epoch_of_a_log_comes_again_after_a_restore(tmp_path: Path) -> None:
    async def main() -> None:
        async with Restored() as cluster:
            await cluster.store.create(CLUSTER, Cluster("c").encode())
            client = cluster.new_client()
            log = await client.open()
            seen = [log.epoch]
            await append_all(log, numbered(0, 3))
            await log.close()
            await back_up(cluster.store, tmp_path / "backup", 1)
            lost = [await cluster.new_client().open() for _ in range(2)]
            seen += [each.epoch for each in lost]
            assert seen == [1, 2, 3]
            old = cluster.store
            new = await cluster.put_back(tmp_path / "backup")
            heir = cluster.new_client()
            with pytest.raises(StoreWentBackError, match="quire metadata adopt"):
                await heir.open()
            with pytest.raises(StoreWentBackError):
                await heir.logs.delete(NAME)
            assert (await heir.manifest()).epoch == 1
            await adopt(new)
            first, second = await heir.open(), await cluster.new_client().open()
            assert first.epoch > max(seen)
            assert second.epoch == first.epoch + 1
            manifest = await heir.manifest()
            with pytest.raises(DeposedError):  # however it comes to see the store of now
                lost[-1]._chain.check_mine(manifest)
            await second.close()
            await heir.logs.delete(NAME)
            for each in (*lost, first):
                each.abandon()
            await old.close()

    run(main)
