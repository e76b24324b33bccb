"""A reader of a file of which a part is damaged: each part comes from where it is sound."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq
import pytest

from quire.entry import Entry, EntryId
from quire.errors import HandleClosedError, UnreadableError
from quire.log.cold import parquet
from quire.log.cold.reader import OpenLedger, open_file
from quire.log.manifest.manifest import Segment
from quire.log.segment_store.port import SegmentSource
from tests.log.offloading import files, offload
from tests.support.log_cluster import LogCluster, append_all, numbered


class Ledger:
    """The ledger of a file, with the entries that were asked for, and how often it was closed."""

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = entries
        self.asked: list[EntryId] = []
        self.closed = 0
        self.is_away = False

    async def read_entry(self, entry: EntryId) -> Entry:
        if self.is_away:
            raise UnreadableError(1, entry, "the bookies are away")
        self.asked.append(entry)
        return self.entries[entry]

    async def read_head(self, entry: EntryId) -> bytes:
        return (await self.read_entry(entry)).payload

    async def read_runs(
        self, first: EntryId, last: EntryId | None = None
    ) -> AsyncGenerator[list[Entry], None]:
        end = len(self.entries) - 1 if last is None else last
        for entry in range(first, end + 1):
            yield [await self.read_entry(entry)]

    async def close(self) -> None:
        self.closed += 1


class Spoiled:
    """A segment of 100 entries in a file of three parts; the second part is damaged."""

    def __init__(self, segment: Segment, ledger: Ledger) -> None:
        self._segment = segment
        self.ledger = ledger

    async def open(self, kept: OpenLedger | None = None) -> SegmentSource:
        segment = self._segment
        assert segment.cold is not None
        assert segment.last_entry is not None

        async def give() -> SegmentSource:
            return cast("SegmentSource", self.ledger)

        return await open_file(
            segment.cold, segment.ledger, segment.last_entry, segment.base, kept or give
        )

    @classmethod
    async def write(cls, cluster: LogCluster, tmp_path: Path) -> Spoiled:
        client = cluster.new_client()
        async with await client.open(batch_records=1) as log:
            await append_all(log, numbered(0, 100))
        (segment,) = (await offload(client, tmp_path)).segments
        found = cls(segment, Ledger([]))
        reader = await found.open()
        found.ledger.entries = await everything(reader)
        await reader.close()
        spoil_second_part(*files(tmp_path))
        return found


def spoil_second_part(path: Path) -> None:
    groups = json.loads(pq.read_metadata(path).metadata[parquet.KEY])["groups"]
    assert [first for first, _, _ in groups] == [0, 40, 80]
    data = bytearray(path.read_bytes())
    data[groups[0][1] + 10] ^= 0x20
    path.write_bytes(data)


async def everything(source: Any, first: EntryId = 0, last: EntryId | None = None) -> list[Entry]:
    return [each async for run in source.read_runs(first, last) for each in run]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "GROUP_ROWS", 40)


def test_only_the_damaged_part_of_a_file_comes_from_the_ledger(tmp_path: Path) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            spoiled = await Spoiled.write(cluster, tmp_path)
            ledger = spoiled.ledger
            reader = await spoiled.open()
            for entry in (50, 0, 99, 51):
                assert (await reader.read_entry(entry)).entry == entry
                assert await reader.read_head(entry)
            assert ledger.asked == [50, 50, 51, 51]
            ledger.asked.clear()
            assert await everything(reader) == ledger.entries
            assert ledger.asked == list(range(40, 80))
            ledger.asked.clear()
            assert await everything(reader, 30, 44) == ledger.entries[30:45]
            assert await everything(reader, 78, 83) == ledger.entries[78:84]
            assert ledger.asked == [*range(40, 45), 78, 79]
            await reader.close()
            assert ledger.closed == 1

    asyncio.run(main())


def test_sound_parts_are_read_while_the_bookies_are_away(tmp_path: Path) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            spoiled = await Spoiled.write(cluster, tmp_path)
            reader = await spoiled.open()
            assert (await reader.read_entry(50)).entry == 50
            spoiled.ledger.is_away = True
            assert (await reader.read_entry(0)).entry == 0
            assert await everything(reader, 80) == spoiled.ledger.entries[80:]
            with pytest.raises(UnreadableError):
                await reader.read_entry(50)
            await reader.close()

    asyncio.run(main())


def test_a_ledger_that_opens_for_a_closed_reader_is_closed_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            spoiled = await Spoiled.write(cluster, tmp_path)
            opening, may_open = asyncio.Event(), asyncio.Event()

            async def slowly() -> SegmentSource:
                opening.set()
                await may_open.wait()
                return cast("SegmentSource", spoiled.ledger)

            reader = await spoiled.open(slowly)
            reading = [asyncio.ensure_future(reader.read_entry(50)) for _ in range(3)]
            await opening.wait()
            assert (await reader.read_entry(0)).entry == 0, "the first part is sound"
            await reader.close()
            may_open.set()
            found = await asyncio.gather(*reading, return_exceptions=True)
            assert [type(each) for each in found] == [HandleClosedError] * 3
            assert spoiled.ledger.closed == 1

    asyncio.run(main())
