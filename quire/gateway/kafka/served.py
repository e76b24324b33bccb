"""Where the records are that consumers were given: positions of offsets, without a search. Pure.

A consumer commits an offset that this gateway read for it a moment ago. A search for the position
of an offset asks bookies some twenty times, so the gateway remembers where the batches are.

Invariant: a batch is remembered with the identity of its log. A new log of the same name has other
records at these offsets.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from typing import Final, NamedTuple

from quire.log.reading.segment_reader import RecordBatch
from quire.log.records.position import Position

TOTAL_MAX: Final = 50_000
"""Batches of all logs that are remembered, some 12 MB. The log that was read longest ago goes."""

BATCHES_MAX: Final = 1000
"""Batches of one log that are remembered: those with the highest offsets."""


class _ServedBatch(NamedTuple):
    """The records of one entry, or the last of them."""

    end: int
    """The offset after the last record."""
    first: Position
    records: int


class ServedBatches:
    """The batches that consumers of one gateway were given last."""

    def __init__(self) -> None:
        self._logs: OrderedDict[str, list[_ServedBatch]] = OrderedDict()
        """By identity of the log; the spans by their ends."""
        self._count = 0

    def note(self, log_id: str, batch: RecordBatch) -> None:
        """Remember where a batch is."""
        spans = self._logs.setdefault(log_id, [])
        self._logs.move_to_end(log_id)
        before = len(spans)
        span = _ServedBatch(batch.next_offset, batch.position, len(batch))
        if not spans or spans[-1].end < span.end:
            spans.append(span)
        elif spans[bisect_left(spans, (span.end,))].end != span.end:
            insort(spans, span)
        if len(spans) > BATCHES_MAX:
            del spans[0]
        self._count += len(spans) - before
        while self._count > TOTAL_MAX:
            _, forgotten = self._logs.popitem(last=False)
            self._count -= len(forgotten)

    def position_of(self, log_id: str, offset: int) -> Position | None:
        """Return the position of an offset, also of the end of a batch; None if it is not known."""
        spans = self._logs.get(log_id, [])
        index = bisect_left(spans, (offset,))
        if index == len(spans):
            return None
        end, first, records = spans[index]
        if offset == end:
            return Position(first.segment, first.entry + 1, 0)
        slot = offset - (end - records)
        return Position(first.segment, first.entry, first.slot + slot) if slot >= 0 else None
