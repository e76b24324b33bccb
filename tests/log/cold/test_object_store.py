"""A tier in an object store: a server of its own that speaks S3, on this machine.

What a local directory cannot show: a file system without directories and renames, options in the
URI, a bucket that was never there or has vanished.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer
from pyarrow import dataset, fs

from quire.errors import ColdFileMissingError, ColdTierError
from quire.log.manifest.cold_files import ATTEMPTS, join
from quire.log.manifest.manifest import LogManifest
from quire.log.records.position import Position
from tests.log.offloading import files, offload, write_log
from tests.support.log_cluster import NAME, Client, LogCluster

numbers = count()
"""The server keeps its buckets for as long as the process lives: each test has one of its own."""


@dataclass
class Bucket:
    """A bucket, seen past quire."""

    system: fs.S3FileSystem
    name: str
    uri: str
    server: ThreadedMotoServer

    def names(self) -> list[str]:
        """The objects that have bytes: Arrow leaves an empty one for each directory."""
        found = self.system.get_file_info(fs.FileSelector(self.name, recursive=True))
        return sorted(each.base_name for each in found if each.type == fs.FileType.File)

    def vanish(self) -> None:
        self.system.delete_dir(self.name)

    def put(self, path: str) -> None:
        with self.system.open_output_stream(f"{self.name}/{path}") as sink:
            sink.write(b"theirs")


@pytest.fixture(params=["in the environment", "in the URI"])
def bucket(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        for variable, value in {
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }.items():
            monkeypatch.setenv(variable, value)
        options = f"?endpoint_override={host}:{port}&scheme=http"
        if request.param == "in the environment":
            monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
            options = ""
        system = fs.S3FileSystem(
            endpoint_override=f"{host}:{port}",
            scheme="http",
            region="us-east-1",
            allow_bucket_creation=True,
            allow_bucket_deletion=True,
        )
        name = f"cold-{next(numbers)}"
        system.create_dir(name)
        yield Bucket(system, name, f"s3://{name}/quire{options}", server)
    finally:
        server.stop()


async def offload_to(client: Client, target: str, *, keep: bool = False) -> LogManifest:
    work = client.logs.offload(NAME)
    tier, segments = await work.begin(target)
    files = {each.number: await work.write(each, tier) for each in segments}
    manifest = await work.commit(files)
    return manifest if keep else await work.release()


def test_a_log_lives_and_ends_in_an_object_store(bucket: Bucket) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            records = await write_log(cluster)
            client = cluster.new_client()
            manifest = await offload_to(client, bucket.uri)
            log_id = manifest.log_id
            named = [each.cold.name for each in manifest.segments if each.cold]
            assert bucket.names() == sorted(named)
            assert len(named) == 4
            assert await cluster.ledgers() == []
            assert await client.read() == records
            table = dataset.dataset(f"{bucket.name}/quire/{log_id}", filesystem=bucket.system)
            assert table.count_rows() == len(records), "each record once"
            await client.logs.trim(NAME, Position(2, 0, 0))
            assert bucket.names() == sorted(named[1:])
            assert (await client.manifest()).doomed_files == ()
            for theirs in ("thesis.txt", f"{log_id}/thesis.txt", f"{log_id}/{ATTEMPTS}/thesis.txt"):
                bucket.put(f"quire/{theirs}")
            await client.logs.delete(NAME)
            assert bucket.names() == ["thesis.txt"] * 3, "files of ours go one by one"

    asyncio.run(main())


def test_the_name_of_spark_for_a_bucket_leads_to_the_same_tier(bucket: Bucket) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            records = await write_log(cluster)
            client = cluster.new_client()
            spark = bucket.uri.replace("s3://", "s3a://", 1)
            await offload_to(client, spark, keep=True)
            manifest = await offload_to(client, bucket.uri)
            assert [each.partition("://")[0] for each in manifest.tiers] == ["s3"]
            assert await client.read() == records
            await client.logs.delete(NAME, forget_tiers=[spark])
            assert len(bucket.names()) == 4, "files of a tier that is forgotten stay"

    asyncio.run(main())


def test_attempts_and_probes_that_were_left_are_swept(bucket: Bucket) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            records = await write_log(cluster)
            client = cluster.new_client()
            work = client.logs.offload(NAME)
            tier, segments = await work.begin(bucket.uri)
            lost = await work.write(segments[0], tier)
            log_id = (await client.manifest()).log_id
            bucket.put(f"quire/{log_id}/{ATTEMPTS}/probe-0000abcd")
            await offload_to(client, bucket.uri)
            assert await work.gc() == [join(tier, lost.name)]
            manifest = await client.manifest()
            named = [each.cold.name for each in manifest.segments if each.cold]
            assert bucket.names() == sorted(named)
            assert await client.read() == records

    asyncio.run(main())


def test_a_bucket_that_was_never_there_is_not_recorded(bucket: Bucket) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            await write_log(cluster)
            client = cluster.new_client()
            elsewhere = bucket.uri.replace(bucket.name, "mistyped", 1)
            with pytest.raises(ColdTierError, match="mistyped"):
                await client.logs.offload(NAME).begin(elsewhere)
            assert (await client.manifest()).tiers == ()

    asyncio.run(main())


def test_a_vanished_bucket_takes_no_record_that_bookies_keep(bucket: Bucket) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            records = await write_log(cluster)
            client = cluster.new_client()
            await offload_to(client, bucket.uri, keep=True)
            bucket.vanish()
            with pytest.raises(ColdTierError, match="bookies keep ledger"):
                await client.logs.offload(NAME).release()
            assert await client.read() == records
            await client.logs.delete(NAME)
            assert await client.logs.list() == []
            assert await cluster.ledgers() == []

    asyncio.run(main())


def test_a_server_that_is_gone_keeps_a_log_until_its_tier_is_forgotten(bucket: Bucket) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            await write_log(cluster)
            client = cluster.new_client()
            manifest = await offload_to(client, bucket.uri)
            await asyncio.to_thread(bucket.server.stop)
            with pytest.raises(ColdTierError, match="forget-tier"):
                await client.logs.delete(NAME)
            assert not (await client.manifest()).retired
            await client.logs.delete(NAME, forget_tiers=manifest.tiers)
            assert await client.logs.list() == []

    asyncio.run(main())


@pytest.mark.parametrize("is_released", [False, True])
def test_a_local_file_that_is_away_is_an_error_only_without_its_ledger(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_released: bool
) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            records = await write_log(cluster)
            client = cluster.new_client()
            await offload(client, tmp_path, keep=not is_released)
            away = files(tmp_path)[1]
            away.rename(away.with_suffix(".away"))
            if is_released:
                with pytest.raises(ColdFileMissingError):
                    await client.read()
                return
            assert await client.read() == records
            assert "from the bookies" in caplog.text
            with pytest.raises(ColdTierError, match="put the file back"):
                await client.logs.offload(NAME).release()
            hot = [each.number for each in (await client.manifest()).segments if each.is_hot]
            assert hot == [2]
            away.with_suffix(".away").rename(away)
            await client.logs.offload(NAME).release()
            assert await cluster.ledgers() == []
            assert await client.read() == records

    asyncio.run(main())
