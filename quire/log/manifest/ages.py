"""The age of a log's segments, by clocks that may each be wrong.

A log keeps a count of its own time, in milliseconds. With each change of
the manifest, the leader adds the time since the change before. A span of time counts only as far
as two clocks say so:

  * the wall clock of the process, and
  * the clock of the machine that only goes forward, if both changes were made on one machine since
    it started; else the clock of the metadata store, if it has one

The shorter of the two counts, never less than nothing. Where only one clock is at hand, nothing
counts. So the count is never ahead of the true time as long as, in each span, one of the two
clocks goes right; a clock that jumps, however often and however far, makes nothing older. A span in
which a clock goes back is lost, the next one counts in full.

The age of a segment is the difference of two counts: the one of now, and the one of a change that
was made when the segment was already sealed (its *mark*). A manifest keeps `MARKS_MAX` marks; when
one more comes, the one with the closest neighbours goes, and its segments count as sealed at
the next one.

The rule needs clocks of machines that do not run faster than time, and no leader to help it.

Pure. Source: docs/decisions/0025-counted-time.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final, NamedTuple

MARKS_MAX: Final = 64
"""Marks in a manifest, 25 bytes each: records stay a few hundredths of the retention longer."""

APART_MS: Final = 60_000
"""Clocks that differ by more do not agree; clocks of machines that run NTP differ by less."""


class Reading(NamedTuple):
    """The clocks of a process, read at one moment."""

    wall_ms: int
    machine: str
    """Of two readings with the same name `machine_ms` can be compared."""
    machine_ms: int


class AgeMark(NamedTuple):
    """Segments below a number were sealed when so much was counted."""

    number: int
    counted_ms: int


@dataclass(frozen=True, slots=True)
class Ages:
    """The count of a log. `wall_ms`, `machine` and `store_ms` are the clocks at its last change."""

    counted_ms: int = 0
    reading: Reading | None = None
    store_ms: int | None = None
    """When the store, by its own clock, took the change with the reading; None: not known."""
    marks: tuple[AgeMark, ...] = ()
    seen_ms: int | None = field(default=None, compare=False)
    """When the store took the change that was read last. Not part of the record."""

    def seen(self, written_ms: int | None) -> Ages:
        """Return the ages of a record that the store says was written at a time of its clock."""
        if self.reading is None:
            return self
        store_ms = written_ms if self.store_ms is None else self.store_ms
        return replace(self, store_ms=store_ms, seen_ms=written_ms)

    def at(self, now: Reading) -> Ages:
        """Return the ages as of now, as they are to be written.

        Equal to `self` when the store's clock is needed and has not been seen since the reading.
        """
        if self.reading is None:
            return replace(self, reading=now, store_ms=None)
        if now.machine == self.reading.machine:
            passed = now.machine_ms - self.reading.machine_ms
        elif self.store_ms is None or self.seen_ms is None:
            passed = 0
        elif self.seen_ms == self.store_ms:
            return self
        else:
            passed = self.seen_ms - self.store_ms
        passed = max(0, min(passed, now.wall_ms - self.reading.wall_ms))
        return replace(self, counted_ms=self.counted_ms + passed, reading=now, store_ms=None)

    def must_begin_again(self, now: Reading) -> bool:
        """Whether the reading must be replaced soon: it is of another machine, or of a wall clock
        that has jumped since.
        """
        last = self.reading
        if last is None or last.machine != now.machine:
            return True
        return abs(self.jump_ms(now)) > APART_MS

    def jump_ms(self, now: Reading) -> int:
        """Return by how much the wall clock was put forward since the reading, or back if it is
        negative, by the clock of the machine. 0 where that cannot be told.
        """
        last = self.reading
        if last is None or last.machine != now.machine:
            return 0
        return now.wall_ms - last.wall_ms - (now.machine_ms - last.machine_ms)

    def marked(self, now: Reading, first: int, sealed: int) -> Ages:
        """Return the ages as of now, with a mark: segments below `sealed` are sealed now, and
        `first` is the first left. Time that is not counted yet gets no mark.
        """
        after = self.at(now)
        return self if after is self else after._mark(first, sealed)

    def _mark(self, first: int, sealed: int) -> Ages:
        marks = [each for each in self.marks if each.number > first]
        if sealed > max([first, *(each.number for each in marks)]):
            marks.append(AgeMark(sealed, self.counted_ms))
        while len(marks) > MARKS_MAX:
            del marks[_closest(marks)]
        return replace(self, marks=tuple(marks))

    def older_than(self, age_ms: float) -> int:
        """Return the number below which all segments were sealed longer ago than an age; 0: none.

        The last record of each of them is at least as old.
        """
        old = [each.number for each in self.marks if self.counted_ms - each.counted_ms > age_ms]
        return max(old, default=0)

    def check(self) -> bool:
        """Whether marks ascend, and none is of a later time than now."""
        times = [*(each.counted_ms for each in self.marks), self.counted_ms]
        return all(one.number < other.number for one, other in pairwise(self.marks)) and all(
            one <= other for one, other in pairwise(times)
        )

    def row(self) -> list[Any]:
        """The ages as the record holds them."""
        reading = None if self.reading is None else list(self.reading)
        return [self.counted_ms, reading, self.store_ms, [list(each) for each in self.marks]]


def ages_of_row(row: Sequence[Any]) -> Ages:
    """Return the ages of a row that `check_types` let pass."""
    counted_ms, reading, store_ms, marks = row
    known = None if reading is None else Reading(*reading)
    return Ages(counted_ms, known, store_ms, tuple(AgeMark(*each) for each in marks))


def _closest(marks: Sequence[AgeMark]) -> int:
    """Return the place of the mark, not the first or last, with the closest neighbours."""
    spans = [
        (after.counted_ms - before.counted_ms, place)
        for place, (before, after) in enumerate(zip(marks, marks[2:], strict=False), start=1)
    ]
    return min(spans)[1] if spans else 0


NO_AGES: Final = Ages()
