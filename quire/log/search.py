"""Finding positions: the latest one, and that of an offset.

Sealed segments are found in the manifest alone. Inside a segment the entries are bisected: each
says at which offset it starts, so a million entries take twenty reads.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

from quire.errors import PositionTrimmedError
from quire.log.manifest import LogManifest, Segment
from quire.log.position import Position
from quire.log.segment_reader import SegmentReader

OpenSegment: TypeAlias = Callable[[Segment], Awaitable[SegmentReader]]


@asynccontextmanager
async def _opened(open_segment: OpenSegment, segment: Segment) -> AsyncIterator[SegmentReader]:
    reader = await open_segment(segment)
    try:
        yield reader
    finally:
        await reader.close()


async def find_latest(manifest: LogManifest, open_segment: OpenSegment) -> Position:
    """Return the position behind the last record that is confirmed now."""
    for segment in reversed(manifest.open_segments):
        async with _opened(open_segment, segment) as reader:
            last = await reader.last_confirmed()
        if last >= 0:
            return Position(segment.number, last + 1, 0)
    first_open = manifest.open_segments[:1]
    return first_open[0].start if first_open else Position(manifest.next_segment, 0, 0)


async def find_offset(manifest: LogManifest, offset: int, open_segment: OpenSegment) -> Position:
    """Return the position of the record with an offset.

    An offset that is not confirmed yet gives the end, from where it will come. Raises
    `PositionTrimmedError` when the segment that held it has left the log.
    """
    if offset < manifest.first_offset:
        first = str(manifest.first_position)
        raise PositionTrimmedError(manifest.name, f"offset {offset}", first)
    candidates = [
        each for each in manifest.segments if each.end_offset is None or offset < each.end_offset
    ]
    position = Position(manifest.next_segment, 0, 0)
    for segment in candidates:
        async with _opened(open_segment, segment) as reader:
            last = await reader.last_confirmed()
            found = await _bisect(reader, last, offset)
        if found is not None:
            return found
        if last >= 0 or segment is candidates[0]:
            position = Position(segment.number, last + 1, 0)
    return position


async def _bisect(reader: SegmentReader, last: int, offset: int) -> Position | None:
    """Return the position of an offset among entries 0..last, None when it is behind them."""
    low, high = 0, last
    while low <= high:
        middle = (low + high) // 2
        header = await reader.header(middle)
        if offset < header.first_offset:
            high = middle - 1
        elif offset >= header.next_offset:
            low = middle + 1
        else:
            return Position(reader.segment.number, middle, offset - header.first_offset)
    return None
