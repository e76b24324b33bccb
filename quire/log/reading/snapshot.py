"""Taking a snapshot of a log, cut into spans that other processes can read (span.py).

A snapshot is the manifest at one moment and, for a segment that is still open, its LAC at that
moment. It contains every record that a reader could see when it was taken. It is a prefix of the
log without holes: the successor of an open segment counts only once the open segment is closed,
because only then none of its records can be missing.

With bounds it has the entries that have a record within the bounds. Where the manifest does not
tell, the entries are bisected. Taking a snapshot never fences, and never disturbs the writer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from typing import Final, TypeAlias

from quire.aio.timing import time_limit
from quire.checked import check_types, given_or_default
from quire.entry import EntryId
from quire.errors import NoSuchLogError
from quire.log.manifest.manifest import LogManifest, Segment
from quire.log.manifest.page import Summary
from quire.log.manifest.pages_at_hand import Walk, segment_from
from quire.log.manifest.times import earliest_ms
from quire.log.reading.bounds import EVERYTHING, Bounds
from quire.log.reading.search import look
from quire.log.reading.source import open_source
from quire.log.reading.span import Describe, Span
from quire.log.records.batch import BatchHeader, decode_header, place_header
from quire.log.segment_store.port import SegmentSource, SegmentStore

ReadHeader: TypeAlias = Callable[[EntryId], Awaitable[BatchHeader]]

CLOSING_SECONDS_MAX: Final = 2.0
"""How long a snapshot waits for a leader that is just closing a segment after a roll.

