"""Ids of entries that a bookie holds, as ranges. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from quire.entry import EntryId, LedgerId

LEDGERS_MAX: Final = 4096
"""Ledgers to remember the acknowledged entries of; other entries are read again."""


class HeldIds:
    """Ids as ascending, disjoint, inclusive ranges."""

    __slots__ = ("_ranges",)

    def __init__(self, ranges: Sequence[tuple[EntryId, EntryId]] = ()) -> None:
        self._ranges = list(ranges)

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def ranges(self) -> list[tuple[EntryId, EntryId]]:
        """Return the ranges."""
        return list(self._ranges)

    def add(self, first: EntryId, last: EntryId | None = None) -> None:
        """Add an id, or all ids up to `last`."""
        last = first if last is None else last
        ranges = self._ranges
        if ranges and first == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], last)
            return
        if not ranges or first > ranges[-1][1]:  # a bookie of a stripe holds every second, say
            ranges.append((first, last))
            return
        joined: list[tuple[EntryId, EntryId]] = []
        for low, high in sorted([*ranges, (first, last)]):
            if joined and low <= joined[-1][1] + 1:
                joined[-1] = (joined[-1][0], max(joined[-1][1], high))
            else:
                joined.append((low, high))
        self._ranges = joined

    def within(self, first: EntryId, last: EntryId) -> HeldIds:
        """Return the ids within first..last."""
        cut = ((max(low, first), min(high, last)) for low, high in self._ranges)
        return HeldIds([each for each in cut if each[0] <= each[1]])

    def drop_before(self, first: EntryId) -> None:
        """Drop the ids below one."""
        self._ranges = [(max(low, first), high) for low, high in self._ranges if high >= first]

    def missing(self, first: EntryId, last: EntryId) -> Iterator[EntryId]:
        """Yield the ids of first..last that are not among them now."""
        inside = self.within(first, last).ranges()
        bounds = [(first, first - 1), *inside, (last + 1, last)]
        for (_, before), (after, _) in pairwise(bounds):
            yield from range(before + 1, after)


class Acknowledged:
    """The deferred entries that a bookie acknowledged on one connection, by ledger.

    A writer asks for entries that are not durable yet, so a question about later ones lets go of
    earlier ones: the ids of a stripe are a range each, and would grow with the ledger.
    """

    __slots__ = ("_ledgers",)

    def __init__(self) -> None:
        self._ledgers: dict[LedgerId, HeldIds] = {}

    def note(self, ledger: LedgerId, entries: Sequence[EntryId], outcome: Exception | None) -> None:
        """Note entries, which ascend, if the outcome of their add acknowledges them."""
        if outcome is not None:
            return
        held = self._ledgers.pop(ledger, None) or HeldIds()
        self._ledgers[ledger] = held  # last: the oldest are forgotten first
        if entries[-1] - entries[0] == len(entries) - 1:
            held.add(entries[0], entries[-1])
        else:
            for entry in entries:
                held.add(entry)
        if len(self._ledgers) > LEDGERS_MAX:
            del self._ledgers[next(iter(self._ledgers))]

    def within(self, ledger: LedgerId, first: EntryId, last: EntryId) -> HeldIds:
        """Return the ids of a ledger within first..last."""
        held = self._ledgers.get(ledger)
        return HeldIds() if held is None else held.within(first, last)

    def forget_before(self, ledger: LedgerId, first: EntryId) -> None:
        """Forget the ids of a ledger below one; they are read if they are asked for again."""
        held = self._ledgers.get(ledger)
        if held is not None:
            held.drop_before(first)
