"""Offload: whatever fails, and whenever, every record stays readable, and doing it again ends well.

Files are real, so these tests run on asyncio's own loop.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pyarrow.parquet as pq
import pytest

from quire.entry import Entry
from quire.errors import (
    ConfigurationError,
    CorruptRecordError,
    CorruptStorageError,
    NoSuchLogError,
    QuireError,
)
from quire.log import cold_parquet, manifest
from quire.log.adoption import Adoption
from quire.log.batch import UNPLACED, Compression, encode_batch
from quire.log.bounds import Bounds
from quire.log.cold import ColdFile, ColdFileMissingError
from quire.log.cold_seal import Summing
from quire.log.errors import DecryptionError
from quire.log.keyring import Keyring
from quire.log.manifest import Job, LogManifest
from quire.log.offload import Offload, is_orphan
from quire.log.options import LogOptions
from quire.log.position import Position, Record
from quire.log.producers import Stamp
from quire.metastore.layout import LEDGERS
from tests.support.log_cluster import NAME, PATH, Client, LogCluster, append_all, numbered

RECORDS = 120


async def write_log(cluster: LogCluster, **options: Any) -> list[Record]:
    """A log of four sealed segments, one of them adopted, and return its records."""
    client = cluster.new_client()
    async with await client.open(batch_records=7, **options) as log:
        for start in range(0, 90, 30):
            await append_all(log, numbered(start, 30))
            await log.append(b"stamped", stamp=Stamp("p\u00e9", start), transaction=start)
            await log.roll()
    await adopt(client.logs.adoption(NAME))
    return await client.read()


async def adopt(adoption: Adoption) -> None:
    """Have the log adopt a ledger that was written outside it."""
    part = await adoption.create_part("job", LogOptions())
    for first in (0, 10):
        records = numbered(90 + first, 10)
        entry = encode_batch(records, first_offset=first, epoch=UNPLACED.epoch, timestamp_ms=0)
        await part.append(entry)
    await part.close()
    await adoption.adopt([part.ledger], Job("job", 0), remember=True)


async def offload(client: Client, target: Path, *, keep: bool = False) -> LogManifest:
    work: Offload = client.logs.offload(NAME)
    tier, segments = await work.begin(str(target))
    manifest = await client.manifest()
    for segment in segments:
        manifest = await work.commit({segment.number: await work.write(segment, tier)})
    if not keep:
        manifest = await work.release()
    await work.sweep()
    return manifest


def files(target: Path) -> list[Path]:
    return sorted(each for each in target.rglob("*") if each.is_file())


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
            (state,) = [each async for each in states(client)]
            assert state == len(records) - 40

    asyncio.run(main())


async def states(client: Client) -> Any:
    for each in await client.logs.cursors(NAME).list():
        yield await client.logs.cursors(NAME).lag(each)


async def spanned(client: Client, bounds: Bounds) -> list[bytes]:
    payloads: list[bytes] = []
    for span in await client.logs.snapshot(NAME, bounds=bounds):
        for piece in span.split(100):
            async for found in client.logs.read_span(piece):
                payloads += found.payloads()
    return payloads


def test_a_leader_goes_on_behind_cold_segments_and_remembers_producers(tmp_path: Path) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            async with await client.open() as log:
                first = await log.append(b"one", stamp=Stamp("p", 7))
            await offload(client, tmp_path)
            async with await client.open() as log:
                assert await log.append(b"again", stamp=Stamp("p", 7)) == first
                await log.append(b"two", stamp=Stamp("p", 8))
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
                assert found == record[1:]
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
                await log.append(b"secret and numbered", transaction=5)
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


class CrashError(Exception):
    """The process ends here."""


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_crash_at_any_call_of_the_store_loses_nothing(tmp_path: Path, moment: str) -> None:
    async def attempt(number: int) -> bool:
        """Crash at a call; returns False when there was none of that number."""
        target = tmp_path / f"{moment}{number}"
        async with LogCluster() as cluster:
            records = await write_log(cluster)
            doing, calls = cluster.new_client(), count()

            async def crash(method: str, path: str) -> None:
                if next(calls) == number:
                    raise CrashError

            setattr(doing.store, moment, crash)
            crashed = False
            try:
                await offload(doing, target)
            except CrashError:
                crashed = True
            assert await cluster.new_client().read() == records
            again = cluster.new_client()
            found = await offload(again, target)
            assert await cluster.new_client().read() == records
            assert await cluster.ledgers() == []
            named = [each.cold.name for each in found.segments if each.cold]
            assert [each.name for each in files(target)] == sorted(named)
            await again.logs.delete(NAME)
            assert files(target) == []
            return crashed

    async def main() -> int:
        for number in count():
            if not await attempt(number):
                return number
        raise AssertionError

    assert asyncio.run(main()) > 25


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


def test_a_trim_deletes_files_after_the_manifest_forgot_them(tmp_path: Path) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            records = await write_log(cluster)
            client = cluster.new_client()
            await offload(client, tmp_path, keep=True)
            assert len(await cluster.ledgers()) == 4
            doing, calls = cluster.new_client(), count()

            async def crash(method: str, path: str) -> None:
                if method == "put" and path == PATH and next(calls) == 0:
                    raise CrashError

            doing.store.after = crash
            with pytest.raises(CrashError):
                await doing.logs.trim(NAME, Position(3, 0, 0))
            manifest = await client.manifest()
            assert len(manifest.doomed_files) == len(manifest.doomed) == 2
            assert (len(files(tmp_path)), len(await cluster.ledgers())) == (4, 4)
            assert await client.read() == [each for each in records if each.position.segment >= 3]
            await client.logs.trim(NAME, Position(3, 0, 0))
            assert (len(files(tmp_path)), len(await cluster.ledgers())) == (2, 2)
            manifest = await client.manifest()
            assert (manifest.doomed_files, manifest.doomed) == ((), ())
            await client.logs.delete(NAME)
            assert files(tmp_path) == []

    asyncio.run(main())


def test_two_attempts_leave_one_file_and_both_may_be_repeated(tmp_path: Path) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            records = await write_log(cluster)
            one, other = (cluster.new_client().logs.offload(NAME) for _ in range(2))
            tier, segments = await one.begin(str(tmp_path))
            assert await other.begin(str(tmp_path)) == (tier, segments)
            mine = {each.number: await one.write(each, tier) for each in segments}
            theirs = {each.number: await other.write(each, tier) for each in segments}
            assert len(files(tmp_path)) == 8
            assert await one.sweep() == []  # somebody may still commit them
            await one.commit(mine)
            await other.commit(theirs)
            await one.commit(mine)
            assert sorted(each.name for each in mine.values()) == [
                each.name for each in files(tmp_path)
            ]
            await one.release()
            await other.release()
            assert await cluster.new_client().read() == records

    asyncio.run(main())


def test_a_segment_that_was_trimmed_meanwhile_takes_its_file_along(tmp_path: Path) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            await write_log(cluster)
            client = cluster.new_client()
            work = client.logs.offload(NAME)
            tier, segments = await work.begin(str(tmp_path))
            cold = await work.write(segments[0], tier)
            left = await work.write(segments[1], tier)
            await client.logs.trim(NAME, Position(3, 0, 0))
            manifest = await work.commit({segments[0].number: cold})
            assert manifest.doomed_files == ()
            assert [str(each) for each in await work.sweep()] == [left.uri]
            await client.logs.delete(NAME)
            with pytest.raises(NoSuchLogError):
                await work.commit({segments[1].number: left})
            assert files(tmp_path) == []

    asyncio.run(main())


def test_an_attempt_that_was_cut_short_is_swept_once_it_is_certain(tmp_path: Path) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            await write_log(cluster)
            client = cluster.new_client()
            work = client.logs.offload(NAME)
            tier, segments = await work.begin(str(tmp_path))
            name = f"{segments[0].number:08d}-{segments[0].ledger}-00000000.parquet"
            half = Path(url2pathname(urlsplit(tier).path)) / name
            half.parent.mkdir(parents=True)
            half.write_bytes(b"PAR1 and what came before the crash")
            assert await work.sweep() == []
            await offload(client, tmp_path)
            assert name not in [each.name for each in files(tmp_path)]

    asyncio.run(main())


Damage = Callable[[Path], object]


def flip(at: Callable[[int], int]) -> Damage:
    def damage(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[at(len(data))] ^= 0x20
        path.write_bytes(data)

    return damage


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        (Path.unlink, ColdFileMissingError),
        (lambda path: path.write_bytes(b""), CorruptStorageError),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), CorruptStorageError),
        (flip(lambda size: size - 6), CorruptStorageError),
        (flip(lambda size: size // 3), CorruptStorageError),
    ],
)
def test_a_file_that_is_gone_or_damaged_is_named(
    tmp_path: Path, damage: Damage, kind: type[QuireError]
) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            records = await write_log(cluster)
            client = cluster.new_client()
            await offload(client, tmp_path)
            (path, *_) = files(tmp_path)
            damage(path)
            with pytest.raises(kind, match=path.name) as raised:
                await client.read()
            assert "segment" not in str(raised.value) or path.name in str(raised.value)
            with pytest.raises(kind):
                await spanned(client, Bounds())
            behind = Position(2, 0, 0)
            assert await client.read(behind) == [
                each for each in records if each.position >= behind
            ]

    asyncio.run(main())


def test_every_flipped_byte_of_a_file_is_found(tmp_path: Path) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            async with await client.open() as log:
                await log.append_many(numbered(0, 50))
            await offload(client, tmp_path)
            (path,) = files(tmp_path)
            whole = path.read_bytes()
            found = 0
            for at in range(0, len(whole), 3):
                damaged = bytearray(whole)
                damaged[at] ^= 0xFF
                path.write_bytes(damaged)
                try:
                    await client.read()
                except CorruptStorageError:
                    found += 1
            assert found == len(range(0, len(whole), 3))

    asyncio.run(main())


def test_a_write_that_does_not_read_back_is_not_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forgetful(self: Any, entries: list[Entry]) -> None:
        kept = [replace(each, payload=each.payload.replace(b"27", b"28")) for each in entries]
        add(self, kept)
        self.content = Summing()
        for each in entries:
            self.content.add(each.payload)

    add = cold_parquet.FileWriter.add
    monkeypatch.setattr(cold_parquet.FileWriter, "add", forgetful)

    async def main() -> None:
        async with LogCluster() as cluster:
            records = await write_log(cluster)
            client = cluster.new_client()
            with pytest.raises(CorruptStorageError, match="read back as"):
                await offload(client, tmp_path)
            assert files(tmp_path) == []
            assert await client.read() == records

    asyncio.run(main())


def test_a_program_without_pyarrow_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            records = await write_log(cluster)
            client = cluster.new_client()
            await offload(client, tmp_path)
            for name in [each for each in sys.modules if each.startswith("quire.log.cold_")]:
                monkeypatch.delitem(sys.modules, name)
            import quire.log

            for name in ("cold_reader", "cold_parquet"):
                monkeypatch.delattr(quire.log, name, raising=False)
            monkeypatch.setitem(sys.modules, "pyarrow", None)
            with pytest.raises(ConfigurationError, match=r"pip install 'quire\[cold\]'"):
                await client.read()
            await client.logs.trim(NAME, Position(2, 0, 0))  # deletes the file later
            assert len((await client.manifest()).doomed_files) == 1
            with pytest.raises(ConfigurationError):
                await client.logs.delete(NAME)
            assert len(files(tmp_path)) == 4
            monkeypatch.undo()
            assert len(await client.logs.offload(NAME).sweep()) == 4
            assert files(tmp_path) == []
            assert records
            await client.logs.delete(NAME)

    asyncio.run(main())


def test_an_older_program_refuses_the_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> bytes:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            await write_log(cluster)
            before = (await client.store.get(PATH)).value
            assert before.startswith(b"quire log v1 ")
            await client.logs.offload(NAME).begin(str(tmp_path))
            return (await client.store.get(PATH)).value

    data = asyncio.run(main())
    assert data.startswith(b"quire log v2 ")
    monkeypatch.setattr(manifest, "COLD_VERSION", 99)
    with pytest.raises(CorruptRecordError, match="from the future"):
        LogManifest.decode(PATH, data)


@pytest.mark.parametrize("target", ["nosuch://x/y", "s3://key:secret@bucket/x"])
def test_a_place_that_cannot_be_is_refused(tmp_path: Path, target: str) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            await write_log(cluster)
            work = cluster.new_client().logs.offload(NAME)
            with pytest.raises(ConfigurationError, match=r"(no place for|password)") as raised:
                await work.begin(target)
            assert "secret" not in str(raised.value)

    asyncio.run(main())


def test_only_what_is_certain_is_an_orphan() -> None:
    tier = "file:///t/id"
    cold = ColdFile(tier, "00000001-100-aaaaaaaa.parquet", 1, 2)
    log = LogManifest("a", "id", 0, tiers=(tier,)).take_over({}, 100, 0)
    assert not is_orphan(log, tier, cold.name)
    assert not is_orphan(log, tier, "00000002-101-aaaaaaaa.parquet")
    assert not is_orphan(log, tier, "notes.txt")
    sealed = log.append_segment(101, 0).seal_segment(1, manifest.SegmentEnd(0, 1, 1, 1, 0))
    named = replace(sealed.segments[0], cold=cold)
    sealed = replace(sealed, segments=(named, *sealed.segments[1:]))
    assert not is_orphan(sealed, tier, cold.name)
    assert is_orphan(sealed, tier, "00000001-100-bbbbbbbb.parquet")
    assert is_orphan(sealed, "file:///u/id", cold.name)
    trimmed = sealed.trim(Position(2, 0, 0))
    assert trimmed.doomed_files == (cold.uri,)
    assert is_orphan(trimmed, tier, cold.name)
    assert LogManifest.decode("p", sealed.encode()) == sealed
    assert LogManifest.decode("p", trimmed.encode()) == trimmed
