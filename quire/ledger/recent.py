"""The newest entries of a ledger, kept for followers that share a tail.

A ring of runs: consecutive entries from `start` up to, not including, `end`. It is bounded in
bytes, except that the newest run always stays. So a follower of usual pace finds its next entry
here, and a slow one costs no memory: it reads by itself.

Pure: no I/O, no clock and no asyncio. Not here: the tail that fills it (`following`).
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from quire.entry import Entry, EntryId

RECENT_BYTES_MAX: Final = 4 * 1024 * 1024
"""As much as the longest answer to a read holds."""

ENTRY_BYTES: Final = 150
"""What an entry costs beside its payload: the value, its payload's header, and its place in a
run. Otherwise a ring of empty entries would not be bounded.
"""


class RecentEntries:
    """Consecutive confirmed entries. `end` never falls."""

    __slots__ = ("_bytes", "_firsts", "_runs", "_sizes", "end")

    def __init__(self, first: EntryId) -> None:
        self.end = first
        """The entry that comes next."""
        self._runs: list[list[Entry]] = []
        self._firsts: list[EntryId] = []
        self._sizes: list[int] = []
        self._bytes = 0

    @property
    def start(self) -> EntryId:
        """The first entry at hand, or `end`."""
        return self._firsts[0] if self._firsts else self.end

    def push(self, run: list[Entry]) -> None:
        """Add the run that begins at `end`; old runs make room."""
        assert run[0].entry == self.end, f"entry {run[0].entry} where {self.end} comes next"
        size = sum(len(entry.payload) for entry in run) + ENTRY_BYTES * len(run)
        self._runs.append(run)
        self._firsts.append(self.end)
        self._sizes.append(size)
        self._bytes += size
        self.end = run[-1].entry + 1
        old, left = 0, self._bytes
        while left > RECENT_BYTES_MAX and old < len(self._runs) - 1:
            left -= self._sizes[old]
            old += 1
        self._drop(old)

    def from_on(self, entry: EntryId) -> list[Entry]:
        """Return entries at hand from an entry on, in a list of the caller's own.

        Empty if the entry is not at hand: it is before `start`, or not before `end`.
        """
        place = self._place(entry)
        if place < 0 or entry >= self.end:
            return []
        return self._runs[place][entry - self._firsts[place] :]

    def forget_before(self, entry: EntryId) -> None:
        """Drop the runs that end before an entry: every follower has taken them."""
        if self._firsts and self._firsts[0] < entry:
            self._drop(len(self._runs) if entry >= self.end else self._place(entry))

    def skip_to(self, entry: EntryId) -> None:
        """Let the next entry be a later one. Drops all runs, unless it is `end` or before."""
        if entry > self.end:
            self._drop(len(self._runs))
            self.end = entry

    def _place(self, entry: EntryId) -> int:
        """Return the index of the run that has an entry, or of the last one; −1 before all."""
        return bisect_right(self._firsts, entry) - 1

    def _drop(self, count: int) -> None:
        if count:
            self._bytes -= sum(self._sizes[:count])
            del self._runs[:count], self._firsts[:count], self._sizes[:count]
