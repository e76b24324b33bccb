"""Safeguards against clocks that are wrong: of the age of segments, and of times of records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from quire.log.leader import accumulator
from quire.log.manifest import ages, times
from quire.log.records.position import Position
from tests.sim.ablations.patch import Patch


def believe_the_wall_clock() -> list[Patch]:
    def at(self: Any, now: Any) -> Any:
        passed = 0 if self.reading is None else max(0, now.wall_ms - self.reading.wall_ms)
        return replace(self, counted_ms=self.counted_ms + passed, reading=now, store_ms=None)

    return [(ages.Ages, "at", at)]


def believe_the_clock_of_the_store() -> list[Patch]:
    whole = ages.Ages.at

    def at(self: Any, now: Any) -> Any:
        if self.reading is not None:  # a wall clock that agrees with all there is
            now = now._replace(wall_ms=10**15)
            self = replace(self, reading=self.reading._replace(wall_ms=0))
        return whole(self, now)

    return [(ages.Ages, "at", at)]


def keep_the_reading_of_a_clock_that_was_wrong() -> list[Patch]:
    whole = ages.Ages.at

    def at(self: Any, now: Any) -> Any:
        after = whole(self, now)
        has_gone_back = self.reading is not None and now.wall_ms < self.reading.wall_ms
        return self if has_gone_back else after

    return [(ages.Ages, "at", at)]


def mark_before_the_time_is_counted() -> list[Patch]:
    def marked(self: Any, now: Any, first: int, sealed: int) -> Any:
        return self._mark(first, sealed).at(now)

    return [(ages.Ages, "marked", marked)]


def take_every_time_for_right() -> list[Patch]:
    def look(self: Any, segment: Any, entry: int, before_ms: int | None, at_ms: int) -> bool:
        self.position = Position(segment.number, entry, 0)
        return True

    def note_older(self: Any, start: Any, last_ms: int) -> None:
        self.position = None

    return [(times.TimeSearch, "look", look), (times.TimeSearch, "_note_older", note_older)]


def begin_a_segment_at_any_time() -> list[Patch]:
    """Take what a clock says, also inside a segment."""
    whole = accumulator.Outbox._parcel

    def parcel(self: Any, *cut: Any) -> Any:
        self._timestamp_ms = cut[3]
        return whole(self, *cut)

    return [(accumulator.Outbox, "_parcel", parcel)]
