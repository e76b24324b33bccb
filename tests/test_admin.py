"""`quire.admin` and its blocking twins: what a rare operation does to a log, seen from outside."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import quire
import quire.sync
from quire import admin
from quire.errors import (
    ColdTierError,
    InvalidRequestError,
    ManifestExistsError,
    NoSuchLogError,
    OvertakenError,
)
from quire.ledgers import Replication
from quire.log.records.keyring import Keyring
from quire.sync import admin as blocking
from quire.testing import MemoryCluster

ONE = Replication(1, 1, 1)
OPTIONS = quire.LogOptions(replication=ONE)


async def payloads(client: quire.Client, name: str, keyring: Keyring | None = None) -> list[bytes]:
    async with client.read_log(name, keyring=keyring) as reader:
        return [record.payload async for record in reader]


def test_a_job_adds_its_parts_once() -> None:
    async def main() -> None:
        async with MemoryCluster(1) as cluster, quire.connect(cluster.store_uri) as client:
            async with await client.open_log("orders", OPTIONS) as log:
                await log.append(b"before")
            job = admin.ingest(client, "orders", "load")
            options = quire.LogOptions(replication=ONE, batch_records=2)
            parts = [await job.write_part([b"%d" % each], options) for each in range(2)]
            parts.append(await job.write_part((b"x%d" % each for each in range(5)), options))
            stray = await job.write_part([b"stray"], options)
            assert not await job.has_done(1)
            info = await job.ingest(parts, sequence=1)
            assert [each.ledger for each in info.segments if each.is_ingested] == parts
            assert await job.has_done(1)
            assert (await job.ingest(parts, sequence=1)).segments == info.segments
            expected = [b"before", b"0", b"1", b"x0", b"x1", b"x2", b"x3", b"x4"]
            assert await payloads(client, "orders") == expected
            assert stray not in await client.list_ledgers(), "it was not among the parts"
            with pytest.raises(OvertakenError):
                await job.ingest([], sequence=3, after=2)

    asyncio.run(main())


def test_parts_are_encrypted_as_the_log_is() -> None:
    async def main() -> None:
        async with MemoryCluster(1) as cluster, quire.connect(cluster.store_uri) as client:
            keyring = Keyring({"k": bytes(32)}, current="k")
            options = quire.LogOptions(replication=ONE, keyring=keyring)
            job = admin.ingest(client, "secret", "load")
            await job.ingest([await job.write_part([b"one", b"two"], options)])
            assert await payloads(client, "secret", keyring) == [b"one", b"two"]
            with pytest.raises(quire.QuireError, match="is encrypted"):
                await payloads(client, "secret")

    asyncio.run(main())


def test_a_dropped_job_leaves_nothing() -> None:
    async def main() -> None:
        async with MemoryCluster(1) as cluster, quire.connect(cluster.store_uri) as client:
            job = admin.ingest(client, "orders", "load")
            await job.write_part([b"one"], OPTIONS)
            await job.drop()
            assert await client.list_ledgers() == []
            assert repr(job) == "<IngestJob 'load'>"

    asyncio.run(main())


def test_offloaded_segments_are_read_from_files(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")

    async def main() -> None:
        async with MemoryCluster(1) as cluster, quire.connect(cluster.store_uri) as client:
            log = await client.open_log("orders", OPTIONS)
            await log.append(b"one")
            await log.roll()
            await log.append(b"two")
            first = (await client.log_info("orders")).segments[0]
            files = await admin.offload(client, "orders", str(tmp_path))
            after = (await client.log_info("orders")).segments
            assert [each.file for each in after] == [*files, None]
            assert [each.is_on_bookies for each in after] == [False, True]
            assert len(files) == 1
            assert first.ledger not in await client.list_ledgers()
            assert await payloads(client, "orders") == [b"one", b"two"]
            assert (await admin.gc(client)).files == []

    asyncio.run(main())


def test_an_offload_gives_up_the_ledgers_that_earlier_ones_kept(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")

    async def main() -> None:
        async with MemoryCluster(1) as cluster, quire.connect(cluster.store_uri) as client:
            log = await client.open_log("orders", OPTIONS)
            await log.append(b"one")
            await log.roll()
            first = (await client.log_info("orders")).segments[0]
            await admin.offload(client, "orders", str(tmp_path), keep_ledgers=True)
            assert first.ledger in await client.list_ledgers()
            assert await admin.offload(client, "orders", str(tmp_path)) == []
            assert first.ledger not in await client.list_ledgers()
            assert await payloads(client, "orders") == [b"one"]

    asyncio.run(main())


def spoil(uri: str) -> None:
    """Change the first bytes of a file."""
    path = Path(uri.removeprefix("file://"))
    path.write_bytes(path.read_bytes().replace(b"PAR1", b"ROT1", 1))


def test_a_damaged_file_keeps_its_ledger_and_stops_no_other_segment(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")

    async def main() -> None:
        async with MemoryCluster(1) as cluster, quire.connect(cluster.store_uri) as client:
            log = await client.open_log("orders", OPTIONS)
            await log.append(b"one")
            await log.roll()
            (uri,) = await admin.offload(client, "orders", str(tmp_path), keep_ledgers=True)
            spoil(uri)
            for payload in (b"two", b"three"):
                await log.append(payload)
                await log.roll()
            with pytest.raises(ColdTierError, match=uri):
                await admin.offload(client, "orders", str(tmp_path))
            after = (await client.log_info("orders")).segments
            assert [each.is_on_bookies for each in after[:3]] == [True, False, False]
            assert await payloads(client, "orders") == [b"one", b"two", b"three"]

    asyncio.run(main())


def test_blocking_twins() -> None:
    with MemoryCluster(1) as cluster, quire.sync.connect(cluster.store_uri) as client:
        job = blocking.ingest(client, "orders", "load")
        job.ingest([job.write_part([b"one"], OPTIONS)])
        assert [each.payload for each in client.read_log("orders")] == [b"one"]
        assert (job.name, job.has_done()) == ("load", True)
        part = job.write_part([b"left"], OPTIONS)
        (shown,) = blocking.jobs(client, "orders").jobs
        assert (shown.name, shown.sequence, [each.ledger for each in shown.parts]) == (
            "load",
            0,
            [part],
        )
        assert blocking.gc(client, jobs_older_than=3600).parts == {}
        with pytest.raises(InvalidRequestError, match="jobs_older_than is -1"):
            blocking.gc(client, jobs_older_than=-1)
        with pytest.raises(NoSuchLogError):
            blocking.jobs(client, "nothing")
        job.drop()
        with pytest.raises(ManifestExistsError):
            blocking.rebuild(client, "orders")
        labels = {"log": "orders", "log_id": "0" * 32, "epoch": "0", "segment": "1"}
        with client.create_ledger(ONE, custom_metadata=labels) as writer:
            pass
        done = blocking.gc(client)
        assert (list(done.files), dict(done.kept)) == ([], {})
        assert writer.ledger not in done.ledgers, "it is too young to be certain"
