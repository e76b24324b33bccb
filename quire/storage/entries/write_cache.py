"""Durable entries that are in no entry-log file yet, as the runs they came in.

One tidy list of slices per ledger. A run after all held entries is one append; writers send such
runs. A run that overlaps (a repeated add, recovery's replacement) is woven into its
neighbourhood only. Not here: which entries are durable (journal.py), files (entry_log.py).
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Final

from quire.entry import NO_ENTRY, EntryId, LedgerId
from quire.run import ScannedRun
from quire.storage.entries.extents import Slice, overlay, whole, within

RUN_BYTES_OVERHEAD: Final = 512
"""Cost of a run in memory besides its bytes and columns: the objects around it, rounded up."""


def cost(run: ScannedRun) -> int:
    """Return the bytes of memory a run counts for."""
    return len(run.data) + run.column_bytes + RUN_BYTES_OVERHEAD


@dataclass(slots=True)
class CachedLedger:
    """The entries of one ledger: tidy slices, and the first id of each."""

    slices: list[Slice] = field(default_factory=list)
    firsts: list[EntryId] = field(default_factory=list)
    last: EntryId = NO_ENTRY

    def insert(self, run: ScannedRun) -> None:
        if run.first > self.last:
            self.slices.append(whole(run))
            self.firsts.append(run.first)
            self.last = run.last
            return
        low, high = self._overlapping(run.first, run.last)
        woven = overlay([*self.slices[low:high], whole(run)])
        self.slices[low:high] = woven
        self.firsts[low:high] = [part.first for part in woven]
        self.last = max(self.last, run.last)

    def _overlapping(self, first: EntryId, last: EntryId) -> tuple[int, int]:
        """Return which slices (low ≤ n < high) have ids at or between the two."""
        low = max(0, bisect_right(self.firsts, first) - 1)
        if low < len(self.slices) and self.slices[low].last < first:
            low += 1
        return low, max(low, bisect_right(self.firsts, last))

    def find(self, first: EntryId, last: EntryId, bytes_max: int) -> list[Slice]:
        """Return tidy slices of the entries from first to last, until `bytes_max` is reached."""
        low, high = self._overlapping(first, last)
        found: list[Slice] = []
        size = 0
        for part in self.slices[low:high]:
            kept = within(part, first, last)
            if kept is not None:
                found.append(kept)
                size += kept.size
            if size >= bytes_max:
                break
        return found


@dataclass(slots=True)
class WriteCache:
    """All cached ledgers and their cost."""

    ledgers: dict[LedgerId, CachedLedger] = field(default_factory=dict)
    bytes: int = 0

    def insert(self, run: ScannedRun) -> None:
        ledger = self.ledgers.get(run.ledger)
        if ledger is None:
            ledger = self.ledgers[run.ledger] = CachedLedger()
        ledger.insert(run)
        self.bytes += cost(run)

    def find(self, ledger: LedgerId, first: EntryId, last: EntryId, bytes_max: int) -> list[Slice]:
        cached = self.ledgers.get(ledger)
        return [] if cached is None else cached.find(first, last, bytes_max)

    def all(self, ledger: LedgerId) -> list[Slice]:
        """Return everything held of a ledger, tidy."""
        cached = self.ledgers.get(ledger)
        return [] if cached is None else list(cached.slices)
