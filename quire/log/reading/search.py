"""Finding positions: the end of a log, the position of an offset, and the offset of a position.

Sealed segments are found by the manifest alone; pages that its references rule out are not read.
Inside a segment the entries are bisected: each names the offset at which it starts, so a million
entries take twenty reads.

A log grows while it is searched, and segments are read one after the other. A search must not skip
a record that was appended in between (`_walk`).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias, TypeVar

from quire.entry import EntryId
from quire.errors import (
    InvalidRequestError,
    MissingPageError,
    NoSuchLedgerError,
    PositionTrimmedError,
    UnreadableError,
)
from quire.log.manifest.manifest import LogManifest, Segment
from quire.log.manifest.pages_at_hand import Walk, segment_from
from quire.log.manifest.times import TimeSearch
from quire.log.reading.segment_reader import SegmentReader
from quire.log.records.position import LATEST, Position, check_offset, check_position

LOOKS_MAX: Final = 5
"""Looks that are begun because trims, offloads or take-overs overtook the ones before."""

T = TypeVar("T")

OpenSegment: TypeAlias = Callable[[Segment], Awaitable[SegmentReader]]


class LogEnd(NamedTuple):
    """The end of a log: the earliest position and offset that the next record can have."""

    position: Position
    offset: int


@asynccontextmanager
async def _opened(open_segment: OpenSegment, segment: Segment) -> AsyncIterator[SegmentReader]:
    reader = await open_segment(segment)
    try:
        yield reader
    finally:
        await reader.close()


async def look(
    describe: Callable[[], Awaitable[LogManifest]], find: Callable[[LogManifest], Awaitable[T]]
) -> T:
    """Find something in a log. Begin again when a ledger is gone that the log no longer lists:
    it was trimmed or offloaded, or a new leader dropped an empty segment. The same holds for a
    page of the manifest.

    Raises `NoSuchLedgerError` or `MissingPageError` for a listed one that is missing, and the
    errors of both calls.
    """
    manifest, looks = await describe(), 1
    while True:
        try:
            return await find(manifest)
        except (NoSuchLedgerError, MissingPageError):
            before, manifest = manifest, await describe()
            if manifest == before or looks == LOOKS_MAX:
                raise
            looks += 1


async def _walk(
    manifest: LogManifest, segments: Walk, open_segment: OpenSegment
) -> AsyncGenerator[tuple[SegmentReader, EntryId], None]:
    """Open segments in order, each with its last entry: as of one moment.

    If it took the end of one segment, and later the beginning of a segment written since, there
    would be a gap between them. A segment is written only when every entry of the segments
    before it is acknowledged. So the last written segment is found first. In the segments before
    it all acknowledged entries count; segments after it do not count. If a dead writer left an
    end undecided, the walk ends there.
    """
    written: int | None = None
    async for segment in segments:
        if segment.end is None:
            written = written or await _last_written(manifest, open_segment)
            if segment.number > written:
                return
        async with _opened(open_segment, segment) as reader:
            last = None
            if written is not None and segment.number < written:
                try:
                    last = await reader.last_acknowledged()
                except UnreadableError:
                    written = segment.number
            yield reader, await reader.last_confirmed() if last is None else last


async def _last_written(manifest: LogManifest, open_segment: OpenSegment) -> int:
    """Return the number of the last open segment with a confirmed entry; of the first open
    segment if none is known to have one.
    """
    first, *others = manifest.open_segments
    for segment in reversed(others):
        async with _opened(open_segment, segment) as reader:
            if await reader.last_confirmed() >= 0:
                return segment.number
    return first.number


async def find_tail(manifest: LogManifest, open_segment: OpenSegment) -> LogEnd:
    """Return the end of the log as far as it is known to be confirmed now."""
    for segment in reversed(manifest.open_segments):
        async with _opened(open_segment, segment) as reader:
            last = await reader.last_confirmed()
            if last >= 0:
                offset = (await reader.header(last)).next_offset
                return LogEnd(Position(segment.number, last + 1, 0), offset)
    if manifest.open_segments:
        first_open = manifest.open_segments[0]
        assert first_open.first_offset is not None, "the first open segment knows where it starts"
        return LogEnd(first_open.start, first_open.first_offset)
    assert manifest.end_offset is not None
    return LogEnd(Position(manifest.next_segment, 0, 0), manifest.end_offset)


async def offset_of(manifest: LogManifest, position: Position, open_segment: OpenSegment) -> int:
    """Return the offset of the first confirmed record at or after a position, or of the end.

    It is never higher than the offset of the position, even if records arrive meanwhile.
    """
    segment = await segment_from(manifest, position.segment)
    if segment is None:
        return (await find_tail(manifest, open_segment)).offset
    if segment.first_offset is not None and position <= segment.start:
        return segment.first_offset
    async with _opened(open_segment, segment) as reader:
        last = await reader.last_confirmed()
        entry = max(position, segment.start).entry
        if last >= 0:
            header = await reader.header(min(entry, last))
            slot = position.slot if entry == position.entry else 0
            inside = header.first_offset + min(slot, header.count)
            return inside if entry <= last else header.next_offset
    # It is open and empty; every segment before it that is not a row is sealed.
    earlier = tuple(each for each in manifest.rows if each.number < segment.number)
    return (await find_tail(replace(manifest, rows=earlier), open_segment)).offset


async def find_offset(manifest: LogManifest, offset: int, open_segment: OpenSegment) -> Position:
    """Return the position of the record with an offset.

    For an offset that is not confirmed yet, return the end. Raises
    `PositionTrimmedError` when the segment that held it has left the log.
    """
    found, end = await _look_up(manifest, offset, open_segment)
    return found or end


async def find_record(manifest: LogManifest, offset: int, open_segment: OpenSegment) -> Position:
    """Return the position of a record that was acknowledged, though it may not be announced yet.

    Raises `PositionTrimmedError`, `UnreadableError` when it is not found within
    `LedgerOptions.request_timeout`, and the errors of reading.
    """
    if (await find_tail(manifest, open_segment)).offset <= offset:
        await find_acknowledged_tail(manifest, open_segment)  # returns when it is announced
    found, end = await _look_up(manifest, offset, open_segment)
    if found is None:
        reason = f"offset {offset} was acknowledged, and is not announced"
        raise UnreadableError(manifest.rows[-1].ledger, end.entry, reason)
    return found


async def _look_up(
    manifest: LogManifest, offset: int, open_segment: OpenSegment
) -> tuple[Position | None, Position]:
    """Return the position of the record with an offset, if it is confirmed, and the end."""
    if offset < manifest.first_offset:
        first = str(manifest.first_position)
        raise PositionTrimmedError(manifest.name, f"offset {offset}", first)
    candidates = Walk(
        manifest,
        skips=lambda of: of.end_offset <= offset,
        wants=lambda each: each.end_offset is None or offset < each.end_offset,
    )
    position = Position(manifest.next_segment, 0, 0)
    async with aclosing(_walk(manifest, candidates, open_segment)) as walk:
        async for reader, last in walk:
            found = await _bisect(reader, last, offset)
            if found is not None:
                return found, found
            position = Position(reader.segment.number, last + 1, 0)
    return None, position


async def find_place(
    manifest: LogManifest, where: Position | int, open_segment: OpenSegment
) -> Position:
    """Return the position that an offset or `LATEST` stands for; any other position unchanged.

    An offset that was trimmed away stands for the first position left. Raises
    `InvalidRequestError` for an offset that the log has not reached, and the errors of
    `find_acknowledged_tail` if that is undecided.
    """
    if isinstance(where, Position) and where != LATEST:
        return where
    if not isinstance(where, Position):
        check_offset(where)
    tail = await find_tail(manifest, open_segment)
    if isinstance(where, Position):
        return tail.position
    if where > tail.offset:  # acknowledged, perhaps, and not announced yet
        tail = await find_acknowledged_tail(manifest, open_segment)
    if where > tail.offset:
        raise InvalidRequestError(
            f"log {manifest.name!r} has no offset {where}: its next record gets {tail.offset}"
        )
    if where <= manifest.first_offset:
        return manifest.first_position
    return max(await find_offset(manifest, where, open_segment), manifest.first_position)


async def find_time(
    manifest: LogManifest, search: TimeSearch, open_segment: OpenSegment
) -> Position:
    """Return the position of the first confirmed record that is not older than a time (times.py).

    Return the end if all records are older, and the first record left if none is.
    """
    candidates = Walk(manifest, skips=search.passes_all, wants=lambda each: not search.passes(each))
    end = Position(manifest.next_segment, 0, 0)
    async with aclosing(_walk(manifest, candidates, open_segment)) as walk:
        async for reader, last in walk:
            times: dict[EntryId, int] = {}
            low, high = 0, last + 1
            while low < high:
                middle = (low + high) // 2
                times[middle] = (await reader.header(middle)).timestamp_ms
                if times[middle] < search.time_ms:
                    low = middle + 1
                else:
                    high = middle
            if reader.segment.end is None:
                end = Position(reader.segment.number, low, 0)
            if low <= last and search.look(reader.segment, low, times.get(low - 1), times[low]):
                break
    return max(search.position or end, manifest.first_position)


async def find_txid(manifest: LogManifest, txid: int, open_segment: OpenSegment) -> Position:
    """Return the position of the batch with the first confirmed record that has this txid or a
    higher one. The reader finds the record inside the batch (start.py).

    Return the end if there is no such record, and the first record left if the record was
    trimmed. No key is needed.
    """
    candidates = Walk(
        manifest,
        skips=lambda of: of.last_txid < txid,
        wants=lambda each: each.end is None or each.end.last_txid >= txid,
    )
    position = Position(manifest.next_segment, 0, 0)
    async with aclosing(_walk(manifest, candidates, open_segment)) as walk:
        async for reader, last in walk:
            if reader.segment.ingested:  # its records all have the same
                position = reader.segment.start
                break
            low, high = 0, last + 1
            while low < high:
                middle = (low + high) // 2
                if await reader.last_txid(middle) < txid:
                    low = middle + 1
                else:
                    high = middle
            position = Position(reader.segment.number, low, 0)
            if low <= last:
                break
    return max(position, manifest.first_position)


async def find_acknowledged_tail(manifest: LogManifest, open_segment: OpenSegment) -> LogEnd:
    """Return the end of the log, after every record acknowledged before the call.

    The manifest must have been read after the call began. A segment is written only when every
    entry of the segments before it is acknowledged, so the last segment with an entry has the
    end.
    """
    for segment in reversed(manifest.open_segments):
        async with _opened(open_segment, segment) as reader:
            last = await reader.last_acknowledged()
            if last >= 0:
                offset = (await reader.header(last)).next_offset
                return LogEnd(Position(segment.number, last + 1, 0), offset)
    return await find_tail(manifest, open_segment)


async def check_reached(
    manifest: LogManifest, position: Position, open_segment: OpenSegment
) -> Position:
    """Check that a log has reached a position: every record that will ever be before it is
    acknowledged. A trim or a cursor beyond that would give up records acknowledged later.

    Return the same place, moved before segments that were closed without a record. Sealed segments
    are not read, and entries after the position only if the entries before it leave the question
    open. Raises `InvalidRequestError` for a value that is not a position or is not reached, and the
    errors of reading.
    """
    check_position(position)
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


async def _bisect(reader: SegmentReader, last: int, offset: int) -> Position | None:
    """Return the position of an offset among entries 0..last, None if it is after them."""
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
