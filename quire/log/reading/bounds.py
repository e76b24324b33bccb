"""Bounds: the wanted range of a log, by position, offset, time or segment.

Along a log positions and offsets ascend, and within a segment times do. So the records of a
segment before the bounds are one range, the records after them are another, and bisection finds
both ends. A time is compared with the timestamps of records (times.py).

Pure: no clock and no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from quire.entry import EntryId
from quire.log.records.batch import BatchHeader
from quire.log.records.position import BEGINNING, LATEST, Position

OFFSET_MAX: Final = 2**63 - 1
TIME_MAX_MS: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Bounds:
    """Records at or after every `first…` and before every `end…`; times in Unix milliseconds."""

    first: Position = BEGINNING
    end: Position = LATEST
    first_offset: int = 0
    end_offset: int = OFFSET_MAX
    first_ms: int = 0
    end_ms: int = TIME_MAX_MS

    def __and__(self, other: Bounds) -> Bounds:
        """Return the bounds of the records that lie within both."""
        return Bounds(
            max(self.first, other.first),
            min(self.end, other.end),
            max(self.first_offset, other.first_offset),
            min(self.end_offset, other.end_offset),
            max(self.first_ms, other.first_ms),
            min(self.end_ms, other.end_ms),
        )

    @property
    def is_empty(self) -> bool:
        """Whether no record of any log can lie within."""
        return (
            self.first >= self.end
            or self.first_offset >= self.end_offset
            or self.first_ms >= self.end_ms
        )

    def slots(self, segment: int, entry: EntryId, header: BatchHeader) -> range:
        """Return the slots of an entry that are wanted.

        Args:
            segment: the segment's number.
            entry: the entry's id in the segment's ledger.
            header: the header of the entry's batch.

        Returns:
            A range of slots, empty if the entry lies outside the bounds.
        """
        if self.is_before(segment, entry, header) or self.is_behind(segment, entry, header):
            return range(0)
        first = self.first_offset - header.first_offset
        if self.first[:2] == (segment, entry):
            first = max(first, self.first.slot)
        end = self.end_offset - header.first_offset
        if self.end[:2] == (segment, entry):
            end = min(end, self.end.slot)
        return range(max(first, 0), min(end, header.count))

    def is_before(self, segment: int, entry: EntryId, header: BatchHeader) -> bool:
        """Return whether every record of the entry lies before the bounds.

        Args:
            segment: the segment's number.
            entry: the entry's id in the segment's ledger.
            header: the header of the entry's batch.

        Returns:
            True if no record of the entry is wanted, and a later entry may be.
        """
        return (
            Position(segment, entry, header.count) <= self.first
            or header.next_offset <= self.first_offset
            or header.timestamp_ms < self.first_ms
        )

    def is_behind(self, segment: int, entry: EntryId, header: BatchHeader) -> bool:
        """Return whether every record of the entry lies after the bounds.

        Args:
            segment: the segment's number.
            entry: the entry's id in the segment's ledger.
            header: the header of the entry's batch.

        Returns:
            True if neither this entry nor a later one is wanted.
        """
        return (
            Position(segment, entry, 0) >= self.end
            or header.first_offset >= self.end_offset
            or header.timestamp_ms >= self.end_ms
        )


EVERYTHING: Final = Bounds()
