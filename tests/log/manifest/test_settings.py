"""Settings of a log: laid over options, obeyed by whoever leads it at the moment they change."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from quire.errors import ConfigurationError
from quire.ledger.quorum import Replication
from quire.log.leader.log import Log
from quire.log.manifest.options import LogOptions
from quire.log.records.batch import BATCH_BYTES_MAX, Compression, decode_header
from tests.support.log_cluster import (
    NAME,
    Client,
    LogCluster,
    append_all,
    eventually,
    numbered,
    run,
)

LARGE = str(BATCH_BYTES_MAX - 4 * 2000)
"""A `batch_bytes` that goes with the default `batch_records`, not with many more."""


async def change(client: Client, log: Log, **settings: str) -> None:
    """Change settings from outside, and wait until the leader has seen them."""
    before = log.options
    await client.logs.set_options(NAME, settings)
    await eventually(lambda: log.options != before)


async def replications(client: Client) -> list[str]:
    segments = (await client.manifest()).segments
    return [str((await client.catalog.metadata(each.ledger)).replication) for each in segments]


@pytest.mark.parametrize("prepared", [False, True])
def test_replication_changes_with_the_next_segment(prepared: bool) -> None:
    async def main() -> None:
        async with LogCluster(5) as cluster:
            client = cluster.new_client()
            log = await client.open(roll_entries=10, batch_records=1)
            await append_all(log, numbered(0, 6 if prepared else 2))
            await asyncio.sleep(1)
            assert len(await cluster.ledgers()) == 1 + prepared
            await change(cluster.new_client(), log, replication="5/4/3")
            await log.append(b"in the old segment")
            await log.roll()
            await log.append(b"in the new one")
            assert await replications(client) == ["3/3/2", "5/4/3"]
            assert len(await cluster.ledgers()) == 2, "the one made ahead is not left behind"
            await log.close()
            log = await client.open(replication=Replication(3, 2, 2))
            await log.append(b"by the next leader")
            assert await replications(client) == ["3/3/2", "5/4/3", "5/4/3"]
            await change(client, log, replication="")
            await log.roll()
            await log.append(b"as its leader wants it")
            assert (await replications(client))[3:] == ["3/2/2"]
            await log.close()
            await cluster.check()

    run(main)


@pytest.mark.parametrize("text", [f"{10**18}/{10**18}/2", "1025/3/2"])
def test_a_replication_that_no_cluster_can_have_is_refused(text: str) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            await (await client.open()).close()
            with pytest.raises(ConfigurationError, match=f"{text} is not 1024 ≥ ensemble"):
                await client.logs.set_options(NAME, {"replication": text})
            assert (await client.manifest()).settings == {}

    run(main)


def test_ledgers_of_jobs_have_the_replication_of_the_log() -> None:
    async def main() -> None:
        async with LogCluster(5) as cluster:
            client = cluster.new_client()
            await (await client.open()).close()
            await client.logs.set_options(NAME, {"replication": "4/3/2"})
            part = await client.logs.ingest(NAME).create_part("job", LogOptions())
            assert str(part._metadata.replication) == "4/3/2"
            part.abandon()

    run(main)


def test_a_segment_is_over_when_the_new_setting_says_so() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open(roll_entries=1000, batch_records=1, roll_seconds=10_000.0)
            await append_all(log, numbered(0, 5))
            await change(client, log, roll_entries="6")
            await append_all(log, numbered(5, 2))
            await asyncio.sleep(1)
            assert len((await client.manifest()).segments) == 2
            await log.append(b"8")
            await asyncio.sleep(100)
            await change(client, log, roll_seconds="50")
            await asyncio.sleep(1)
            assert len((await client.manifest()).segments) == 3, "it is older than that by now"
            await log.append(b"9")
            await asyncio.sleep(40)
            assert len((await client.manifest()).segments) == 3
            await asyncio.sleep(20)
            assert len((await client.manifest()).segments) == 4
            await log.close()

    run(main)


def test_batches_are_cut_and_packed_as_the_new_setting_says() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open(compression=Compression.NONE)
            alike = [bytes(100)] * 60

            async def batches(records: list[bytes]) -> list[tuple[int, Compression]]:
                places = await append_all(log, records)
                ledger = (await client.manifest()).segments[-1].ledger
                await log.roll()
                first, last = places[0].entry, places[-1].entry
                async with await client.catalog.open_without_recovery(ledger) as reader:
                    entries = [entry async for entry in reader.read(first, last)]
                heads = [decode_header(e.payload, e.ledger, e.entry) for e in entries]
                return [(head.count, head.compression) for head in heads]

            assert max(await batches(alike))[0] > 10
            assert {how for _, how in await batches(alike)} == {Compression.NONE}
            await change(client, log, batch_records="10", compression="zstd")
            assert max(await batches(alike)) == (10, Compression.ZSTD)
            await change(client, log, batch_records="", compression="")
            assert max(await batches(alike))[0] > 10
            assert {how for _, how in await batches(alike)} == {Compression.NONE}
            await log.close()

    run(main)


def test_settings_are_laid_over_each_other_and_checked_together() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            await (await client.open()).close()
            await client.logs.set_options(NAME, {"roll_entries": "5", "batch_bytes": LARGE})
            manifest = await client.logs.set_options(NAME, {"roll_entries": "", "roll_bytes": "7"})
            kept = {"batch_bytes": LARGE, "roll_bytes": "7"}
            assert manifest.settings == kept
            for wrong in (
                {"batch_records": "100000"},
                {"replication": "3/3"},
                {"replication": "2/3/2"},
            ):
                with pytest.raises(ConfigurationError, match=next(iter(wrong))):
                    await client.logs.set_options(NAME, wrong)
            assert (await client.manifest()).settings == kept

    run(main)


def test_a_setting_that_its_leader_cannot_obey_neither_stops_it_nor_fences_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open(batch_records=50_000)
            await log.append(b"0")
            await client.logs.set_options(NAME, {"batch_bytes": LARGE})
            await eventually(lambda: "continues with the options it had" in caplog.text)
            await log.append(b"1")
            with pytest.raises(ConfigurationError, match="batch_bytes"):
                await cluster.new_client().open(batch_records=50_000)
            await log.append(b"2")
            await log.roll()
            await log.append(b"3")
            await log.close()
            assert await client.payloads() == numbered(0, 4)

    run(main)


@pytest.mark.parametrize("value", [5, 5.0, True, None, b"5"])
def test_a_setting_that_is_not_text_is_refused_before_the_manifest_holds_it(value: Any) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            with suppress(ConfigurationError, TypeError):
                await client.logs.create(NAME, {"retention_seconds": value})
            assert await client.logs.list() == []
            await client.logs.create(NAME)
            with pytest.raises(ConfigurationError, match="retention_seconds"):
                await client.logs.set_options(NAME, {"retention_seconds": value})
            assert (await client.manifest()).settings == {}

    run(main)


def test_a_negative_retention_keeps_the_log_and_is_refused() -> None:
    """In other systems −1 means no limit; here it would mean that nothing sealed is kept."""

    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            async with await client.open() as log:
                await append_all(log, numbered(0, 5))
            with suppress(ConfigurationError):
                await client.logs.set_options(NAME, {"retention_bytes": "-1"})
            log = await client.open(retention_interval=1.0)
            await asyncio.sleep(5)
            assert await client.payloads() == numbered(0, 5)
            await log.close()
            with pytest.raises(ConfigurationError, match="retention_bytes"):
                await client.logs.set_options(NAME, {"retention_bytes": "-1"})
            with pytest.raises(ConfigurationError, match="retention_bytes"):
                LogOptions(retention_bytes=-1)
            assert LogOptions(retention_bytes=0).retention_bytes == 0

    run(main)
