"""The course of a reader: the position it reads next, and what may come there.

Offsets have no gaps: a batch continues the one before it, or begins no further than the offset that
was looked for. Only behind records that are lost, or at a place that was found otherwise, nobody
can say which offset comes.

Pure: no clock and no I/O.
"""

from __future__ import annotations

from quire.entry import LedgerId
from quire.errors import CorruptEntryError
from quire.log.reading.segment_reader import RecordBatch
from quire.log.reading.threshold import NO_OFFSET, Threshold
from quire.log.records.position import Position


class Course:
    """Where a reader is. It moves at once or not at all: who is cut short stays where it was."""

    __slots__ = ("_looked_for", "_offset", "next", "threshold")

    def __init__(self, start: Position) -> None:
        self.next = start
        """The position to read next."""
        self.threshold = Threshold()
        """What was asked for, as long as none of it came."""
        self._offset: int | None = None
        self._looked_for = NO_OFFSET

    def begin(self, at: Position, threshold: Threshold) -> None:
        """Begin where a search led that looked for what is at or above a threshold."""
        self.next, self.threshold = at, threshold
        self._offset, self._looked_for = None, threshold.offset

    def go_back(self, to: Position, offset: int) -> None:
        """Go back to a record that was taken and not used."""
        self.next, self._offset = to, offset

    def take(self, batch: RecordBatch, ledger: LedgerId) -> RecordBatch:
        """Go behind a batch; returns what of it was asked for, which may be nothing.

        Raises `CorruptEntryError` for one that cannot be there: then it is where it was.
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
        """Go behind records that are lost, up to a position. What was asked for stays so."""
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
