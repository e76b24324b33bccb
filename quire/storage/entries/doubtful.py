"""Which unknown ledgers a repaired bookie may have lost data of. Pure.

A bookie may have answered a fence for a ledger that its metadata does not name it for any more. So
after a repair it doubts every ledger that existed then and that it does not know, unless the
metadata store proved that the bookie had nothing of it (quire/repair/census.py).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from quire.entry import LedgerId

RANGES_MAX: Final = 1000
"""Ranges kept, the highest ones: all ids below them count as doubtful."""


@dataclass(frozen=True, slots=True)
class Horizon:
    """Ledgers below `below` are doubtful, but those in `clean`: ascending, disjoint, inclusive
    ranges of ids.
    """

    below: LedgerId = 0
    clean: tuple[tuple[LedgerId, LedgerId], ...] = ()

    def __contains__(self, ledger: LedgerId) -> bool:
        """Whether something may have been lost of a ledger the bookie has no word about."""
        if not 0 <= ledger < self.below:
            return False
        at = bisect_right(self.clean, (ledger, self.below)) - 1
        return at < 0 or ledger > self.clean[at][1]

    def joined(self, older: Horizon) -> Horizon:
        """Return the horizon of a repair after an earlier one: nothing leaves it."""
        below = max(self.below, older.below)
        sound = (*older.clean, *([(older.below, below)] if older.below < below else []))
        both = [
            (max(first, low), min(last, high))
            for first, last in self.clean
            for low, high in sound[max(0, bisect_right(sound, (first, below)) - 1) :]
            if low <= last and first <= high
        ]
        return Horizon.around(both, below)

    @classmethod
    def around(cls, clean: Iterable[tuple[LedgerId, LedgerId]], below: LedgerId) -> Horizon:
        """Return the horizon that doubts all but some ranges below `below`: ascending, disjoint."""
        ranges: list[tuple[LedgerId, LedgerId]] = []
        for first, last in clean:
            if ranges and ranges[-1][1] == first - 1:
                ranges[-1] = (ranges[-1][0], last)
            else:
                ranges.append((first, last))
        return cls(below, tuple(ranges[-RANGES_MAX:]))


NO_HORIZON: Final = Horizon()
"""The horizon of a bookie that was never repaired."""


def decode_ranges(rows: Sequence[object]) -> tuple[tuple[LedgerId, LedgerId], ...]:
    """Return ranges as they stand in a record. Raises ValueError for invalid ones."""
    found: list[tuple[LedgerId, LedgerId]] = []
    for row in rows:
        match row:
            case [int(first), int(last)] if (found[-1][1] if found else -1) < first <= last:
                found.append((first, last))
            case _:
                raise ValueError(f"{row!r} is not a range after the range before it")
    return tuple(found)
