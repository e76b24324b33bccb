"""What a new leader reads before it writes: the memory of producers, from the end of the log.

The last batch tells where the last snapshot is; everything from there on is read once. A log
without producers costs one read. Batches that were trimmed are read too while their segment is
there. When the snapshot went with its segment the memory begins with the first batch left: who
trims a log to its very end forgets who wrote it.
"""

from __future__ import annotations

from contextlib import aclosing

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
from quire.log.reader import LogReader
from quire.log.search import OpenSegment, find_offset
from quire.log.segment_reader import RecordBatch


async def snapshot_position(manifest: LogManifest, open_segment: OpenSegment) -> Position | None:
    """Return where to begin reading producers, None when the log has none.

    Every segment with records must be sealed. Raises what reading does.
    """
    sealed = [each for each in manifest.segments if each.end is not None]
    if not sealed:
        return None
    batch = await _last_batch(sealed[-1], open_segment)
    columns = _columns(batch, sealed[-1])
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


async def read_trimmed(
    manifest: LogManifest, start: Position, open_segment: OpenSegment
) -> tuple[Producers, Position]:
    """Return what is remembered of trimmed batches from `start` on, and where to read on.

    A trim within a segment leaves them in its ledger, out of the reach of readers. Raises as
    `restore_producers`.
    """
    producers, segment = Producers(), manifest.segment_from(start.segment)
    assert segment is not None, "what was found in a segment is"
    reader = await open_segment(segment)
    try:
        await reader.start(start.entry)
        while (found := await reader.next()) and found[0] <= manifest.trimmed_to.entry:
            producers = _note(producers, RecordBatch(segment.number, found[0], 0, found[1]))
    finally:
        await reader.close()
    return producers, Position(segment.number, manifest.trimmed_to.entry + 1, 0)


async def restore_producers(reader: LogReader, producers: Producers) -> Producers:
    """Return what is remembered at the end of the log, by a reader at `snapshot_position`.

    `producers` is what was remembered in front of it. Raises `CorruptEntryError` when a batch's
    columns do not add up, and what reading does.
    """
    async with reader, aclosing(reader.read_batches()) as batches:
        async for found in batches:
            producers = _note(producers, found)
    return producers


def _note(producers: Producers, found: RecordBatch) -> Producers:
    try:
        columns = decode_columns(found.batch.columns)
        if SNAPSHOT in columns:
            producers = Producers.decode(columns[SNAPSHOT])
        if STAMPS in columns:
            count = len(found.batch)
            stamps = decode_stamps(columns[STAMPS], count)
            producers.note_batch(found.batch.header.first_offset, stamps)
    except ValueError as error:
        raise CorruptEntryError(found.segment, found.entry, str(error)) from error
    return producers
