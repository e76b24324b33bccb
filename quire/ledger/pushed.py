"""Entries that bookies pushed, verified, until they are confirmed and wanted.

Bookies push all entries that they hold, also those that their writer has under way. An entry
leaves here only when it is confirmed, and only in its order. A missing entry is not known to be
lost: the tail reads it.

The same entry comes from several bookies, and is kept once. Bytes are bounded: an entry without
space is read later.

Pure: no I/O, no clock and no asyncio. Not here: the proof of an entry (`tail`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from quire.entry import Entry, EntryId
from quire.ledger.recent import ENTRY_BYTES

PUSHED_BYTES_MAX: Final = 1024 * 1024
"""A writer has at most so much under way in most programs: four credits of a subscription."""


class PushedEntries:
    """See the module."""

    __slots__ = ("_bytes", "_found", "_next")

    def __init__(self) -> None:
        self._found: dict[EntryId, Entry] = {}
        self._bytes = 0
        self._next: EntryId = 0
        """No entry below it is kept."""

    def lacks(self, entry: EntryId) -> bool:
        """Return whether an entry is of use: neither here nor gone."""
        return entry >= self._next and entry not in self._found

    def put(self, entries: Iterable[Entry]) -> None:
        """Keep entries, as far as there is space."""
        for entry in entries:
            size = len(entry.payload) + ENTRY_BYTES
            if self.lacks(entry.entry) and self._bytes + size <= PUSHED_BYTES_MAX:
                self._found[entry.entry] = entry
                self._bytes += size

    def take(self, first: EntryId, confirmed: EntryId) -> list[Entry]:
        """Return entries from `first` on, in order and without a gap, up to the last confirmed one;
        drop those before.
        """
        found = self._found
        if self._next < first:
            for entry in [each for each in found if each < first]:
                self._drop(entry)
        taken, entry = list[Entry](), first
        while entry <= confirmed and entry in found:
            taken.append(found[entry])
            self._drop(entry)
            entry += 1
        self._next = max(self._next, entry)
        return taken

    def _drop(self, entry: EntryId) -> None:
        self._bytes -= len(self._found.pop(entry).payload) + ENTRY_BYTES
