"""Times of records, by clocks that may each be wrong, and the record that a time stands for.

Within a segment times never decrease. A leader goes on from the time of the record before, if that
is not more than `APART_MS` after its own clock; otherwise one of the two clocks is wrong, and the
segment begins at the leader's own time. So a clock that was years ahead leaves its times on the
segments that were written with it, and on no later one.

A search must then do without order between segments. It takes the time of each record as it is,
but for two kinds, which count as *undated*:

  * a time that is after the present, by the clock of the reader
  * a time that is more than `APART_MS` before the time of a dated record in front of it

An undated record stands for the time of the next dated one: it was written before that. A search
ends at the first record that is not older than the time asked for. So no record that bears a right
time is left out, if the reader's clock is right; and older ones come along only where two clocks
contradict each other.

Pure: no clock and no I/O. Source: docs/decisions/0025-counted-time.md.
"""

from __future__ import annotations

from quire.entry import EntryId
from quire.log.manifest.ages import APART_MS
from quire.log.manifest.page import Summary
from quire.log.manifest.segment import Segment
from quire.log.records.position import Position


def begin_ms(last_ms: int, now_ms: int) -> int:
    """Return the time when a new segment begins, after a segment of another time."""
    return now_ms if last_ms - now_ms > APART_MS else max(last_ms, now_ms)


def earliest_ms(segment: Segment, before_ms: int) -> int:
    """Return a time that no record of a segment is before; `before_ms` is the time of the
    record in front of it.
    """
    return min(segment.created_ms, before_ms)


class TimeSearch:
    """Looks for the first record not older than a time. Is shown all segments in order, or the
    summaries of pages in place of them.
    """

    def __init__(self, time_ms: int, now_ms: int) -> None:
        self.time_ms = time_ms
        self.position: Position | None = None
        """Where the record is, or an undated one in front of it, as far as was seen."""
        self._present_ms = max(time_ms, now_ms) + APART_MS
        self._dated_ms = 0

    @property
    def floor_ms(self) -> int:
        """What bears an earlier time than this is undated."""
        return self._dated_ms - APART_MS

    def passes(self, segment: Segment) -> bool:
        """Note a segment, if the manifest says all there is to know of it."""
        last_ms = segment.last_timestamp_ms
        if last_ms is None or last_ms >= self.time_ms:
            return False
        self._note_older(segment.start, last_ms)
        return True

    def passes_all(self, of: Summary) -> bool:
        """Note all segments of a page, if each of them is older and none is undated."""
        is_dated = of.min_ms >= self.floor_ms and of.drop_ms <= APART_MS
        if of.max_ms >= self.time_ms or not is_dated:
            return False
        self._dated_ms, self.position = max(self._dated_ms, of.max_ms), None
        return True

    def look(self, segment: Segment, entry: EntryId, before_ms: int | None, at_ms: int) -> bool:
        """Note the first entry of a segment that is not older; returns whether that is it.

        Args:
            segment: the segment.
            entry: its first entry with a time that is not before the time looked for.
            before_ms: the time of the entry before, None when it is the first.
            at_ms: its time.
        """
        if before_ms is not None:
            self._note_older(segment.start, before_ms)
        self.position = self.position or Position(segment.number, entry, 0)
        return at_ms <= self._present_ms

    def _note_older(self, start: Position, last_ms: int) -> None:
        """Note that all up to some entry is older; its time, and where its segment starts."""
        if last_ms < self.floor_ms:
            self.position = self.position or start
        else:
            self._dated_ms, self.position = max(self._dated_ms, last_ms), None
