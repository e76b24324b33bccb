"""Files that are not the ones that were written, and a place that is not the one that has them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from quire.errors import ColdFileMissingError, ColdTierError
from quire.log.cold import parquet
from quire.log.manifest.cold_files import ColdFile
from quire.log.reading.bounds import Bounds
from quire.log.reading.gaps import Gap
from quire.log.records.position import LATEST
from quire.metastore.layout import ledger_path
from tests.log.offloading import files, offload, spanned, write_log
from tests.support.log_cluster import NAME, LogCluster, append_all, numbered


@pytest.mark.parametrize("kind", ["zeros", "another file of this size", "a damaged part"])
def test_a_ledger_stays_as_long_as_its_file_is_not_the_one_written(
    tmp_path: Path, kind: str
) -> None:
    """The ledgers were kept, and are given up days later."""

    async def main() -> None:
        async with LogCluster() as cluster:
            records = await write_log(cluster)
            client = cluster.new_client()
            await offload(client, tmp_path, keep=True)
            other, path, *_ = files(tmp_path)
            whole = path.read_bytes()
            size = len(whole)
            wrong = {
                "zeros": bytes(size),
                "another file of this size": other.read_bytes().rjust(size)[-size:],
                "a damaged part": whole[:10] + b"\0rot" + whole[14:],
            }
            path.write_bytes(wrong[kind])
            gaps: list[Gap] = []
            assert await client.read(on_gap=gaps.append) == records
            assert gaps == []
            with pytest.raises(ColdTierError, match="put the file back"):
                await client.logs.offload(NAME).release()
            hot = [each.number for each in (await client.manifest()).segments if each.is_hot]
            assert hot == [2]
            assert await client.read() == records
            path.write_bytes(whole)
            await client.logs.offload(NAME).release()
            assert await cluster.ledgers() == []
            assert await client.read() == records

    asyncio.run(main())


@pytest.mark.parametrize("is_released", [False, True])
def test_records_of_a_damaged_part_come_from_the_ledger_while_there_is_one(
    tmp_path: Path, is_released: bool
) -> None:
    """A gap says that a record is lost, and the bookies have it."""

    async def main() -> None:
        async with LogCluster() as cluster:
            records = await write_log(cluster)
            client = cluster.new_client()
            await offload(client, tmp_path, keep=not is_released)
            path = files(tmp_path)[1]
            damaged = bytearray(path.read_bytes())
            damaged[len(damaged) // 3] ^= 0x20
            path.write_bytes(damaged)
            gaps: list[Gap] = []
            found = await client.read(on_gap=gaps.append)
            assert len(gaps) == is_released
            if not is_released:
                assert found == records
                assert await client.read(records[40].position) == records[40:]
                assert await spanned(client, Bounds()) == [each.payload for each in records]

    asyncio.run(main())


def test_a_file_that_is_away_is_no_gap_where_its_ledger_is_gone_too(tmp_path: Path) -> None:
    """As after a restore: the ledger was deleted since, and the disk of the file is not mounted."""

    async def main() -> None:
        async with LogCluster() as cluster:
            records = await write_log(cluster)
            client = cluster.new_client()
            manifest = await offload(client, tmp_path, keep=True)
            await client.store.delete(ledger_path(manifest.segments[1].ledger))
            path = files(tmp_path)[1]
            path.rename(path.with_suffix(".away"))
            gaps: list[Gap] = []
            with pytest.raises(ColdFileMissingError):
                await client.read(on_gap=gaps.append)
            assert gaps == []
            path.with_suffix(".away").rename(path)
            assert await client.read(on_gap=gaps.append) == records

    asyncio.run(main())


def test_a_file_that_is_gone_when_it_is_read_back_is_not_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger has the right records, and says nothing about the file."""

    def vanish(self: Any) -> ColdFile:
        found = finish(self)
        Path(self._path).unlink()
        return found

    finish = parquet.FileWriter.finish
    monkeypatch.setattr(parquet.FileWriter, "finish", vanish)

    async def main() -> None:
        async with LogCluster() as cluster:
            records = await write_log(cluster)
            client = cluster.new_client()
            with pytest.raises(ColdFileMissingError):
                await offload(client, tmp_path, keep=True)
            assert all(each.cold is None for each in (await client.manifest()).segments)
            assert await client.read() == records

    asyncio.run(main())


def test_a_tier_on_a_disk_that_is_not_mounted_takes_no_files(tmp_path: Path) -> None:
    """Files below the mount point are hidden once the disk is back, and their ledgers are gone."""

    async def main() -> None:
        async with LogCluster() as cluster:
            await write_log(cluster)
            client, cold, away = cluster.new_client(), tmp_path / "cold", tmp_path / "away"
            await offload(client, cold)
            async with await client.open() as log:
                await append_all(log, numbered(500, 5))
            records = await client.read()
            cold.rename(away)
            with pytest.raises(ColdTierError, match="mount the disk"):
                await offload(client, cold)
            assert not cold.exists()
            away.rename(cold)
            await offload(client, cold)
            assert await client.read() == records
            assert await cluster.ledgers() == []
            await client.logs.trim(NAME, LATEST)
            assert files(cold) == []
            await client.logs.offload(NAME).begin(str(cold))

    asyncio.run(main())
