"""Looking for a place in a log that goes on meanwhile: no record in between is skipped.

The log here has three open segments, and goes on from one length to another between two looks of
the search, whichever they are. What bookies know of the end of a segment may be an entry late, and
stay so because its writer is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from enum import Enum, auto
from itertools import pairwise
from typing import Final, TypeAlias, cast

import pytest

from quire.errors import UnreadableError
from quire.log.manifest.manifest import LogManifest, Segment
from quire.log.manifest.segment import SegmentEnd
from quire.log.manifest.times import TimeSearch
from quire.log.reading import search
from quire.log.reading.search import (
    OpenSegment,
    find_offset,
    find_record,
    find_tail,
    find_txid,
    offset_of,
)
from quire.log.reading.segment_reader import SegmentReader
from quire.log.records.batch import BatchHeader, Compression
from quire.log.records.position import Position

STARTS: Final = (0, 3, 5, 8)
"""The first offsets of the segments, and the end of the last. One record is an entry; its offset
is its time and its txid, too."""
END: Final = STARTS[-1]
LOOKS_MAX: Final = 12


class Writer(Enum):
    PROMPT = auto()
    LATE = auto()
    GONE = auto()


Find: TypeAlias = Callable[[LogManifest, int, OpenSegment], Awaitable[Position]]


async def find_time(manifest: LogManifest, time_ms: int, open_segment: OpenSegment) -> Position:
    return await search.find_time(manifest, TimeSearch(time_ms, END), open_segment)


class GrowingLog:
    """Holds `before` records until so many looks, then `after`."""

    def __init__(self, before: int, after: int, looks: int, writer: Writer) -> None:
        self.before, self.after, self.looks = before, after, looks
        self.writer = writer
        self.manifest = LogManifest(
            "log",
            "id",
            0,
            1,
            tuple(
                Segment(number, number, 1, 0, STARTS[0] if number == 1 else None)
                for number in range(1, len(STARTS))
            ),
            len(STARTS),
        )

    def look(self) -> int:
        self.looks -= 1
        return self.before if self.looks >= 0 else self.after

    async def open_segment(self, segment: Segment) -> SegmentReader:
        return cast(SegmentReader, GrowingSegment(self, segment))


class GrowingSegment:
    """The calls of `SegmentReader` that a search makes."""

    def __init__(self, log: GrowingLog, segment: Segment) -> None:
        self.segment = segment
        self._log = log
        self._first, self._end = list(pairwise(STARTS))[segment.number - 1]

    def _last(self) -> int:
        return min(self._log.look(), self._end) - self._first - 1

    async def last_acknowledged(self) -> int:
        last = max(self._last(), -1)
        if self._log.writer is Writer.GONE and last >= 0:
            raise UnreadableError(self.segment.ledger, last, "its writer is silent")
        return last

    async def last_confirmed(self) -> int:
        return max(self._last() - (self._log.writer is not Writer.PROMPT), -1)

    async def header(self, entry: int) -> BatchHeader:
        offset = await self.last_txid(entry)
        return BatchHeader(Compression.NONE, 1, 0, offset, 1, offset)

    async def last_txid(self, entry: int) -> int:
        offset = self._first + entry
        assert offset < max(self._log.before, self._log.after), "it is not there"
        return offset

    async def close(self) -> None:
        return None


def offset_at(position: Position) -> int:
    """The offset of the record at a position, or behind it."""
    return STARTS[position.segment - 1] + position.entry


@pytest.mark.parametrize("find", [find_offset, find_time, find_txid])
@pytest.mark.parametrize("writer", Writer)
@pytest.mark.slow
def test_a_search_skips_nothing_that_comes_meanwhile(find: Find, writer: Writer) -> None:
    async def main() -> None:
        for before in range(END + 1):
            for after in range(before, END + 1):
                for wanted in range(END):
                    for looks in range(LOOKS_MAX):
                        await check(find, before, after, wanted, looks)

    async def check(find: Find, before: int, after: int, wanted: int, looks: int) -> None:
        log = GrowingLog(before, after, looks, writer)
        found = await find(log.manifest, wanted, log.open_segment)
        what = f"{wanted} in a log of {before} records that has {after} after {looks} looks"
        assert offset_at(found) <= wanted, f"{what}: {found}"
        if writer is not Writer.GONE and wanted < before - (writer is Writer.LATE):
            assert offset_at(found) == wanted, f"{what}: {found}"

    asyncio.run(main())


@pytest.mark.parametrize("writer", Writer)
def test_a_record_is_found_where_it_is_or_not_at_all(writer: Writer) -> None:
    async def main() -> None:
        found = 0
        for records in range(1, END + 1):
            for wanted in range(records):
                log = GrowingLog(records, records, 0, writer)
                try:
                    position = await find_record(log.manifest, wanted, log.open_segment)
                except UnreadableError:
                    assert writer is not Writer.PROMPT
                    continue
                found += 1
                assert offset_at(position) == wanted
                assert position.entry < STARTS[position.segment] - STARTS[position.segment - 1]
        assert found

    asyncio.run(main())


@pytest.mark.parametrize("writer", Writer)
def test_the_offset_of_a_position_is_not_that_of_what_comes_behind_it(writer: Writer) -> None:
    async def main() -> None:
        places = [(Position(1, at, 0) if at < 3 else Position(2, at - 3, 0)) for at in range(5)]
        for before in range(END + 1):
            for after in range(before, END + 1):
                for looks in range(LOOKS_MAX):
                    for place in places:
                        log = GrowingLog(before, after, looks, writer)
                        found = await offset_of(log.manifest, place, log.open_segment)
                        assert found <= offset_at(place)
                        if writer is Writer.PROMPT:
                            assert found >= min(offset_at(place), before)

    asyncio.run(main())


@pytest.mark.parametrize("writer", Writer)
def test_the_latest_position_is_one_of_the_time_of_the_search(writer: Writer) -> None:
    async def main() -> None:
        for before in range(END + 1):
            for after in range(before, END + 1):
                for looks in range(LOOKS_MAX):
                    log = GrowingLog(before, after, looks, writer)
                    found = offset_at((await find_tail(log.manifest, log.open_segment)).position)
                    late = writer is not Writer.PROMPT
                    known = before - late * (len(STARTS) - 1)  # each segment may be
                    assert known <= found <= after

    asyncio.run(main())


@pytest.mark.parametrize("find", [find_offset, find_time, find_txid])
def test_what_is_sealed_is_found_when_nobody_knows_the_end(find: Find) -> None:
    async def main() -> None:
        log = GrowingLog(END, END, 0, Writer.PROMPT)
        sealed, *others = log.manifest.segments
        sealed = replace(sealed, end=SegmentEnd(2, 1, 3, 3, 2, 2))
        manifest = replace(log.manifest, rows=(sealed, *others))

        async def open_segment(segment: Segment) -> SegmentReader:
            assert segment == sealed, "its bookies are down"
            return await log.open_segment(segment)

        assert await find(manifest, 1, open_segment) == Position(1, 1, 0)

    asyncio.run(main())