A close is one compare-and-set, milliseconds unless the store is electing a leader. Readers do not
get past the segment either, so that a snapshot which does not wait misses nothing that they see; it
is for a program that appended a record and wants it in a snapshot taken then.
"""


async def take_snapshot(
    log: str,
    segments: SegmentStore,
    describe: Describe,
    *,
    password: bytes = b"",
    bounds: Bounds = EVERYTHING,
) -> list[Span]:
    """Return the spans of a log as it is now, in order; segments without records have none.

    It begins again if a ledger is gone because the log was trimmed or offloaded meanwhile.
    Raises `NoSuchLogError`, also while the log is being deleted, `UnreadableError` when too few
    bookies answer for the LAC of an open segment, `NoSuchLedgerError` for a ledger that is missing.
    """
    asked = given_or_default(bounds, Bounds)
    check_types(asked)
    return await look(
        lambda: describe(log), lambda manifest: _take(manifest, segments, password, asked)
    )


async def _take(
    manifest: LogManifest, segments: SegmentStore, password: bytes, bounds: Bounds
) -> list[Span]:
    if manifest.retired:
        raise NoSuchLogError(manifest.name)
    bounds &= Bounds(first=manifest.trimmed_to)
    taking = _LogSnapshot(manifest, segments, password, bounds)
    if bounds.is_empty:
        return []
    async for segment in Walk(manifest, skips=taking.passes_page):
        if not await taking.add(segment):
            break
    return taking.spans


class _LogSnapshot:
    """A snapshot that is being taken, segment by segment."""

    def __init__(
        self, manifest: LogManifest, segments: SegmentStore, password: bytes, bounds: Bounds
    ) -> None:
        self.spans: list[Span] = []
        self._manifest = manifest
        self._segments = segments
        self._password = password
        self._bounds = bounds
        self._next_offset = manifest.first_offset
        self._before_ms = 0

    def passes_page(self, of: Summary) -> bool:
        """Skip a page if its summary says that it has no record within the bounds."""
        bounds = self._bounds
        is_outside = (
            of.last < bounds.first.segment
            or of.end_offset <= bounds.first_offset
            or of.max_ms < bounds.first_ms
            or of.first > bounds.end.segment
            or of.first_offset >= bounds.end_offset
        )
        if is_outside:  # the time of its last record is not known, and not before this one
            self._next_offset, self._before_ms = of.end_offset, of.min_ms
        return is_outside

    async def add(self, segment: Segment) -> bool:
        """Take a segment in; returns whether the next one counts."""
        if segment.start >= self._bounds.end:
            return False  # whatever is in it: an open one would have to be asked
        if segment.end is not None and self._is_outside(segment):
            self._pass_over(segment)
            return True
        async with AsyncExitStack() as stack:
            ledger = _Lazy(stack, self._segments, segment, self._password)
            last, is_closed = segment.last_entry, True
            if last is None:
                reader = await ledger.open()
                if await self._is_followed(segment):
                    with suppress(TimeoutError):
                        async with time_limit(CLOSING_SECONDS_MAX):
                            await reader.wait_closed()
                last, is_closed = await reader.last_confirmed(), reader.is_closed
            if last >= 0:
                await self._add_span(segment, ledger.header, last)
        return is_closed

    async def _is_followed(self, segment: Segment) -> bool:
        """Whether records follow an open segment that closing it would show."""
        successor = await segment_from(self._manifest, segment.number + 1)
        if successor is None:
            return False
        async with AsyncExitStack() as stack:
            ledger = await _Lazy(stack, self._segments, successor, self._password).open()
            return await ledger.last_confirmed() >= 0

    def _is_outside(self, segment: Segment) -> bool:
        """Whether a sealed segment has no record within the bounds, by the manifest alone."""
        bounds = self._bounds
        assert segment.end is not None
        assert segment.end_offset is not None
        return (
            segment.ends_by(bounds.first)
            or segment.end_offset <= bounds.first_offset
            or segment.end.last_timestamp_ms < bounds.first_ms
            or segment.start >= bounds.end
            or segment.end_offset - segment.end.records >= bounds.end_offset
            or earliest_ms(segment, self._before_ms) >= bounds.end_ms
        )

    def _pass_over(self, segment: Segment) -> None:
        assert segment.end is not None
        assert segment.end_offset is not None
        self._next_offset = segment.end_offset
        self._before_ms = segment.end.last_timestamp_ms

    async def _add_span(self, segment: Segment, header: ReadHeader, last: EntryId) -> None:
        start, earliest = self._next_offset, earliest_ms(segment, self._before_ms)
        if segment.end is not None:
            self._pass_over(segment)
            end_ms = segment.end.last_timestamp_ms
        else:
            newest = await header(last)
            self._next_offset, end_ms = newest.next_offset, newest.timestamp_ms
            if self._bounds.is_before(segment.number, last, newest):
                return
        self._before_ms = end_ms
        span = Span(
            self._manifest.name,
            self._manifest.log_id,
            segment.number,
            segment.ledger,
            segment.epoch,
            0,
            last,
            range(start, self._next_offset),
            segment.bytes,
            self._bounds,
            segment.base,
            segment.cold,
        )
        cut = await _cut(span, header, earliest, end_ms)
        if cut.first <= cut.last:
            self.spans.append(cut)


class _Lazy:
    """A segment's ledger, opened at the first question that the manifest does not answer."""

    def __init__(
        self, stack: AsyncExitStack, segments: SegmentStore, segment: Segment, password: bytes
    ) -> None:
        self._stack = stack
        self._segments = segments
        self._segment = segment
        self._password = password
        self._reader: SegmentSource | None = None

    async def open(self) -> SegmentSource:
        if self._reader is None:
            segment = self._segment
            self._reader = await open_source(
                self._segments,
                segment.ledger,
                segment.cold,
                segment.last_entry,
                segment.base,
                self._password,
            )
            self._stack.push_async_callback(self._reader.close)
        return self._reader

    async def header(self, entry: EntryId) -> BatchHeader:
        payload = await (await self.open()).read_head(entry)
        header = decode_header(payload, self._segment.ledger, entry)
        return place_header(header, self._segment.base)


async def _cut(span: Span, header: ReadHeader, first_ms: int, last_ms: int) -> Span:
    """Drop the entries at both ends that have no record within bounds."""
    bounds, number, first, last = span.bounds, span.segment, span.first, span.last
    starts_inside = (
        bounds.first <= (number, 0, 0)
        and bounds.first_offset <= span.offsets.start
        and bounds.first_ms <= first_ms
    )
    if not starts_inside:
        first = await _bisect(
            first, last, header, lambda at, found: not bounds.is_before(number, at, found)
        )
    ends_inside = (
        bounds.end > (number, last + 1, 0)
        and bounds.end_offset >= span.offsets.stop
        and bounds.end_ms > last_ms
    )
    if not ends_inside:
        behind = await _bisect(
            first, last, header, lambda at, found: bounds.is_behind(number, at, found)
        )
        last = behind - 1
    return span.narrow(first, last)


async def _bisect(
    first: EntryId,
    last: EntryId,
    header: ReadHeader,
    is_reached: Callable[[EntryId, BatchHeader], bool],
) -> EntryId:
    """Return the first entry of those for which a condition holds; last + 1 for none. It holds for
    every entry after the first one.
    """
    low, high = first, last + 1
    while low < high:
        middle = (low + high) // 2
        if is_reached(middle, await header(middle)):
            high = middle
        else:
            low = middle + 1
    return low
