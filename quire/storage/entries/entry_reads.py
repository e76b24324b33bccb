"""Reading the entries that a bookie holds of a ledger, out of memory and files together.

Newer sources overlay older ones: file < later file < cache being flushed < cache. Compaction may
put another file in the place of one while it is read; then the read begins again. So does a read
that found nothing, if an entry arrived while it waited for the disk: a denial is true when it is
given (docs/protocol.md, B3).

Not here: the sources themselves and their changes (ledger_storage.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from quire.entry import ENTRY_MAX, EntryId, LedgerId
from quire.errors import CorruptEntryError
from quire.storage.entries import extents as tidy
from quire.storage.entries.entry_files import EntryFiles
from quire.storage.entries.entry_log import CHUNK_BYTES, ChunkAt, LedgerChunks
from quire.storage.entries.extents import Slice
from quire.storage.entries.file_set import (
    NO_PARTS,
    LedgerParts,
    Shelf,
    are_tidy,
    choose_chunks,
    slices_of,
)
from quire.storage.entries.stored_run import joined
from quire.storage.entries.write_cache import WriteCache

AHEAD_BYTES: Final = 1024 * 1024
"""Bytes announced to the disk at once, ahead of a sequential client: a usual answer."""


class EntryReads:
    """See the module. `caches` returns the write caches as they are now, the older one first."""

    def __init__(
        self, files: EntryFiles, shelf: Shelf, caches: Callable[[], Sequence[WriteCache]]
    ) -> None:
        self._files = files
        self._shelf = shelf
        self._caches = caches

    async def read(
        self, ledger: LedgerId, first: EntryId, last: EntryId, bytes_max: int
    ) -> bytes | None:
        """Return, as a run cut at `bytes_max`, entries held from first to last; None if none is
        held now.

        Raises `CorruptEntryError` when a chunk that may hold the first of them is damaged; damage
        further on ends the run early.
        """
        while True:
            before = self._parts(ledger, first, last)
            run = await self._read_once(ledger, first, last, bytes_max)
            if run is not None or self._is_still_without(ledger, first, last, before):
                return run

    def _parts(self, ledger: LedgerId, first: EntryId, last: EntryId) -> list[LedgerChunks]:
        return self._shelf.ledgers.get(ledger, NO_PARTS).overlapping(first, last)

    def _is_still_without(
        self, ledger: LedgerId, first: EntryId, last: EntryId, before: list[LedgerChunks]
    ) -> bool:
        """Return whether no source has come up since `before`, in which no entry was found."""
        now = self._parts(ledger, first, last)
        has_new = any(all(part is not old for old in before) for part in now)
        return not has_new and not self.find_cached(ledger, first, last, 1)[0]

    async def _read_once(
        self, ledger: LedgerId, first: EntryId, last: EntryId, bytes_max: int
    ) -> bytes | None:
        taken: list[Slice] = []
        room = bytes_max
        # A large answer ends where a chunk does, so that the next begins with a whole one.
        waste = CHUNK_BYTES if bytes_max > 4 * CHUNK_BYTES else 0
        while first <= last:
            try:
                found, complete_to = await self._find(ledger, first, last, room)
            except CorruptEntryError:
                if not taken:
                    raise
                break
            group = next(tidy.split(found, room), [])
            size = sum(part.size for part in group)
            if taken and size > room:
                break
            taken += group
            room -= size
            if group and (room <= waste or group[-1].last < found[-1].last):
                break
            first = complete_to + 1
        return joined(taken) if taken else None

    async def _find(
        self, ledger: LedgerId, first: EntryId, last: EntryId, bytes_max: int
    ) -> tuple[list[Slice], EntryId]:
        """Return tidy slices of the entries from first on, and the last id that they are
        complete to.
        """
        while True:
            cached, end = self.find_cached(ledger, first, last, bytes_max)
            held = self._shelf.ledgers.get(ledger, NO_PARTS)
            parts = held.overlapping(first, end)
            chunks, end = choose_chunks(parts, first, end, bytes_max)

            def ahead(behind: EntryId, held: LedgerParts = held) -> Sequence[ChunkAt]:
                parts = held.overlapping(behind + 1, ENTRY_MAX)
                return choose_chunks(parts, behind + 1, ENTRY_MAX, AHEAD_BYTES)[0]

            wanted = (first, end) if are_tidy(chunks) else None
            read = await self._files.serve(ledger, chunks, wanted, ahead)
            try:
                found, end = slices_of(parts, chunks, read, first, end)
            except CorruptEntryError:
                if all(part.file in self._shelf for part in parts):
                    raise
                continue  # compaction has put another file in the place of one of them
            found += (kept for part in cached if (kept := tidy.within(part, first, end)))
            return (found if tidy.is_tidy(found) else tidy.overlay(found)), end

    async def find_tidy(
        self,
        ledger: LedgerId,
        parts: Sequence[LedgerChunks],
        first: EntryId,
        last: EntryId,
        bytes_max: int,
    ) -> tuple[list[Slice], EntryId]:
        """Return tidy slices of the entries of some files, oldest data first, as they are on the
        disk, and the last id that they are complete to. Raises `CorruptEntryError` when a chunk
        that may hold the first entry is damaged.
        """
        chunks, last = choose_chunks(parts, first, last, bytes_max)
        read = await self._files.read(ledger, chunks)
        found, last = slices_of(parts, chunks, read, first, last)
        return (found if tidy.is_tidy(found) else tidy.overlay(found)), last

    def find_cached(
        self, ledger: LedgerId, first: EntryId, last: EntryId, bytes_max: int
    ) -> tuple[list[Slice], EntryId]:
        """Return slices of both caches, the older first."""
        found: list[Slice] = []
        for cache in self._caches():
            slices = cache.find(ledger, first, last, bytes_max)
            if sum(part.size for part in slices) >= bytes_max:
                last = min(last, slices[-1].last)
            found += slices
        return found, last

    async def verify(self, ledger: LedgerId, chunk: ChunkAt) -> CorruptEntryError | None:
        """Read a chunk and return its damage."""
        _, damage = await self._files.read(ledger, [chunk])
        return damage
