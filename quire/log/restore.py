"""What a new leader reads before it writes: the memory of producers, from the end of the log.

The last batch tells where the last snapshot is; everything from there on is read once. A log
without producers costs one read. Adopted segments have no stamps and are passed over, whatever
their size. Batches that were trimmed are read too while their segment is there. When the snapshot
went with its segment the memory begins with the first batch left: who trims a log to its very end
forgets who wrote it.
"""

from __future__ import annotations

from collections.abc import Sequence

from quire.entry import EntryId
from quire.errors import CorruptEntryError, PositionTrimmedError
from quire.log.batch import Batch
from quire.log.manifest import LogManifest, Segment
from quire.log.position import Position
from quire.log.producers import (
    SNAPSHOT,
    SNAPSHOT_AT,
    STAMPS,
    Producers,
    decode_at,
    decode_columns,
    decode_stamps,
)
from quire.log.search import OpenSegment, find_offset


async def restore_producers(manifest: LogManifest, open_segment: OpenSegment) -> Producers:
    """Return what is remembered at the end of a log, whose segments with records are sealed.

    Raises `CorruptEntryError` when a batch's columns do not add up, `NoSuchLedgerError` when a
    segment was trimmed meanwhile, and what reading does.
    """
    written = [each for each in manifest.segments if each.end is not None and not each.adopted]
    producers = Producers()
    start = await _snapshot_position(manifest, written, open_segment)
    if start is None:
        return producers
    for segment in written:
        if segment.number >= start.segment:
            first = start.entry if segment.number == start.segment else 0
            producers = await _note_segment(producers, segment, first, open_segment)
    return producers


async def _snapshot_position(
    manifest: LogManifest, written: Sequence[Segment], open_segment: OpenSegment
) -> Position | None:
    """Return where to begin reading producers, None when the log has none."""
    if not written:
        return None
    batch = await _last_batch(written[-1], open_segment)
    columns = _columns(batch, written[-1])
    if SNAPSHOT in columns:
        offset = batch.header.first_offset
    elif SNAPSHOT_AT in columns:
        offset = decode_at(columns[SNAPSHOT_AT])
    else:
        return None
    try:
        return await find_offset(manifest, offset, open_segment)
    except PositionTrimmedError:
        return manifest.first_position


async def _last_batch(segment: Segment, open_segment: OpenSegment) -> Batch:
    assert segment.last_entry is not None
    reader = await open_segment(segment)
    try:
        await reader.start(segment.last_entry)
        found = await reader.next()
    finally:
        await reader.close()
    assert found is not None, "a sealed segment has a last entry"
    return found[1]


def _columns(batch: Batch, segment: Segment) -> dict[int, bytes]:
    try:
        return decode_columns(batch.columns)
    except ValueError as error:
        raise CorruptEntryError(segment.ledger, -1, str(error)) from error


async def _note_segment(
    producers: Producers, segment: Segment, first: EntryId, open_segment: OpenSegment
) -> Producers:
    """Return what is remembered behind a segment that is read from an entry on."""
    reader = await open_segment(segment)
    try:
        await reader.start(first)
        while found := await reader.next():
            producers = _note(producers, segment, *found)
    finally:
        await reader.close()
    return producers


def _note(producers: Producers, segment: Segment, entry: EntryId, batch: Batch) -> Producers:
    try:
        columns = decode_columns(batch.columns)
        if SNAPSHOT in columns:
            producers = Producers.decode(columns[SNAPSHOT])
        if STAMPS in columns:
            stamps = decode_stamps(columns[STAMPS], len(batch))
            producers.note_batch(batch.header.first_offset, stamps)
    except ValueError as error:
        raise CorruptEntryError(segment.ledger, entry, str(error)) from error
    return producers
