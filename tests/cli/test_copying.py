"""`quire log copy`: the copy has the records of its source; other logs are left alone."""

from __future__ import annotations

import asyncio

import click.testing
import pytest

from quire.cli.copying import CopyOrder, CopyResult, copy_log
from quire.cli.root import main as command
from quire.client import Client
from quire.errors import ConfigurationError, NoSuchLogError
from quire.log.manifest.options import LogOptions
from quire.log.records.attributes import NewRecord
from quire.metastore.cluster import Cluster
from quire.metastore.layout import CLUSTER
from quire.metastore.levels import ATTRIBUTES_LEVEL
from tests.support.log_cluster import LogCluster, append_all, numbered, whole_client

COPY = "copy"
NAME = "orders"


async def copied(source: Client, target: Client, *, recover: bool = False) -> CopyResult:
    told: list[int] = []
    done = await copy_log(source, target, CopyOrder(NAME, COPY, LogOptions(), recover), told.append)
    assert sum(told) == done.found + done.appended
    return done


async def payloads(client: Client, name: str) -> list[bytes]:
    return [record.payload async for record in client.read_log(name)]


async def filled(client: Client, first: int, count: int) -> None:
    async with await client.open_log(NAME) as log:
        await append_all(log, numbered(first, count))


async def test_a_copy_is_made_continued_and_brought_up_to_date() -> None:
    async with LogCluster() as one, LogCluster() as other:
        source, target = whole_client(one), whole_client(other)
        await source.create_log(NAME, {"retention_seconds": "7d"})
        await filled(source, 0, 2500)
        assert await copied(source, target) == CopyResult(0, 2500, False)
        assert await payloads(target, COPY) == numbered(0, 2500)
        info = await target.log_info(COPY)
        assert info.options == (await source.log_info(NAME)).options
        assert await copied(source, target) == CopyResult(2500, 0, False)
        await filled(source, 2500, 7)
        assert await copied(source, target) == CopyResult(2500, 7, False)
        assert await payloads(target, COPY) == numbered(0, 2507)


async def test_an_interrupted_copy_goes_on_behind_its_last_acknowledged_record() -> None:
    async with LogCluster() as one, LogCluster() as other:
        source, target = whole_client(one), whole_client(other)
        await filled(source, 0, 100)
        half = await target.open_log(COPY)
        await append_all(half, numbered(0, 40))
        half.abandon()  # the last of them were not announced
        done = await copied(source, target)
        assert done == CopyResult(40, 60, False)
        assert await payloads(target, COPY) == numbered(0, 100)


async def test_txids_keys_headers_and_event_times_are_kept() -> None:
    async with LogCluster() as one:
        await one.store.create(CLUSTER, Cluster("c", level=ATTRIBUTES_LEVEL).encode())
        client = whole_client(one)
        async with await client.open_log(NAME) as log:
            await log.append(b"a")
            await log.append(NewRecord(b"b", key=b"k", headers={"h": b"v"}, event_time=5), txid=7)
        await copied(client, client)
        plain, keyed = [record async for record in client.read_log(COPY)]
        assert (plain.payload, plain.txid, plain.key) == (b"a", None, None)
        assert (keyed.payload, keyed.txid, keyed.key) == (b"b", 7, b"k")
        assert (keyed.headers, keyed.event_time_ms) == ((("h", b"v"),), 5)


async def test_a_copy_with_other_keys_is_refused() -> None:
    async with LogCluster() as one:
        await one.store.create(CLUSTER, Cluster("c", level=ATTRIBUTES_LEVEL).encode())
        client = whole_client(one)
        for name, key in ((NAME, b"k"), (COPY, b"other")):
            async with await client.open_log(name) as log:
                await log.append(NewRecord(b"a", key=key))
        with pytest.raises(ConfigurationError, match="does not copy"):
            await copied(client, client)


async def test_a_log_with_other_records_is_refused_before_its_writer_is_fenced() -> None:
    async with LogCluster() as one:
        client = whole_client(one)
        await filled(client, 0, 10)
        async with await client.open_log(COPY) as other:
            await append_all(other, [*numbered(0, 3), b"else"])
            await asyncio.sleep(1)  # until all are announced
            with pytest.raises(ConfigurationError, match=r"does not copy 'orders'.*differ"):
                await copied(client, client)
            await other.append(b"the writer goes on")


async def test_a_copy_with_more_records_than_the_source_is_refused() -> None:
    async with LogCluster() as one:
        client = whole_client(one)
        await filled(client, 0, 3)
        async with await client.open_log(COPY) as other:
            await append_all(other, numbered(0, 4))
        with pytest.raises(ConfigurationError, match="does not copy"):
            await copied(client, client)


async def test_an_open_source_is_told_and_recovery_copies_all_of_it() -> None:
    async with LogCluster() as one:
        client = whole_client(one)
        crashed = await client.open_log(NAME)
        await append_all(crashed, numbered(0, 5))
        assert (await copied(client, client)).is_open
        crashed.abandon()
        done = await copied(client, client, recover=True)
        assert (done.found + done.appended, done.is_open) == (5, False)
        assert await payloads(client, COPY) == numbered(0, 5)


async def test_a_source_that_does_not_exist_makes_no_copy() -> None:
    async with LogCluster() as one:
        client = whole_client(one)
        with pytest.raises(NoSuchLogError):
            await copied(client, client)
        assert await client.list_logs() == []


def test_a_log_is_not_copied_onto_itself() -> None:
    arguments = ["--store", "memory://x", "log", "copy", NAME, "--to", "memory://x"]
    result = click.testing.CliRunner().invoke(command, arguments)
    assert result.exit_code == 2
    assert "onto itself" in result.output
