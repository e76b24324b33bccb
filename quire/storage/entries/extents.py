"""Slices: stretches of frames inside checked runs, and how they overlay each other.

Entries are kept in memory as the runs they came in. A slice names frames low ≤ n < high of one run;
a list of slices with disjoint, ascending id ranges is *tidy*. The write cache, an answer to a
read and the order of a flush are tidy lists; `overlay` makes one from slices that overlap, the
later winning (the same entry again, or recovery's replacement of it). Nothing here copies frames.
The module is pure.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

from quire.entry import EntryId, LedgerId


class CheckedRun(Protocol):
    """A run with known entries: a `ScannedRun`, or a `StoredRun`, which finds its
    single frames only when `entries` or `bounds` are asked for.
    """

    @property
    def ledger(self) -> LedgerId: ...
    @property
    def data(self) -> bytes | memoryview: ...
    @property
    def first(self) -> EntryId: ...
    @property
    def last(self) -> EntryId: ...
    @property
    def count(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def entries(self) -> Sequence[EntryId]: ...
    @property
    def bounds(self) -> Sequence[int]: ...
    def cut(self, low: int, high: int) -> memoryview: ...


class Slice(NamedTuple):
    """Frames low ≤ n < high of a run; never empty."""

    run: CheckedRun
    low: int
    high: int

    @property
    def is_whole(self) -> bool:
        return self.high - self.low == self.run.count

    @property
    def first(self) -> EntryId:
        return self.run.entries[self.low] if self.low else self.run.first

    @property
    def last(self) -> EntryId:
        return self.run.last if self.high == self.run.count else self.run.entries[self.high - 1]

    @property
    def size(self) -> int:
        """Bytes of the frames with their sizes."""
        if self.is_whole:
            return self.run.size
        return self.run.bounds[self.high] - self.run.bounds[self.low]

    @property
    def data(self) -> bytes | memoryview:
        """The frames, as a run, not copied."""
        return self.run.data if self.is_whole else self.run.cut(self.low, self.high)


def whole(run: CheckedRun) -> Slice:
    return Slice(run, 0, run.count)


def within(part: Slice, first: EntryId, last: EntryId) -> Slice | None:
    """Return the part of a slice with first ≤ id ≤ last; None when nothing is left."""
    run, low, high = part
    if first <= run.first and run.last <= last:
        return part
    low = bisect_left(run.entries, first, low, high)
    high = bisect_right(run.entries, last, low, high)
    return Slice(run, low, high) if low < high else None


def is_tidy(slices: Sequence[Slice]) -> bool:
    return all(before.last < after.first for before, after in pairwise(slices))


def overlay(slices: Iterable[Slice]) -> list[Slice]:
    """Return the tidy list of all entries in slices; where two hold one entry the later wins."""
    found: dict[EntryId, tuple[CheckedRun, int]] = {}
    for run, low, high in slices:
        for number in range(low, high):
            found[run.entries[number]] = (run, number)
    tidy: list[Slice] = []
    for entry in sorted(found):
        run, number = found[entry]
        if tidy and tidy[-1].run is run and tidy[-1].high == number:
            tidy[-1] = Slice(run, tidy[-1].low, number + 1)
        else:
            tidy.append(Slice(run, number, number + 1))
    return tidy


def split(slices: Iterable[Slice], bytes_max: int) -> Iterator[list[Slice]]:
    """Cut a tidy list into groups of at most `bytes_max` bytes; a larger frame is a group alone."""
    group: list[Slice] = []
    room = bytes_max
    for part in slices:
        run, low, high = part
        size = part.size
        if size <= room:
            group.append(part)
            room -= size
            continue
        while low < high:
            start = run.bounds[low]
            fitting = bisect_right(run.bounds, start + room, low, high + 1) - 1
            if fitting <= low and group:
                yield group
                group, room = [], bytes_max
                continue
            cut = Slice(run, low, max(fitting, low + 1))
            group.append(cut)
            room -= cut.size
            low = cut.high
    if group:
        yield group


def ranges(slices: Iterable[Slice]) -> list[tuple[EntryId, EntryId]]:
    """Return the ids of a tidy list as ascending, disjoint, inclusive ranges."""
    found: list[tuple[EntryId, EntryId]] = []
    for part in slices:
        run, low, high = part
        first, last = part.first, part.last
        is_dense = last - first == high - 1 - low
        ids = [(first, last)] if is_dense else [(entry, entry) for entry in run.entries[low:high]]
        found.extend(ids)
    return join_ranges(found)


def join_ranges(
    found: Iterable[tuple[EntryId, EntryId]],
) -> list[tuple[EntryId, EntryId]]:
    """Return ranges sorted, with touching or overlapping ones joined."""
    joined: list[tuple[EntryId, EntryId]] = []
    for first, last in sorted(found):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return joined
