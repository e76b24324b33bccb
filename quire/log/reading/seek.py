"""Where a reader begins: the position of a start, in a log that may have lost records.

A search reads few entries, in as few segments as the manifest allows. If one of these is lost, a
reader with a policy for gaps begins earlier, at a position with no wanted record before it, and
skips the records below its threshold. So the search need not prove that an entry is lost: the
reader detects and reports gaps.
"""

from __future__ import annotations

from datetime import datetime
from typing import TypeAlias

from quire.entry import EntryId
from quire.errors import IntegrityError, NoSuchEntryError, PositionTrimmedError
from quire.log.manifest.manifest import LogManifest, Segment
from quire.log.manifest.pages_at_hand import Walk, segment_from
from quire.log.manifest.times import TimeSearch
from quire.log.reading.gaps import LOST, is_lost
from quire.log.reading.search import OpenSegment, find_offset, find_time, find_txid, offset_of
from quire.log.reading.segment_reader import SegmentReader
from quire.log.reading.start import NO_OFFSET, Threshold
from quire.log.records.position import BEGINNING, AtTxid, Position, to_ms
from quire.log.records.txids import NO_TXID

Asked: TypeAlias = Position | int | datetime | AtTxid
"""A start that says by itself where it is: a position, an offset, a time or a txid."""


async def find_start(
    manifest: LogManifest, asked: Asked, open_segment: OpenSegment, now_ms: int
) -> tuple[Position, Threshold]:
    """Return the position of a start, or the end if no such record is there yet, and the threshold
    that records from there on may still be below.

    Args:
        manifest: the log.
        asked: the start.
        open_segment: opens a segment of it.
        now_ms: the present by the reader's clock, in Unix milliseconds.

    Raises:
        PositionTrimmedError: it is an offset, and its segment has left the log.
        QuireError: the errors of reading.
    """
    threshold = Threshold.of(asked)
    if isinstance(asked, Position):
        return asked, threshold
    if isinstance(asked, AtTxid):
        return await find_txid(manifest, asked.txid, open_segment), threshold
    if isinstance(asked, datetime):
        search = TimeSearch(to_ms(asked), now_ms)
        end = await find_time(manifest, search, open_segment)
        if search.position is None:
            return end, threshold._replace(floor_ms=search.floor_ms)
        return end, Threshold()
    return await find_offset(manifest, asked, open_segment), threshold


async def find_in_front(
    manifest: LogManifest, threshold: Threshold, open_segment: OpenSegment
) -> Position | None:
    """Return a position with no record before it at or above a threshold, except trimmed ones,
    whichever entries are lost. None if the first such record may be in a segment that is still
    written: readers leave nothing out there.
    """
    segment = await _first_not_below(manifest, threshold)
    if segment is None or segment.end is None:
        return None
    first_left = max(segment.start, manifest.first_position)
    try:
        reader = await open_segment(segment)
    except LOST:
        return first_left
    try:
        place = await _bisect(reader, segment.end.last_entry, threshold)
        if place < first_left and threshold.offset != NO_OFFSET:
            try:
                header = await reader.header(first_left.entry)
            except LOST as error:
                if not is_lost(error):  # it is away, and may show that the offset was trimmed
                    raise
            else:
                if threshold.offset < header.first_offset + first_left.slot:
                    return place
    finally:
        await reader.close()
    return max(place, first_left)


async def _first_not_below(manifest: LogManifest, threshold: Threshold) -> Segment | None:
    """Return the first segment that is not below a threshold by the manifest."""
    async for segment in Walk(manifest, skips=threshold.is_above_all_of):
        if not threshold.is_above(segment):
            return segment
    return None


async def _bisect(reader: SegmentReader, last: EntryId, threshold: Threshold) -> Position:
    """Return the first entry after all entries that are known to be below."""
    low, high = 0, last + 1
    while low < high:
        middle = (low + high) // 2
        if await _is_below(reader, middle, threshold):
            low = middle + 1
        else:
            high = middle
    return Position(reader.segment.number, low, 0)


async def _is_below(reader: SegmentReader, entry: EntryId, threshold: Threshold) -> bool:
    """Whether every record of an entry is known to be below a threshold."""
    try:
        header = await reader.header(entry)
        if header.next_offset <= threshold.offset or threshold.is_older(header.timestamp_ms):
            return True
        if threshold.txid == NO_TXID:
            return False
        return await reader.last_txid(entry) < threshold.txid
    except LOST:
        return False


async def first_offset(manifest: LogManifest, open_segment: OpenSegment) -> int:
    """Return the offset of the first record left, or of the next one if none is left.

    It is lower while an open segment hides its end, and never higher: every record before it was
    trimmed, by the manifest. Raises the errors of reading.
    """
    return await offset_of(manifest, manifest.first_position, open_segment)


async def check_left(
    manifest: LogManifest, start: Position | int, open_segment: OpenSegment
) -> None:
    """Raise `PositionTrimmedError` if a record at or after a position or an offset was trimmed.

    The place after the last trimmed record is there, however it is written. Raises the errors of
    reading while the place is looked up.
    """
    if manifest.trimmed_to == BEGINNING:
        return
    point, known = manifest.trimmed_to, manifest.offset_trimmed_to
    if isinstance(start, int) and known is not None:
        is_left = start >= known
    else:
        place = (
            start
            if isinstance(start, Position)
            else await find_offset(manifest, start, open_segment)
        )
        is_left = place >= point or await is_after_removed(manifest, place, open_segment)
    if not is_left:
        named = str(start) if isinstance(start, Position) else f"offset {start}"
        raise PositionTrimmedError(manifest.name, named, str(manifest.first_position))


async def is_after_removed(
    manifest: LogManifest, position: Position, open_segment: OpenSegment
) -> bool:
    """Whether a position before the trim point is after the last record that was removed: by its
    slot, or because the trim point is at a later segment's start.

    Only the segment can tell, so it must still be listed. If its entry is lost, records after the
    position may have been removed.
    """
    segment, point = await segment_from(manifest, position.segment), manifest.trimmed_to
    if segment is None or segment.number != position.segment:
        return False
    following = await segment_from(manifest, segment.number + 1)
    is_inside = point == (position.segment, position.entry + 1, 0)
    is_at_end = point.segment > segment.number and (following is None or point <= following.start)
    if not (is_inside or is_at_end):
        return False
    reader = await open_segment(segment)
    try:
        last = await reader.last_confirmed()
        if is_at_end or last < position.entry:
            last = await reader.last_acknowledged()  # as everything before the trim point is
        if is_at_end and position.entry != last:
            return position.entry == last + 1
        return (await reader.header(position.entry)).count <= position.slot
    except (IntegrityError, NoSuchEntryError):
        return False
    finally:
        await reader.close()
