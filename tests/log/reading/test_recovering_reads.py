"""Reading what a writer left: a plain read says that more may exist, one with recovery sees it."""

from __future__ import annotations

import asyncio

import pytest

from quire.errors import (
    DeposedError,
    InvalidRequestError,
    NoSuchLogError,
    NoSuchNodeError,
    UnauthorizedError,
)
from quire.log.manifest.options import LogOptions
from quire.metastore.layout import service_path
from quire.service.snapshots import Snapshots
from tests.support.log_cluster import NAME, LogCluster, numbered, run, whole_client


async def left_behind(cluster: LogCluster, records: list[bytes]) -> None:
    """A writer that appends and crashes before it can announce what was acknowledged."""
    log = await cluster.new_client().open()
    for record in records:
        await log.append(record)
    log.abandon()
    await log.close()


def test_a_read_with_recovery_sees_every_acknowledged_record() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            await left_behind(cluster, numbered(0, 3))
            client = cluster.new_client()
            async with await client.logs.read(NAME) as plain:
                seen = [record.payload async for record in plain]
                assert plain.ended_open
            assert seen == numbered(0, 3)[: len(seen)]
            async with await client.logs.read(NAME, recover=True) as whole:
                assert [record.payload async for record in whole] == numbered(0, 3)
            async with await client.logs.read(NAME) as again:
                assert [record.payload async for record in again] == numbered(0, 3)
            log = await cluster.new_client().open()  # it can be led on
            await log.append(b"next")
            await log.close()
            assert await client.payloads() == [*numbered(0, 3), b"next"]

    run(main)


def test_a_closed_log_has_no_more_records() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            async with await cluster.new_client().open() as log:
                await log.append(b"x")
            async with await cluster.new_client().logs.read(NAME) as reader:
                assert [record.payload async for record in reader] == [b"x"]
                assert not reader.ended_open

    run(main)


def test_recovery_deposes_a_living_leader() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open()
            await log.append(b"kept")
            client = cluster.new_client()
            async with await client.logs.read(NAME, recover=True) as reader:
                assert [record.payload async for record in reader] == [b"kept"]
            with pytest.raises(DeposedError):
                await log.append(b"late")
            await log.close()

    run(main)


def test_a_linearizable_tail_of_a_silent_writer_is_there_after_recovery() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            await left_behind(cluster, numbered(0, 3))
            client = cluster.new_client()
            await client.logs.recover(NAME)
            await client.logs.recover(NAME)
            tail = await client.logs.tail(NAME, linearizable=True)
            assert tail.offset == 3

    run(main)


def test_recovery_is_refused_by_name() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            with pytest.raises(NoSuchLogError):
                await client.logs.recover(NAME)
            async with await client.open(password=b"secret") as log:
                with pytest.raises(UnauthorizedError):
                    await client.logs.recover(NAME, password=b"guess")
                with pytest.raises(InvalidRequestError, match="recover ends the present writer"):
                    await client.logs.read(NAME, recover=True, follow=True)
                await asyncio.sleep(0)
                await log.append(b"still led")

    run(main)


@pytest.mark.parametrize("way", ["client", "directory"])
def test_both_ways_to_delete_a_log_take_the_snapshot_of_its_service(way: str) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            part, client = cluster.new_client(), whole_client(cluster)
            async with await client.open_log(NAME) as log:
                await log.append(b"x")
            manifest = await client.log_info(NAME)
            snapshots = Snapshots(part.store, part.catalog, NAME, LogOptions())
            replication = LogOptions().replication
            await snapshots.write(
                manifest.log_id, manifest.first_position, 0, b"state", replication
            )
            await (client.delete_log(NAME) if way == "client" else client._logs.delete(NAME))
            with pytest.raises(NoSuchNodeError):
                await part.store.get(service_path(NAME))
            assert await cluster.ledgers() == []
            await client.close()

    run(main)
