"""The entry-log files that count, in order, and each ledger's chunks in them.

Files stand oldest data first, as the checkpoint lists them: where two hold one entry or one state
row, the later counts. Compaction puts one file in the place of neighbours, so that order never
changes. A read finds its chunks by bisection, however many files a ledger is spread over:
per ledger, the highest last id so far and the lowest first id from here on are monotone.

Memory grows with (ledger × file), not with entries. No I/O. Not here: the files (entry_files.py),
their content (ledger_storage.py, compaction.py).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from quire.entry import NO_ENTRY, EntryId, LedgerId
from quire.errors import CorruptEntryError
from quire.storage.entries import extents as tidy
from quire.storage.entries.entry_log import ChunkAt, EntryIndex, LedgerChunks
from quire.storage.entries.extents import Slice
from quire.storage.entries.ledger_state import LedgerState
from quire.storage.entries.stored_run import StoredRun


class FileUse(NamedTuple):
    """How much of a file is still wanted."""

    number: int
    bytes: int
    live_bytes: int
    rows: int
    """State rows that are in no later file."""
    ledgers: int
    """With entries in it, wanted or not."""


class LedgerParts:
    """The parts of one ledger in all files, oldest data first."""

    __slots__ = ("_last_before", "_low_behind", "parts")

    def __init__(self, parts: Iterable[LedgerChunks] = ()) -> None:
        self.parts: list[LedgerChunks] = []
        self._last_before = array("q")
        self._low_behind = array("q")
        for part in parts:
            self.add(part)

    @property
    def last(self) -> EntryId:
        """The highest id in any part."""
        return int(self._last_before[-1]) if self.parts else NO_ENTRY

    def add(self, part: LedgerChunks) -> None:
        """Add the part in the newest file."""
        self._last_before.append(max(self.last, part.last))
        self.parts.append(part)
        self._low_behind.append(part.first)
        at = len(self.parts) - 2
        while at >= 0 and self._low_behind[at] > part.first:
            self._low_behind[at] = part.first
            at -= 1

    def overlapping(self, first: EntryId, last: EntryId) -> list[LedgerChunks]:
        """Return the parts with ids at or between the two."""
        low = bisect_left(self._last_before, first)
        high = bisect_right(self._low_behind, last)
        return [part for part in self.parts[low:high] if part.first <= last and part.last >= first]


NO_PARTS: Final = LedgerParts()


class Shelf:
    """See the module."""

    def __init__(self) -> None:
        self.ledgers: dict[LedgerId, LedgerParts] = {}
        self._ranks: dict[int, int] = {}
        self._members: dict[int, array[int]] = {}
        self._bytes: dict[int, int] = {}
        self._row_files: dict[LedgerId, int] = {}

    @property
    def files(self) -> tuple[int, ...]:
        """Every file, oldest data first."""
        return tuple(self._ranks)

    def __contains__(self, number: int) -> bool:
        return number in self._ranks

    def rank(self, number: int) -> int:
        """Return the place of a file: higher ones cover lower ones."""
        return self._ranks[number]

    def add(self, index: EntryIndex, states: Sequence[LedgerState]) -> None:
        """Add the newest file. `states` are the ledgers of its state rows."""
        self._ranks[index.number] = len(self._ranks)
        self._note(index)
        for ledger, part in index.ledgers.items():
            parts = self.ledgers.get(ledger)
            if parts is None:
                parts = self.ledgers[ledger] = LedgerParts()
            parts.add(part)
        for state in states:
            self._row_files[state.ledger] = index.number

    def _note(self, index: EntryIndex) -> None:
        self._members[index.number] = array("q", sorted(index.ledgers))
        self._bytes[index.number] = sum(part.bytes for part in index.ledgers.values())

    def drop(self, ledger: LedgerId) -> None:
        """Forget a ledger; what files hold of it is garbage from now on."""
        self.ledgers.pop(ledger, None)
        self._row_files.pop(ledger, None)

    def leave_out(self, ledger: LedgerId, chunk: ChunkAt) -> None:
        """Forget one chunk of a ledger: newer files, or memory, have its entries."""
        parts = self.ledgers.get(ledger)
        if parts is None:
            return
        kept = [part.without(chunk) if part.file == chunk.file else part for part in parts.parts]
        left = [part for part in kept if part is not None]
        if left:
            self.ledgers[ledger] = LedgerParts(left)
        else:
            del self.ledgers[ledger]

    def members(self, files: Sequence[int]) -> list[LedgerId]:
        """Return the ledgers that have live entries in some files, ascending."""
        found = {ledger for number in files for ledger in self._members[number]}
        return sorted(ledger for ledger in found if ledger in self.ledgers)

    def parts_in(self, ledger: LedgerId, files: Sequence[int]) -> list[LedgerChunks]:
        """Return the parts of a ledger in some files, oldest data first."""
        parts = self.ledgers.get(ledger)
        return [] if parts is None else [part for part in parts.parts if part.file in files]

    def rows_in(self, files: Sequence[int]) -> list[LedgerId]:
        """Return the ledgers with their latest state row in one of some files, ascending."""
        return sorted(ledger for ledger, number in self._row_files.items() if number in files)

    def replaced(self, old: Sequence[int], new: int | None) -> tuple[int, ...]:
        """Return the files as they will be with `new` (None: nothing) in the place of
        neighbours.
        """
        first = min(self.rank(number) for number in old)
        kept = [number for number in self._ranks if number not in old]
        head = sum(self.rank(number) < first for number in kept)
        return (*kept[:head], *(() if new is None else (new,)), *kept[head:])

    def replace(self, old: Sequence[int], index: EntryIndex | None) -> None:
        """Put a file that holds all that is live in some neighbours in their place."""
        new = None if index is None else index.number
        files = self.replaced(old, new)
        rows = self.rows_in(old)
        self._ranks = {number: rank for rank, number in enumerate(files)}
        if index is not None:
            self._note(index)
            for ledger, part in index.ledgers.items():
                self._replace_parts(ledger, part, old)
            for ledger in rows:
                self._row_files[ledger] = index.number
        for number in old:
            del self._members[number], self._bytes[number]

    def _replace_parts(self, ledger: LedgerId, part: LedgerChunks, old: Sequence[int]) -> None:
        parts = self.ledgers.get(ledger)
        if parts is None:
            return  # dropped while the file was being written
        kept = [each for each in parts.parts if each.file not in old]
        rank = self.rank(part.file)
        head = sum(self.rank(each.file) < rank for each in kept)
        self.ledgers[ledger] = LedgerParts([*kept[:head], part, *kept[head:]])

    def bytes_of(self, files: Iterable[int]) -> int:
        """Return how much some files hold, wanted or not."""
        return sum(self._bytes[number] for number in files)

    def full_uses(self) -> list[FileUse]:
        """Return the use of each file, oldest data first, as if all of it were wanted: an estimate
        without a look at every ledger.
        """
        sizes = ((number, self._bytes[number]) for number in self._ranks)
        return [
            FileUse(number, size, size, 1, len(self._members[number])) for number, size in sizes
        ]

    def uses(self, without: Container[LedgerId] = ()) -> list[FileUse]:
        """Return how much of each file is wanted, or would be without some ledgers, oldest data
        first.
        """
        live = dict.fromkeys(self._ranks, 0)
        rows = dict.fromkeys(self._ranks, 0)
        for ledger, parts in self.ledgers.items():
            for part in () if ledger in without else parts.parts:
                live[part.file] += part.bytes
        for ledger, number in self._row_files.items():
            rows[number] += ledger not in without
        return [
            FileUse(
                number,
                self._bytes[number],
                live[number],
                rows[number],
                len(self._members[number]),
            )
            for number in self._ranks
        ]


CHUNKS_MAX: Final = 128
"""Chunks of one answer: a ledger in small pieces is not gathered from any number of files."""


def are_tidy(chunks: Sequence[ChunkAt]) -> bool:
    """Tell whether no two of some chunks, ascending by first id, may hold the same entry."""
    return all(before.last < after.first for before, after in pairwise(chunks))


def choose_chunks(
    parts: Sequence[LedgerChunks], first: EntryId, last: EntryId, bytes_max: int
) -> tuple[list[ChunkAt], EntryId]:
    """Return the chunks to read of some parts, oldest data first, for the entries from first on:
    ascending by first id, at least chunks that may hold the first entry, else not more than
    `bytes_max`. And the last id that they are complete to.
    """
    found: list[tuple[EntryId, int, ChunkAt]] = []
    for rank, part in enumerate(parts):
        chunks, last = part.overlapping(first, last, bytes_max)
        found += ((chunk.first, rank, chunk) for chunk in chunks)
    found.sort()
    size = 0
    for number, (start, _, chunk) in enumerate(found):
        is_enough = size + chunk.size > bytes_max or number >= CHUNKS_MAX
        if start > last or (number and is_enough and start > first):
            return [each for _, _, each in found[:number]], min(last, start - 1)
        size += chunk.size
    return [each for _, _, each in found], last


def slices_of(
    parts: Sequence[LedgerChunks],
    chunks: Sequence[ChunkAt],
    read: tuple[list[StoredRun], CorruptEntryError | None],
    first: EntryId,
    last: EntryId,
) -> tuple[list[Slice], EntryId]:
    """Return slices of the runs read, oldest data first, and the last id they are complete to.

    Raises `CorruptEntryError` when a chunk that may hold the first entry is damaged.
    """
    runs, damage = read
    if damage is not None:
        last = min(last, damage.entry - 1)
        if last < first:
            raise damage
    if not are_tidy(chunks):
        ranks = {part.file: rank for rank, part in enumerate(parts)}
        runs = sorted(runs, key=lambda run: ranks[run.file])
    return [kept for run in runs if (kept := tidy.within(tidy.whole(run), first, last))], last
