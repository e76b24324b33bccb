"""What is damaged, gone, from the future or impossible is named, and never served."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from quire.entry import Entry
from quire.errors import (
    ColdFileMissingError,
    ColdTierError,
    ConfigurationError,
    CorruptRecordError,
    CorruptStorageError,
    QuireError,
)
from quire.log.cold import parquet, tier
from quire.log.cold import reader as cold_reader
from quire.log.cold.checksums import Summing
from quire.log.maintenance.offload import target_uri
from quire.log.manifest import codec
from quire.log.manifest.manifest import LogManifest
from quire.log.manifest.schema import FIELDS
from quire.log.reading import gaps as gap
from quire.log.reading import reader
from quire.log.reading.bounds import Bounds
from quire.log.reading.gaps import Gap
from quire.log.records.position import Position
from quire.metastore.record import RecordFormat
from tests.log.offloading import files, offload, spanned, write_log
from tests.support.log_cluster import NAME, PATH, LogCluster, numbered

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
        kept = [each._replace(payload=each.payload.replace(b"27", b"28")) for each in entries]
        add(self, kept)
        self.content = Summing()
        for each in entries:
            self.content.add(each.payload)

    add = parquet.FileWriter.add
    monkeypatch.setattr(parquet.FileWriter, "add", forgetful)

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
            for name in [each for each in sys.modules if each.startswith("quire.log.cold.")]:
                monkeypatch.delitem(sys.modules, name)
            import quire.log.cold

            for name in ("reader", "parquet", "tier"):
                monkeypatch.delattr(quire.log.cold, name, raising=False)
            monkeypatch.setitem(sys.modules, "pyarrow", None)
            with pytest.raises(ConfigurationError, match=r"pip install 'quire\[cold\]'"):
                await client.read()
            await client.logs.trim(NAME, Position(2, 0, 0))  # deletes the file later
            assert len((await client.manifest()).doomed_files) == 1
            with pytest.raises(ConfigurationError):
                await client.logs.delete(NAME)
            assert len(files(tmp_path)) == 4
            assert not (await client.manifest()).retired, "nothing else is deleted, either"
            monkeypatch.undo()
            assert records
            await client.logs.delete(NAME)
            assert files(tmp_path) == []

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
    older = RecordFormat("log", FIELDS, (codec.VERSION,))
    monkeypatch.setattr(codec, "FORMAT", older)
    with pytest.raises(CorruptRecordError, match="upgrade quire"):
        LogManifest.decode(PATH, data)


@pytest.mark.parametrize("target", ["nosuch://x/y", "s3://key:secret@bucket/x"])
def test_a_place_that_cannot_be_is_refused(tmp_path: Path, target: str) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            await write_log(cluster)
            work = cluster.new_client().logs.offload(NAME)
            with pytest.raises(ConfigurationError, match=r"(cannot be in|password)") as raised:
                await work.begin(target)
            assert "secret" not in str(raised.value)

    asyncio.run(main())


@pytest.mark.parametrize(
    "target",
    ["s3://key:secret@[x/y", "~no-such-user/x", "a\0b", "", " ", "s3:/cold/quire", "file:/cold"],
)
def test_a_place_that_cannot_even_be_parsed_is_refused(target: str) -> None:
    with pytest.raises(ConfigurationError, match="cold segments cannot be in") as raised:
        target_uri(target)
    assert "secret" not in str(raised.value)


class Shaky:
    """A file system and its files, of which only the first few answers come."""

    def __init__(self, inner: Any, answers: int) -> None:
        self._inner = inner
        self._left = iter(range(answers))

    def get_file_info(self, path: str) -> Any:
        return self._inner.get_file_info(path)

    def open_input_file(self, path: str) -> Any:
        self._answer()
        return Shaky(self._inner.open_input_file(path), sum(1 for _ in self._left))

    def read_at(self, count: int, start: int) -> Any:
        self._answer()
        return self._inner.read_at(count, start)

    def _answer(self) -> None:
        if next(self._left, None) is None:
            raise OSError(110, "connection timed out")


def test_a_reader_without_memory_does_not_take_files_for_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(self: Any, group: int, columns: tuple[str, ...]) -> Any:
        raise pa.ArrowMemoryError("malloc of size 8388608 failed")

    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            records = await write_log(cluster)
            await offload(client, tmp_path)
            gaps: list[Gap] = []
            with monkeypatch.context() as patch:
                patch.setattr(cold_reader.ParquetEntries, "_table", exhausted)
                patch.setattr(gap, "PATIENCE_SECONDS", 0.1)
                with pytest.raises(MemoryError):
                    await client.read(on_gap=gaps.append)
            assert gaps == []
            assert await client.read(on_gap=gaps.append) == records

    asyncio.run(main())


@pytest.mark.parametrize("answers", [0, 1, 3])
def test_a_file_system_that_does_not_answer_is_not_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: int
) -> None:
    def shaky(uri: str) -> tuple[Any, str]:
        system, path = tier.locate(uri)
        return Shaky(system, answers), path

    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            records = await write_log(cluster)
            await offload(client, tmp_path)
            gaps: list[Gap] = []
            with monkeypatch.context() as patch:
                patch.setattr(cold_reader, "locate", shaky)
                patch.setattr(reader, "RETRY_SECONDS", 0.1)
                patch.setattr(gap, "PATIENCE_SECONDS", 0.1)
                with pytest.raises(ColdTierError, match="connection timed out"):
                    await client.read(on_gap=gaps.append)
            assert gaps == []
            assert await client.read(on_gap=gaps.append) == records

    asyncio.run(main())


def test_a_file_whose_footer_is_damaged_is_a_gap(tmp_path: Path) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            records = await write_log(cluster)
            await offload(client, tmp_path)
            path = files(tmp_path)[1]
            data = bytearray(path.read_bytes())
            data[-20] ^= 0xFF
            path.write_bytes(data)
            left = [each for each in records if each.position.segment != 2]
            lost = next(each.offset for each in records if each.position.segment == 2)
            for start in (0, lost, lost + 5):
                gaps: list[Gap] = []
                found = await client.read(start, on_gap=gaps.append)
                assert found == [each for each in left if each.offset >= start]
                assert [(each.first, each.end) for each in gaps] == [
                    (Position(2, 0, 0), Position(3, 0, 0))
                ]
                with pytest.raises(CorruptStorageError):
                    await client.read(start)

    asyncio.run(main())


def test_a_file_that_is_not_there_is_an_error_whatever_is_said_of_gaps(tmp_path: Path) -> None:
    """Nothing is lost where a directory is not mounted."""

    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            records = await write_log(cluster)
            await offload(client, tmp_path)
            path = files(tmp_path)[1]
            path.rename(path.with_suffix(".away"))
            lost = next(each.offset for each in records if each.position.segment == 2)
            gaps: list[Gap] = []
            for start in (0, lost, lost + 5):
                with pytest.raises(ColdFileMissingError):
                    await client.read(start, on_gap=gaps.append)
            path.with_suffix(".away").rename(path)
            assert await client.read(on_gap=gaps.append) == records
            assert gaps == []

    asyncio.run(main())
