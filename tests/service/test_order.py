"""A replica carries out the next record of the log, or nothing; its snapshots only go forward."""

from __future__ import annotations

import asyncio

import pytest

from quire.errors import PositionTrimmedError
from quire.ledger.quorum import Replication
from quire.log.manifest.options import LogOptions
from quire.log.records.position import Position, Record
from quire.metastore.layout import log_path, service_path
from quire.service.snapshots import Snapshots
from tests.service.replicas import NAME, Replica
from tests.support.log_cluster import Client, Gate, LogCluster

REPLICATION = Replication(3, 2, 2)


def record(offset: int) -> Record:
    return Record(Position(1, offset, 0), offset, 1, 0, b"\0%d" % offset)


@pytest.mark.parametrize(("given", "done"), [([0, 2], 1), ([0, 0], 1), ([0, 1, 0], 2), ([3], 0)])
async def test_a_record_that_is_not_the_next_is_not_applied(
    cluster: LogCluster, given: list[int], done: int
) -> None:
    """Skipped, repeated, or first after a trim: the state would be of no prefix of the log."""
    replica = Replica(cluster, "replica")
    for offset in given[:-1]:
        replica.service._apply_record(record(offset))
    with pytest.raises(PositionTrimmedError, match=f"offset {done}"):
        replica.service._apply_record(record(given[-1]))
    assert replica.state.commands == [b"%d" % offset for offset in range(done)]
    assert replica.service.applied == done


class Snapped:
    """Two replicas' ways to the snapshots of one log."""

    def __init__(self, cluster: LogCluster) -> None:
        self.cluster = cluster
        self.clients: list[Client] = [cluster.new_client() for _ in range(2)]
        self.ways = [
            Snapshots(each.store, each.catalog, NAME, LogOptions()) for each in self.clients
        ]

    async def open(self) -> None:
        log = await self.clients[0].logs.open(NAME, LogOptions())
        self.log_id = log.log_id
        await log.append_many([b"%d" % number for number in range(20)])
        await log.close()

    async def write(self, way: int, offset: int) -> bool:
        at, state = Position(1, offset, 0), b"%d" % offset
        return await self.ways[way].write(self.log_id, at, offset, state, REPLICATION)

    async def check(self, offset: int) -> None:
        """The newest snapshot is that one, can be read, and no other has a ledger."""
        newest = await self.ways[0].newest()
        assert newest is not None
        assert newest.offset == offset
        assert await self.ways[0].read(newest) == b"%d" % offset
        labelled = [
            each
            for each in await self.cluster.ledgers()
            if "service" in (await self.cluster.catalog.metadata(each)).custom_metadata
        ]
        assert labelled == [newest.ledger]


@pytest.mark.parametrize("older", [0, 5, 9, 10])
async def test_a_snapshot_that_is_not_newer_changes_nothing(
    cluster: LogCluster, older: int
) -> None:
    snapped = Snapped(cluster)
    await snapped.open()
    assert await snapped.write(0, 10)
    assert not await snapped.write(1, older)
    await snapped.check(10)
    assert await snapped.write(1, 11)
    await snapped.check(11)


@pytest.mark.parametrize("first", [None, 2], ids=["the first ever", "after another"])
@pytest.mark.parametrize(
    ("method", "path"),
    [("get", service_path(NAME)), ("get", log_path(NAME)), ("commit", log_path(NAME))],
)
async def test_a_snapshot_that_is_overtaken_is_not_installed(
    cluster: LogCluster, method: str, path: str, first: int | None
) -> None:
    """A deposed leader is paused in each of its steps, the next leader writes a newer one."""
    snapped = Snapped(cluster)
    await snapped.open()
    if first is not None:
        await snapped.write(0, first)
    gate = Gate(method, path)
    snapped.clients[0].store.before = gate
    slow = asyncio.ensure_future(snapped.write(0, 5))
    await gate.reached.wait()
    assert await snapped.write(1, 10)
    gate.open.set()
    assert not await slow
    await snapped.check(10)
