"""How far a log has come: what nobody has reached cannot be trimmed to, nor be where a cursor is.

Whoever gives up what is before such a place would give up records that are acknowledged later.
"""

from __future__ import annotations

from quire.entry import EntryId
from quire.errors import InvalidRequestError
from quire.log.manifest import LogManifest, Segment
from quire.log.position import Position
from quire.log.search import OpenSegment


async def check_reached(
    manifest: LogManifest, position: Position, open_segment: OpenSegment
) -> None:
    """Raises `InvalidRequestError` unless everything that will ever be before a position is
    acknowledged, and what reading raises. Of sealed segments nothing is read.
    """
    if position > Position(manifest.next_segment, 0, 0):
        _refuse(manifest, position, Position(manifest.next_segment, 0, 0))
    opened = manifest.open_segments
    if not opened or position <= opened[0].start:
        return
    for segment in reversed(opened):
        entries = 0
        if segment.number == position.segment:
            entries = position.entry + bool(position.slot)
        last, is_closed = await _end(segment, max(0, entries - 1), open_segment)
        if segment.number == position.segment and last + 1 < entries:
            _refuse(manifest, position, Position(segment.number, last + 1, 0))
        if segment.number < position.segment and not is_closed:
            _refuse(manifest, position, Position(segment.number, last + 1, 0))
        if segment.number >= position.segment and last >= 0:
            return  # everything in the segments before is acknowledged


async def _end(
    segment: Segment, wanted: EntryId, open_segment: OpenSegment
) -> tuple[EntryId, bool]:
    """Return the last confirmed entry of an open segment, the last acknowledged one if that is
    before an entry that is wanted; and whether it is closed.
    """
    reader = await open_segment(segment)
    try:
        last = await reader.last_confirmed()
        if last < wanted:  # acknowledged, perhaps, and not announced yet
            last = await reader.last_acknowledged()
        return last, reader.is_closed
    finally:
        await reader.close()


def _refuse(manifest: LogManifest, position: Position, end: Position) -> None:
    text = f"log {manifest.name!r} has no position {position} yet: it ends at {end}"
    raise InvalidRequestError(text)
