"""Segments: the manifest's facts about each ledger of its log, and their rows.

Pure: no clock and no I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from quire.entry import EntryId, LedgerId
from quire.fields import NOTHING, Unknown, joined_row, split_row
from quire.log.manifest.cold_files import ColdFile, from_row, to_row
from quire.log.records.batch import Base
from quire.log.records.position import Position
from quire.log.records.txids import NO_TXID


class SegmentEnd(NamedTuple):
    """The end of a segment; last entry −1 and zeros when it is empty."""

    last_entry: EntryId
    last_slots: int
    """Records in the last entry."""
    records: int
    bytes: int
    """Payload bytes of the ledger."""
    last_timestamp_ms: int
    last_txid: int = NO_TXID


EMPTY: Final = SegmentEnd(-1, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Segment:
    """One ledger of a log. Open while `end` is None."""

    number: int
    ledger: LedgerId
    epoch: int
    created_ms: int
    first_offset: int | None = None
    end: SegmentEnd | None = None
    ingested: bool = False
    """Written outside the log, and placed in it when it was closed."""
    cold: ColdFile | None = None
    """Where its records are read from, if not from its ledger."""
    unknown: Unknown = NOTHING

    @property
    def base(self) -> Base | None:
        """The numbers from which the headers of an ingested ledger count."""
        if not self.ingested:
            return None
        assert self.first_offset is not None
        txid = self.end.last_txid if self.end else NO_TXID
        return Base(self.first_offset, self.epoch, self.created_ms, txid)

    @property
    def last_entry(self) -> EntryId | None:
        """The last entry's id, None while the segment is open."""
        return self.end.last_entry if self.end else None

    @property
    def records(self) -> int | None:
        """Number of records, None while the segment is open."""
        return self.end.records if self.end else None

    @property
    def bytes(self) -> int | None:
        """Bytes of the segment's entries, None while it is open."""
        return self.end.bytes if self.end else None

    @property
    def last_timestamp_ms(self) -> int | None:
        """Time of the last record in Unix milliseconds, None while the segment is open."""
        return self.end.last_timestamp_ms if self.end else None

    @property
    def start(self) -> Position:
        """Position of the segment's first record."""
        return Position(self.number, 0, 0)

    @property
    def end_position(self) -> Position | None:
        """The first position after the last record; None while open."""
        if self.end is None:
            return None
        return Position(self.number, self.end.last_entry, self.end.last_slots)

    @property
    def end_offset(self) -> int | None:
        """Offset of the first record after the segment; None while it is not known."""
        if self.end is None or self.first_offset is None:
            return None
        return self.first_offset + self.end.records

    def ends_by(self, position: Position) -> bool:
        """True when the segment is sealed and every record of it lies before the position."""
        return self.end_position is not None and self.end_position <= position

    @property
    def is_hot(self) -> bool:
        """Whether its ledger belongs to the log."""
        return self.cold is None or not self.cold.alone

    def row(self, tiers: Sequence[str]) -> list[Any]:
        """The segment as the record holds it: a row, because names would be most of the bytes."""
        head = [self.number, self.ledger, self.epoch, self.created_ms, self.first_offset]
        tail: list[Any] = [True] if self.ingested else []
        if self.cold is not None:
            tail = [self.ingested, to_row(self.cold, tiers)]
        end: list[Any] | None = None
        if self.end is not None:
            end = list(self.end[: 5 if self.end.last_txid == NO_TXID else 6])
        return joined_row([*head, end, *tail], self.unknown)


def segment_from_row(row: list[Any], tiers: Sequence[str]) -> Segment:
    """Return the segment of a row that `check_types` let pass. Raises `ValueError`."""
    row, unknown = split_row(row)
    number, ledger, epoch, created_ms, first_offset, end, *rest = row
    sealed = None if end is None else SegmentEnd(*end)
    ingested, cold = rest[:1] == [True], from_row(rest[1], tiers) if rest[1:] else None
    return Segment(number, ledger, epoch, created_ms, first_offset, sealed, ingested, cold, unknown)
