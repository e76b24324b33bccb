"""A restore that was paused, and goes on after another one has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from quire.errors import ConfigurationError
from quire.metadata.adopt import adopt
from quire.metadata.backup import back_up
from quire.metadata.restore import restore
from quire.metastore.changes import Change, Check
from quire.metastore.cluster import Cluster, read_cluster
from quire.metastore.layout import CLUSTER, RESTORING, VALUE_BYTES_MAX, election_epoch_path
from quire.metastore.memory import MemoryStore
from tests.support.log_cluster import run

EPOCH = election_epoch_path("office")


class PausedStore(MemoryStore):
    """A store with the records of another; it is paused before its first change of `at`."""

    def __init__(self, other: MemoryStore, at: str) -> None:
        vars(self).update(vars(other))
        self.arrived, self.goes_on = asyncio.Event(), asyncio.Event()
        self._at = at

    async def commit(self, changes: Sequence[Change]) -> dict[str, int]:
        if any(each.path == self._at and not isinstance(each, Check) for each in changes):
            self.arrived.set()
            await self.goes_on.wait()
        return await super().commit(changes)


async def backed_up(file: Path, value: bytes = b"an epoch") -> None:
    old = MemoryStore()
    await old.create(CLUSTER, Cluster("c").encode())
    await old.create(EPOCH, value)
    await back_up(old, file, 1)


@pytest.mark.parametrize("at", [EPOCH, CLUSTER, RESTORING])
def test_a_paused_restore_writes_nothing_after_another_has_ended(tmp_path: Path, at: str) -> None:
    async def main() -> None:
        file, store = tmp_path / "backup", MemoryStore()
        await backed_up(file)
        if at == RESTORING:  # begun already, so that its end is the first change of the marker
            await cut_short(store, file)
        paused = PausedStore(store, at)
        late = asyncio.create_task(restore(paused, file))
        await paused.arrived.wait()
        await restore(store, file)
        await adopt(store)
        record = await store.get(EPOCH)
        await store.put(EPOCH, b"a later epoch", record.version)
        cluster = await read_cluster(store)
        paused.goes_on.set()
        with pytest.raises(ConfigurationError, match="another restore ended there"):
            await late
        assert (await store.get(EPOCH)).value == b"a later epoch"
        assert await read_cluster(store) == cluster

    run(main)


async def cut_short(store: MemoryStore, file: Path) -> None:
    paused = PausedStore(store, CLUSTER)
    first = asyncio.create_task(restore(paused, file))
    await paused.arrived.wait()
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)


def test_a_record_of_the_largest_size_is_restored(tmp_path: Path) -> None:
    async def main() -> None:
        value = bytes(VALUE_BYTES_MAX)
        await backed_up(tmp_path / "backup", value)
        store = MemoryStore()
        await restore(store, tmp_path / "backup")
        assert (await store.get(EPOCH)).value == value

    run(main)
