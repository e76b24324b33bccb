"""Ids of ledgers that a bookie dropped: kept forever, because a fence must outlive its ledger.

A bookie that forgets a deleted ledger forgets the ledger's fence and key as well, and would take
the next add for the first add of a new ledger. So it keeps the id. Two meanings, never mixed:

    deleted    the ledger's record is provably gone: nothing of the ledger is served again
    disowned   other bookies hold the ledger's entries now: the fence stays, the ledger lives, and
               the id leaves the set when the bookie makes copies again

Ids are sorted, disjoint, inclusive intervals, 16 bytes each. A bookie holds a sample of all ids, so
its dropped ids are rarely neighbours. A gap between two of them is closed only by the ids in it:
the absence of a record proves no deletion, because a client may hold the id and use it tomorrow.

Pure. Not here: the file (retired_file.py), when an id is retired (garbage.py, disowning.py), the
answers about it (node.py).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import islice
from operator import le, lt
from typing import Final, TypeAlias

from quire.entry import NO_ENTRY, LedgerId
from quire.errors import LedgerDisownedError, LedgerFencedError, LedgerRetiredError

Range: TypeAlias = tuple[LedgerId, LedgerId]

DISOWNED: Final = "another bookie holds its entries now"


class Intervals:
    """A set of ledger ids.

    Invariants: `firsts` and `lasts` have equal lengths, firsts[n] ≤ lasts[n], and
    lasts[n] + 1 < firsts[n + 1]: intervals that touch are one interval.
    """

    __slots__ = ("firsts", "lasts")

    def __init__(self, firsts: array[int] | None = None, lasts: array[int] | None = None) -> None:
        self.firsts: Final = array("q") if firsts is None else firsts
        self.lasts: Final = array("q") if lasts is None else lasts

    @classmethod
    def of(cls, ranges: Iterable[Range]) -> Intervals:
        """Return the set of all ids in some ranges, in any order."""
        found = cls()
        for first, last in sorted(ranges):
            found.add(first, last)
        return found

    def __contains__(self, ledger: LedgerId) -> bool:
        at = bisect_right(self.firsts, ledger) - 1
        return at >= 0 and ledger <= self.lasts[at]

    def __iter__(self) -> Iterator[Range]:
        """Yield the intervals, ascending."""
        return zip(self.firsts, self.lasts, strict=True)

    def __len__(self) -> int:
        """Return how many intervals there are."""
        return len(self.firsts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Intervals):
            return NotImplemented
        return self.firsts == other.firsts and self.lasts == other.lasts

    __hash__ = None  # type: ignore[assignment]

    @property
    def highest(self) -> LedgerId:
        """The highest id, −1 without any."""
        return self.lasts[-1] if self.lasts else -1

    def add(self, first: LedgerId, last: LedgerId) -> None:
        """Add the ids first..last; intervals that they touch become one with them."""
        if not 0 <= first <= last:
            raise ValueError(f"{first} to {last} is not a range of ledger ids")
        low = bisect_left(self.lasts, first - 1)
        high = bisect_right(self.firsts, last + 1)
        if low < high:
            first, last = min(first, self.firsts[low]), max(last, self.lasts[high - 1])
        self.firsts[low:high] = array("q", [first])
        self.lasts[low:high] = array("q", [last])

    def remove(self, ledger: LedgerId) -> None:
        """Take one id out, if it is there."""
        if ledger not in self:
            return
        at = bisect_right(self.firsts, ledger) - 1
        first, last = self.firsts[at], self.lasts[at]
        around = [(first, ledger - 1), (ledger + 1, last)]
        left = [each for each in around if each[0] <= each[1]]
        self.firsts[at : at + 1] = array("q", (each[0] for each in left))
        self.lasts[at : at + 1] = array("q", (each[1] for each in left))

    def copy(self) -> Intervals:
        return Intervals(self.firsts[:], self.lasts[:])

    def are_sound(self) -> bool:
        """Tell whether the invariants hold, for ids read from a file."""
        if len(self.firsts) != len(self.lasts) or (self.firsts and self.firsts[0] < 0):
            return False
        are_ranges = all(map(le, self.firsts, self.lasts))
        after = (first - 1 for first in islice(self.firsts, 1, None))
        return are_ranges and all(map(lt, self.lasts, after))


class RetiredIds:
    """The ids of ledgers that a bookie dropped. Only ever grows, but for `disowned`."""

    __slots__ = ("deleted", "disowned")

    def __init__(self, deleted: Intervals | None = None, disowned: Intervals | None = None) -> None:
        self.deleted: Final = deleted or Intervals()
        self.disowned: Final = disowned or Intervals()

    def __contains__(self, ledger: LedgerId) -> bool:
        """Whether a ledger was deleted and dropped."""
        return ledger in self.deleted

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RetiredIds):
            return NotImplemented
        return self.deleted == other.deleted and self.disowned == other.disowned

    __hash__ = None  # type: ignore[assignment]

    @property
    def highest(self) -> LedgerId:
        """The highest id in either set, −1 when both are empty."""
        return max(self.deleted.highest, self.disowned.highest)

    def is_dropped(self, ledger: LedgerId) -> bool:
        """Return whether a ledger was deleted or disowned. Its fence is all that is left."""
        return ledger in self.deleted or ledger in self.disowned

    def check_kept(self, ledger: LedgerId) -> None:
        """Raise for a ledger that was dropped: its absence here denies nothing that was in it.

        Raises `LedgerRetiredError` for a deleted ledger, `LedgerDisownedError` for one that another
        bookie holds.
        """
        if ledger in self.deleted:
            raise LedgerRetiredError(ledger)
        if ledger in self.disowned:
            raise LedgerDisownedError(ledger, NO_ENTRY, DISOWNED)

    def check_writer(self, ledger: LedgerId) -> None:
        """Raise `LedgerFencedError` for a ledger that was dropped: its writer was deposed."""
        if ledger in self.deleted or ledger in self.disowned:
            raise LedgerFencedError(ledger)

    def joined(self, deleted: Iterable[Range]) -> RetiredIds:
        """Return these ids together with ids of deleted ledgers."""
        found = self.deleted.copy()
        for first, last in deleted:
            found.add(first, last)
        return RetiredIds(found, self.disowned.copy())

    def disowning(self, ledgers: Iterable[LedgerId]) -> RetiredIds:
        """Return these ids together with ids of ledgers that other bookies hold."""
        found = self.disowned.copy()
        for ledger in ledgers:
            found.add(ledger, ledger)
        return RetiredIds(self.deleted.copy(), found)

    def owning(self, ledger: LedgerId) -> RetiredIds:
        """Return these ids without a disowned one: the bookie has copies of it again."""
        found = self.disowned.copy()
        found.remove(ledger)
        return RetiredIds(self.deleted.copy(), found)
