"""Offloaded segments read as before, whoever reads and while they move."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from quire.entry import Entry
from quire.errors import CorruptStorageError, DecryptionError
from quire.log.cold import parquet
from quire.log.cold.reader import ParquetEntries
from quire.log.manifest.manifest import LogManifest
from quire.log.reading.bounds import Bounds
from quire.log.reading.gaps import Gap
from quire.log.records.batch import Compression
from quire.log.records.keyring import Keyring
from quire.log.records.position import Position
from quire.log.records.producers import ProducerSequence
from quire.metastore.layout import LEDGERS
from tests.log.offloading import files, offload, spanned, write_log
from tests.support.log_cluster import NAME, LogCluster, append_all, numbered
from tests.support.memory_cluster import until


def test_every_reader_reads_cold_segments_as_it_read_hot_ones(tmp_path: Path) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            records = await write_log(cluster, compression=Compression.ZSTD)
            client = cluster.new_client()
            found = await offload(client, tmp_path)
            assert [each.cold is not None for each in found.segments] == [True] * 4
            assert await cluster.ledgers() == []
            assert await client.read() == records
            for start in (records[33].offset, records[33].position, records[50].position):
                assert (await client.read(start))[0].position in [
                    each.position for each in records if each.offset in (33, 50)
                ]
            tail = await client.logs.tail(NAME)
            assert tail.offset == len(records)
            cut = Bounds(first_offset=17, end_offset=110)
            assert await spanned(client, cut) == [each.payload for each in records[17:110]]
            cursor = await client.logs.cursors(NAME).open("c")
            await cursor.advance(records[40].position)
            assert await cursor.lag() == len(records) - 40

    asyncio.run(main())


def test_a_leader_goes_on_behind_cold_segments_and_remembers_producers(tmp_path: Path) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            async with await client.open() as log:
                first = await log.append(b"one", producer_sequence=ProducerSequence("p", 7))
            await offload(client, tmp_path)
            async with await client.open() as log:
                assert (
                    await log.append(b"again", producer_sequence=ProducerSequence("p", 7)) == first
                )
                await log.append(b"two", producer_sequence=ProducerSequence("p", 8))
            assert await client.payloads() == [b"one", b"two"]

    asyncio.run(main())


def test_the_file_says_what_the_log_says(tmp_path: Path) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            records = await write_log(cluster)
            await offload(cluster.new_client(), tmp_path)
            rows = [row for each in files(tmp_path) for row in pq.read_table(each).to_pylist()]
            positions = [(row["segment"], row["entry"], row["slot"]) for row in rows]
            assert positions == [each.position for each in records]
            for row, record in zip(rows, records, strict=True):
                time_ms = round(row["timestamp"].timestamp() * 1000)
                found = (row["offset"], row["epoch"], time_ms, row["payload"], row["transaction"])
                assert found == tuple(record[1:6])
            stamps = {(row["producer"], row["sequence"]) for row in rows}
            assert stamps == {(None, None), ("p\u00e9", 0), ("p\u00e9", 30), ("p\u00e9", 60)}

    asyncio.run(main())


def test_what_was_encrypted_stays_so_and_opens_with_its_key(tmp_path: Path) -> None:
    keyring = Keyring({"k": b"k" * 32}, current="k")

    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            async with await client.open(batch_records=7) as log:
                await append_all(log, numbered(0, 20))
                await log.roll()
            async with await client.open(batch_records=7, keyring=keyring) as log:
                await append_all(log, [b"secret %d" % each for each in range(20)])
                await log.append(b"secret and numbered", txid=5)
            records = await client.read(keyring=keyring)
            await offload(client, tmp_path)
            assert await cluster.ledgers() == []
            assert await client.read(keyring=keyring) == records
            assert (await client.logs.tail(NAME)).offset == 41
            with pytest.raises(DecryptionError):
                await client.read()
            assert not any(b"secret" in each.read_bytes() for each in files(tmp_path))
            table = pq.read_table(files(tmp_path)[-1])
            assert table.column("payload").null_count == table.num_rows == 21
            assert table.column("offset").to_pylist() == list(range(20, 41))

    asyncio.run(main())


def test_a_reader_crosses_into_the_file_while_its_segment_moves(tmp_path: Path) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            records = await write_log(cluster)
            client = cluster.new_client()
            spans = await client.logs.snapshot(NAME)
            reader = await client.logs.read(NAME, follow=True)
            read = [await anext(reader) for _ in range(40)]
            slices = client.logs.read_span(spans[0])
            first = await anext(slices)
            await offload(cluster.new_client(), tmp_path)
            for bookie in cluster.bookies.values():
                bookie.ledgers.clear()
            read += [await anext(reader) for _ in range(len(records) - 40)]
            assert read == records
            await reader.close()
            pieces = [first, *[each async for each in slices]]
            for span in spans[1:]:
                pieces += [each async for each in client.logs.read_span(span)]
            assert [each for piece in pieces for each in piece.payloads()] == [
                each.payload for each in records
            ]

    asyncio.run(main())


def test_a_ledger_that_goes_just_when_it_is_opened_is_read_from_its_file(tmp_path: Path) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            records = await write_log(cluster)
            client, mover = cluster.new_client(), cluster.new_client()
            moved: list[LogManifest] = []

            async def move(method: str, path: str) -> None:
                if method == "get" and path.startswith(LEDGERS) and not moved:
                    moved.append(await offload(mover, tmp_path))

            client.store.before = move
            assert await client.read() == records
            assert len(moved) == 1

    asyncio.run(main())


def test_a_reader_passes_a_damaged_part_of_a_file_without_reading_it_for_every_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = ParquetEntries._entries
    groups: list[int] = []

    def counted(self: ParquetEntries, group: int) -> Iterator[Entry]:
        groups.append(group)
        return read(self, group)

    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            monkeypatch.setattr(parquet, "GROUP_ROWS", 40)
            async with await client.open(batch_records=1) as log:
                await append_all(log, numbered(0, 100))
            await offload(client, tmp_path)
            (path,) = files(tmp_path)
            data = bytearray(path.read_bytes())
            data[100] ^= 0x20
            path.write_bytes(data)
            monkeypatch.setattr(ParquetEntries, "_entries", counted)
            gaps: list[Gap] = []
            found = await client.read(on_gap=gaps.append)
            assert [each.payload for each in found] == numbered(40, 60)
            assert [(each.first, each.end) for each in gaps] == [
                (Position(1, 0, 0), Position(1, 40, 0))
            ]
            assert len(groups) < 10, "the damaged one was read again for every entry of it"

    asyncio.run(main())


def open_below(directory: Path) -> list[str]:
    """The files below a directory that this process has open."""
    found = []
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the listing's own
            found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return [each for each in found if each.startswith(str(directory))]


def test_a_file_that_cannot_be_believed_is_closed(tmp_path: Path) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            await write_log(cluster)
            await offload(client, tmp_path)
            for path in files(tmp_path):
                data = bytearray(path.read_bytes())
                data[-20] ^= 0xFF  # in the footer
                path.write_bytes(data)
            gc.collect()
            gc.disable()
            try:
                with pytest.raises(CorruptStorageError) as caught:
                    await client.read()
                await until(lambda: not open_below(tmp_path))  # a thread may still let go of it
                assert caught.value.path
            finally:
                gc.enable()

    asyncio.run(main())


def test_a_file_is_closed_with_its_reader(tmp_path: Path) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            records = await write_log(cluster)
            await offload(client, tmp_path)
            gc.collect()
            gc.disable()
            try:
                async with await client.logs.read(NAME) as reader:
                    await anext(reader)
                    assert len(open_below(tmp_path)) == 1
                assert await client.read() == records
                await until(lambda: not open_below(tmp_path))  # a thread may still let go of it
            finally:
                gc.enable()

    asyncio.run(main())
