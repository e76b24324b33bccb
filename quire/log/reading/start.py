"""Where a reader starts and goes on: its threshold, and its course. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Final, NamedTuple

from quire.entry import LedgerId
from quire.errors import CorruptEntryError
from quire.log.manifest.page import Summary
from quire.log.manifest.segment import Segment
from quire.log.reading.segment_reader import RecordBatch
from quire.log.records.position import AtTxid, Position, check_offset, to_ms
from quire.log.records.txids import NO_TXID, check_txid, first_slot

NO_OFFSET: Final = -1
NO_TIME: Final = -1
"""Before all offsets, and all times: for a reader that did not ask for one."""


class Threshold(NamedTuple):
    """The lowest offset, txid and time of the records that a reader asked for.

    A search leads to the first wanted record among the known ones, or to the end. A record that is
    appended there later may still be below the threshold: it has an earlier time, or a txid that
    the reader has already.
    """

    offset: int = NO_OFFSET
    txid: int = NO_TXID
    time_ms: int = NO_TIME
    floor_ms: int = NO_TIME
    """A record with an earlier time than this is undated, and not older (times.py)."""

    @classmethod
    def of(cls, start: Position | int | datetime | AtTxid) -> Threshold:
        """Return the threshold of a start.

        Raises `InvalidRequestError` for an offset or txid below 0, and a time without a zone.
        """
        if isinstance(start, Position):
            return cls()
        if isinstance(start, AtTxid):
            check_txid(start.txid)
            return cls(txid=start.txid)
        if isinstance(start, datetime):
            return cls(time_ms=to_ms(start))
        check_offset(start)
        return cls(offset=start)

    def is_above(self, segment: Segment) -> bool:
        """Whether all records of a segment are below, as far as the manifest knows."""
        end, end_offset = segment.end, segment.end_offset
        return end is not None and (
            (end_offset is not None and end_offset <= self.offset)
            or self.is_older(end.last_timestamp_ms)
            or end.last_txid < self.txid
        )

    def is_above_all_of(self, of: Summary) -> bool:
        """Whether all records of a page are below, as far as its summary says for every segment."""
        return (
            of.end_offset <= self.offset
            or (self.floor_ms <= of.min_ms and of.max_ms < self.time_ms)
            or of.last_txid < self.txid
        )

    def is_above_all_before(self, batch: RecordBatch) -> bool:
        """Whether all records before a batch are below."""
        header, ids = batch.batch.header, batch.batch.txids
        return (
            header.first_offset <= self.offset
            or self.is_older(header.timestamp_ms)
            or first_slot(ids, header.count, self.txid) > 0
        )

    def is_older(self, timestamp_ms: int) -> bool:
        """Whether a record with this time is too old."""
        return self.floor_ms <= timestamp_ms < self.time_ms

    def first_slot(self, batch: RecordBatch) -> int:
        """Return the first slot of a whole entry that is not below; their number if all are."""
        count = len(batch.batch)
        if self.is_older(batch.batch.header.timestamp_ms):
            return count
        slot = min(max(0, self.offset - batch.batch.header.first_offset), count)
        if self.txid != NO_TXID:
            slot = max(slot, first_slot(batch.batch.txids, count, self.txid))
        return slot


class Course:
    """The position that a reader reads next, and the records that may be there.

    Offsets have no gaps: a batch continues the batch before it, or begins no later than the offset
    that was looked for. The next offset is unknown only after lost records, or at a place that was
    found by another search. Each step is atomic: one that fails leaves the course unchanged.
    """

    __slots__ = ("_looked_for", "_offset", "next", "threshold")

    def __init__(self, start: Position) -> None:
        self.next = start
        """The position to read next."""
        self.threshold = Threshold()
        """Applies until the first record that is not below it."""
        self._offset: int | None = None
        self._looked_for = NO_OFFSET

    def begin(self, at: Position, threshold: Threshold) -> None:
        """Begin where a search for a threshold led."""
        self.next, self.threshold = at, threshold
        self._offset, self._looked_for = None, threshold.offset

    def go_back(self, to: Position, offset: int) -> None:
        """Return to a record that was taken and not used."""
        self.next, self._offset = to, offset

    def take(self, batch: RecordBatch, ledger: LedgerId) -> RecordBatch:
        """Move to the end of a batch, and return the records of it that are not below.

        Raises `CorruptEntryError` for a batch that cannot be at this place.
        """
        self._check(batch, ledger)
        slot = self.next.slot if batch.entry == self.next.entry else 0
        slot = min(max(slot, self.threshold.first_slot(batch)), len(batch))
        self.next, self._offset = batch.after, batch.next_offset
        if slot < len(batch):
            self.threshold = Threshold()
        return RecordBatch(batch.segment, batch.entry, slot, batch.batch)

    def ends_at(self, offset: int | None) -> bool:
        """Whether all records before an offset were taken, and none from it on."""
        return offset is not None and offset == self._offset

    def leave_out(self, end: Position) -> None:
        """Move past lost records, to a position. The threshold still applies."""
        self.next = end
        self._offset, self._looked_for = None, NO_OFFSET

    def _check(self, batch: RecordBatch, ledger: LedgerId) -> None:
        first, offset, reason = batch.first_offset, self._offset, ""
        if offset is None:
            if NO_OFFSET < self._looked_for < first:
                reason = f"offset {first} where offset {self._looked_for} was looked for"
        elif offset not in (first, batch.next_offset):
            inside = first < offset < batch.next_offset
            if not inside or self.next.slot == 0:
                reason = f"offset {first} follows offset {offset - 1}"
        if reason:
            raise CorruptEntryError(ledger, batch.entry, reason)
