"""One segment as a stream of decoded entries, checked against what the manifest says about it.

A sealed segment is read to its end. An open one is either followed until its ledger is closed and
drained, or read up to what is confirmed now. Which of them it was is what `is_over` tells: only
then may a reader go on to the next segment.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace

from quire.entry import Entry, EntryId
from quire.errors import CorruptEntryError, CorruptRecordError, NoSuchEntryError
from quire.ledger.catalog import LedgerCatalog
from quire.ledger.reader import LedgerReader
from quire.log.batch import Batch, BatchHeader, decode_batch, decode_header, place_header
from quire.log.manifest import Segment
from quire.log.position import Position, Record


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Records of one entry, from `slot` on, as columns; records are made when asked for."""

    segment: int
    entry: EntryId
    slot: int
    batch: Batch

    def __len__(self) -> int:
        return len(self.batch) - self.slot

    @property
    def position(self) -> Position:
        """Position of the first record."""
        return Position(self.segment, self.entry, self.slot)

    @property
    def after(self) -> Position:
        """The position to go on from."""
        return Position(self.segment, self.entry + 1, 0)

    @property
    def first_offset(self) -> int:
        return self.batch.header.first_offset + self.slot

    @property
    def next_offset(self) -> int:
        return self.batch.header.next_offset

    def payloads(self) -> list[bytes]:
        """The payloads, in order."""
        return self.batch.payloads()[self.slot :]

    def arrow_buffers(self) -> tuple[array[int], memoryview]:
        """Offsets and data of an Arrow binary array of the payloads, without copying them."""
        offsets, data = self.batch.arrow_buffers()
        return offsets[self.slot :], data

    def records(self) -> list[Record]:
        """The records, in order."""
        header, segment, entry = self.batch.header, self.segment, self.entry
        first, epoch, timestamp_ms = header.first_offset, header.epoch, header.timestamp_ms
        return [
            Record(Position(segment, entry, slot), first + slot, epoch, timestamp_ms, payload)
            for slot, payload in enumerate(self.payloads(), self.slot)
        ]


class SegmentReader:
    """Reads one segment from an entry on. Made by `open_segment`."""

    def __init__(self, segment: Segment, ledger: LedgerReader, *, follow: bool) -> None:
        self.segment = segment
        self.is_over = segment.end is not None or follow
        self._ledger = ledger
        self._follow = follow and segment.end is None
        self._runs: AsyncGenerator[list[Entry], None] | None = None
        self._entries: deque[Entry] = deque()

    async def start(self, first: EntryId) -> None:
        """Begin at an entry. Raises `NoSuchEntryError` when it can never exist."""
        if self._follow:
            self._runs = self._ledger.follow_runs(first)
            return
        last = self.segment.last_entry
        if last is None:
            last = await self._ledger.last_confirmed()
            self.is_over = self._ledger.is_closed
        if first <= last:
            self._runs = self._ledger.read_runs(first, last)
        elif self.is_over and first > last + 1:
            raise NoSuchEntryError(self.segment.ledger, first)

    async def next(self) -> tuple[EntryId, Batch] | None:
        """Return the next entry and its batch, None at the end."""
        while not self._entries:
            if self._runs is None:
                return None
            run = await anext(self._runs, None)
            if run is None:
                return None
            self._entries.extend(run)
        entry = self._entries.popleft()
        batch = decode_batch(entry.payload, entry.ledger, entry.entry)
        header = place_header(batch.header, self.segment.base)
        self._check(entry.entry, header)
        return entry.entry, replace(batch, header=header)

    async def header(self, entry: EntryId) -> BatchHeader:
        """Return the header of one confirmed entry."""
        found = await self._ledger.read_entry(entry)
        header = decode_header(found.payload, found.ledger, entry)
        header = place_header(header, self.segment.base)
        self._check(entry, header)
        return header

    async def batch(self, entry: EntryId) -> Batch:
        """Return the batch of one confirmed entry."""
        found = await self._ledger.read_entry(entry)
        batch = decode_batch(found.payload, found.ledger, entry)
        header = place_header(batch.header, self.segment.base)
        self._check(entry, header)
        return replace(batch, header=header)

    async def last_acknowledged(self) -> EntryId:
        """Return the last entry, covering all that was acknowledged before the call."""
        last = self.segment.last_entry
        return await self._ledger.last_acknowledged() if last is None else last

    async def last_confirmed(self) -> EntryId:
        """Return the last entry that can be read now, −1 when there is none."""
        last = self.segment.last_entry
        return await self._ledger.last_confirmed() if last is None else last

    def _check(self, entry: EntryId, header: BatchHeader) -> None:
        segment = self.segment
        if header.epoch != segment.epoch:
            raise CorruptEntryError(
                segment.ledger, entry, f"epoch {header.epoch} in a segment of {segment.epoch}"
            )
        first = segment.first_offset
        if first is not None and (
            header.first_offset < first + entry or (entry == 0 and header.first_offset != first)
        ):
            raise CorruptEntryError(
                segment.ledger,
                entry,
                f"offset {header.first_offset} in a segment that starts at {first}",
            )

    async def close(self) -> None:
        """Release the ledger. Not to be called while `next` is under way."""
        if self._runs is not None:
            await self._runs.aclose()
        await self._ledger.close()


async def open_segment(
    catalog: LedgerCatalog, segment: Segment, path: str, *, password: bytes, follow: bool
) -> SegmentReader:
    """Open a segment's ledger without disturbing its writer.

    Raises the ledger's errors; `CorruptRecordError` naming `path`, the manifest's, when manifest
    and ledger disagree about where a sealed segment ends.
    """
    ledger = await catalog.open_without_recovery(segment.ledger, password=password)
    last = segment.last_entry
    if last is not None and ledger.metadata.last_entry != last:
        found = ledger.metadata.last_entry
        await ledger.close()
        raise CorruptRecordError(
            path,
            f"segment {segment.number} ends at {last}, its ledger {segment.ledger} at {found}",
        )
    return SegmentReader(segment, ledger, follow=follow)
