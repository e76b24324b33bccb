"""What a reader asked for, for as long as none of it came: records below it are not for him.

A search sends him to the first record that is wanted among those that are known, or to the end. But
what comes next at the end may still be too old for him: it was appended before the moment he named,
or is one of the txids that he has already. Pure.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final, NamedTuple

from quire.log.manifest.page import Summary
from quire.log.manifest.segment import Segment
from quire.log.reading.segment_reader import RecordBatch
from quire.log.records.position import AtTxid, Position, check_offset, to_ms
from quire.log.records.txids import NO_TXID, check_txid, first_slot

NO_OFFSET: Final = -1
NO_TIME: Final = -1
"""Before all offsets, and all times: of a reader that did not ask for one."""


class Threshold(NamedTuple):
    """At or above all of these is what was asked for."""

    offset: int = NO_OFFSET
    txid: int = NO_TXID
    time_ms: int = NO_TIME
    floor_ms: int = NO_TIME
    """What bears an earlier time than this is undated, and not taken for older (times.py)."""

    @classmethod
    def of(cls, start: Position | int | datetime | AtTxid) -> Threshold:
        """Return that of a start. Raises `InvalidRequestError` for what is none: another offset or
        txid than a number from 0 on, a time without a zone.
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
        """Tell whether all of a segment is below, as far as the manifest knows."""
        end, end_offset = segment.end, segment.end_offset
        return end is not None and (
            (end_offset is not None and end_offset <= self.offset)
            or self.is_older(end.last_timestamp_ms)
            or end.last_txid < self.txid
        )

    def is_above_all_of(self, of: Summary) -> bool:
        """Tell whether all of a page is below, as far as its summary says for every segment."""
        return (
            of.end_offset <= self.offset
            or (self.floor_ms <= of.min_ms and of.max_ms < self.time_ms)
            or of.last_txid < self.txid
        )

    def is_above_all_before(self, batch: RecordBatch) -> bool:
        """Tell whether all that stands in front of a batch is below."""
        header, ids = batch.batch.header, batch.batch.txids
        return (
            header.first_offset <= self.offset
            or self.is_older(header.timestamp_ms)
            or first_slot(ids, header.count, self.txid) > 0
        )

    def is_older(self, timestamp_ms: int) -> bool:
        """Tell whether a time is that of a record which is too old."""
        return self.floor_ms <= timestamp_ms < self.time_ms

    def first_slot(self, batch: RecordBatch) -> int:
        """Return the first slot of a whole entry that was asked for; their number when none was."""
        count = len(batch.batch)
        if self.is_older(batch.batch.header.timestamp_ms):
            return count
        slot = min(max(0, self.offset - batch.batch.header.first_offset), count)
        if self.txid != NO_TXID:
            slot = max(slot, first_slot(batch.batch.txids, count, self.txid))
        return slot
