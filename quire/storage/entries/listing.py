"""Which ids a bookie holds of a ledger, piece by piece.

The index row of a chunk without gaps tells its ids. A chunk with gaps, as in a striped
ensemble, must be read and scanned. The work for one piece is bounded: a client that asks for all
of a large ledger waits for a piece at a time, and other clients do not wait long. Listing does not
use the read cache: the chunks that readers fetched stay there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from quire.bookie import list_all
from quire.entry import ENTRY_MAX, EntryId, LedgerId
from quire.errors import CorruptEntryError
from quire.outline import Outline, joined
from quire.storage.entries import extents as tidy
from quire.storage.entries.entry_files import EntryFiles
from quire.storage.entries.entry_log import ChunkAt, LedgerChunks
from quire.storage.entries.extents import Slice
from quire.storage.entries.file_set import NO_PARTS, Shelf

ROW_COST_BYTES: Final = 64
"""Cost of a chunk that need not be read: a row of the index, taken apart."""

READ_AT_ONCE: Final = 4
"""Chunks in memory together, of about 64 KiB: 10 ms of looking at the smallest frames."""

SPANS_MAX: Final = 16_384
"""Chunks of one ledger in an outline: a GiB of entries, and some 10 ms."""

ROWS_AT_ONCE: Final = 2_000
"""Spans and ledgers between two turns of the loop: a millisecond."""

FindCached: TypeAlias = Callable[[LedgerId, EntryId, EntryId, int], tuple[Sequence[Slice], EntryId]]
"""Finds slices of entries in memory, of a ledger from first to last, until so many bytes are
reached; returns the last id that they are complete to as well."""


class Lister:
    """Lists the ids on the shelf and in memory."""

    def __init__(
        self, files: EntryFiles, shelf: Shelf, find_cached: FindCached, bytes_max: int
    ) -> None:
        self._files = files
        self._shelf = shelf
        self._find_cached = find_cached
        self._bytes_max = bytes_max

    async def some(
        self, ledger: LedgerId, first: EntryId = 0, last: EntryId = ENTRY_MAX
    ) -> list[tuple[EntryId, EntryId]]:
        """Return the ids held from first to last, complete up to the last of them; empty only when
        the bookie holds none of them.

        Raises `CorruptEntryError` when a chunk that may hold the first of them is damaged.
        """
        while first <= last:
            cached, end = self._find_cached(ledger, first, last, self._bytes_max)
            parts = self._shelf.ledgers.get(ledger, NO_PARTS).overlapping(first, end)
            chunks, end = choose_listed(parts, first, end, self._bytes_max)
            found, damage = await self._look(ledger, chunks)
            if damage is not None:
                if not all(chunk.file in self._shelf for chunk in chunks):
                    continue  # compaction has put another file in the place of one of them
                if damage.entry <= first:
                    raise damage
                end = damage.entry - 1
            listed = _clipped([*tidy.ranges(cached), *found], first, end)
            if listed:
                return listed
            first = end + 1
        return []

    async def all(
        self, ledger: LedgerId, first: EntryId = 0, last: EntryId = ENTRY_MAX
    ) -> list[tuple[EntryId, EntryId]]:
        """Return all ids held from first to last. Raises as `some`."""
        return await list_all(lambda start: self.some(ledger, start, last), first, last)

    async def outlines(self, ledgers: Sequence[LedgerId]) -> list[Outline | None]:
        """Return the outlines of some ledgers; None where only the list tells, because chunks with
        gaps overlap, or because there are very many. Reads nothing: the index knows how many
        entries a chunk has.
        """
        found: list[Outline | None] = []
        rows = 0
        for ledger in ledgers:
            spans = self._spans(ledger)
            found.append(None if spans is None else joined(spans))
            rows += 1 if spans is None else 1 + len(spans)
            if rows >= ROWS_AT_ONCE:
                rows = 0
                await asyncio.sleep(0)  # others have their turn
        return found

    def _spans(self, ledger: LedgerId) -> list[Outline] | None:
        """Return the spans that are held in memory and in chunks; None for too many."""
        cached, end = self._find_cached(ledger, 0, ENTRY_MAX, self._bytes_max)
        parts = self._shelf.ledgers.get(ledger, NO_PARTS).parts
        if end < ENTRY_MAX or sum(len(part.firsts) for part in parts) > SPANS_MAX:
            return None
        found = [Outline(low, high, high - low + 1) for low, high in tidy.ranges(cached)]
        for part in parts:
            found += part.spans()
        return found

    async def _look(
        self, ledger: LedgerId, chunks: Sequence[ChunkAt]
    ) -> tuple[list[tuple[EntryId, EntryId]], CorruptEntryError | None]:
        """Return the ids in chunks, as ranges in any order; only some of the ids after the first
        entry of a chunk that is damaged or cannot be read.
        """
        found = [(chunk.first, chunk.last) for chunk in chunks if chunk.is_dense]
        sparse = [chunk for chunk in chunks if not chunk.is_dense]
        for start in range(0, len(sparse), READ_AT_ONCE):
            runs, damage = await self._files.read(ledger, sparse[start : start + READ_AT_ONCE])
            found += tidy.ranges(map(tidy.whole, runs))
            if damage is not None:
                return found, damage
        return found, None


def choose_listed(
    parts: Sequence[LedgerChunks], first: EntryId, last: EntryId, bytes_max: int
) -> tuple[list[ChunkAt], EntryId]:
    """Return the chunks that tell which ids from first on are held, ascending by first id: at least
    the chunks that may hold the first, else not many more bytes to be read than `bytes_max`. And
    the last id that they are complete to.
    """
    found: list[ChunkAt] = []
    for part in parts:
        cost = 0
        for chunk in part.since(first):
            if chunk.first > last:
                break
            if cost >= bytes_max:
                last = chunk.first - 1
                break
            found.append(chunk)
            cost += _cost(chunk)
    found.sort(key=lambda chunk: chunk.first)
    cost = 0
    for number, chunk in enumerate(found):
        if chunk.first > last or (cost >= bytes_max and chunk.first > first):
            return found[:number], min(last, chunk.first - 1)
        cost += _cost(chunk)
    return found, last


def _cost(chunk: ChunkAt) -> int:
    return ROW_COST_BYTES if chunk.is_dense else chunk.size


def _clipped(
    ranges: Iterable[tuple[EntryId, EntryId]], first: EntryId, last: EntryId
) -> list[tuple[EntryId, EntryId]]:
    """Return what of ranges lies between the two, sorted and joined."""
    cut = ((max(low, first), min(high, last)) for low, high in ranges)
    return tidy.join_ranges((low, high) for low, high in cut if low <= high)
