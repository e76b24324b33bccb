"""How far a log has come: what nobody has reached cannot be trimmed to, nor be where a cursor is.

Whoever gives up what is before such a place would give up records that are acknowledged later.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from quire.entry import EntryId
from quire.errors import InvalidRequestError
from quire.log.manifest.manifest import LogManifest, Segment
from quire.log.reading.search import OpenSegment
from quire.log.reading.segment_reader import SegmentReader
from quire.log.records.position import Position


def check_place(position: Position) -> None:
    """Raises `InvalidRequestError` for what is no position, as with a slot below 0: a record that
    held it could not be read again.
    """
    Position.parse(str(position))


async def check_reached(
    manifest: LogManifest, position: Position, open_segment: OpenSegment
) -> Position:
    """Return the same place, in front of segments that were closed without a record.

    Raises `InvalidRequestError` for what is no position, and unless everything that will ever be
    before it is acknowledged; and what reading raises. Of sealed segments nothing is read, and of
    what is behind the position only when what is before it leaves that open.
    """
    check_place(position)
    if position > Position(manifest.next_segment, 0, 0):
        raise _not_reached(manifest, position, Position(manifest.next_segment, 0, 0))
    opened, place = manifest.open_segments, position
    before = [each for each in opened if each.start < position]
    wanted = position.entry + bool(position.slot)
    for segment in reversed(before):
        last, is_closed = await _end(segment, open_segment, _confirmed)
        is_inside = segment.number == position.segment
        if not is_closed and not (is_inside and last + 1 >= wanted):
            break
        if last >= 0:
            return place  # everything in the segments before is acknowledged
        place = segment.start
    else:
        return place
    for later in opened[len(before) :]:
        if (await _end(later, open_segment, _acknowledged))[0] >= 0:
            return place
    if is_inside:  # acknowledged, perhaps, and not announced yet
        last, _ = await _end(segment, open_segment, _acknowledged)
        if last + 1 >= wanted:
            return place
    raise _not_reached(manifest, position, Position(segment.number, last + 1, 0))


async def _confirmed(reader: SegmentReader) -> EntryId:
    return await reader.last_confirmed()


async def _acknowledged(reader: SegmentReader) -> EntryId:
    return await reader.last_acknowledged()


async def _end(
    segment: Segment,
    open_segment: OpenSegment,
    find: Callable[[SegmentReader], Awaitable[EntryId]],
) -> tuple[EntryId, bool]:
    """Return the last entry of an open segment, and whether it is closed by now."""
    reader = await open_segment(segment)
    try:
        return await find(reader), reader.is_closed
    finally:
        await reader.close()


def _not_reached(manifest: LogManifest, position: Position, end: Position) -> InvalidRequestError:
    text = f"log {manifest.name!r} has no position {position} yet: it ends at {end}"
    return InvalidRequestError(text)
