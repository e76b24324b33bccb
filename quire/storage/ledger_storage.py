"""Everything a bookie holds, found by ledger: states, write caches, entry-log files, the
checkpoint.

`apply_*` change memory and are called for durable journal records only, by replay and by the live
journal alike. `flush` moves what is in memory into an entry-log file, and then the checkpoint:

    swap caches, take changed states and the journal's position   (one step: nothing comes between)
    write the file, sync, sync its directory        (after a crash it is unlisted: removed at start)
    write the checkpoint that lists it              (before it the journal is replayed again)
    index the file, forget the flushed cache, release segments

Files are immutable. Newer sources overlay older ones: file < later file < cache being flushed <
cache. Not here: durability of records (journal.py), protocol rules (node.py), when to flush
(upkeep.py).
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from quire.entry import EntryId, LedgerId
from quire.errors import CorruptEntryError, CorruptStorageError
from quire.run import ScannedRun
from quire.storage import slices as tidy
from quire.storage.checkpoint import FIRST, PATHS, Checkpoint, read_checkpoint, write_checkpoint
from quire.storage.disk import Disk
from quire.storage.entry_files import EntryFiles
from quire.storage.entry_log import (
    ENTRIES,
    ENTRIES_SUFFIX,
    ChunkAt,
    EntryIndex,
    EntryWriter,
    LedgerChunks,
    entries_path,
    load_index,
)
from quire.storage.ledger_state import LedgerState, decode_rows, encode_row
from quire.storage.options import StorageOptions
from quire.storage.replay import JournalPosition
from quire.storage.segments import JOURNAL, numbered
from quire.storage.shelf import LedgerParts, Shelf
from quire.storage.slices import Slice
from quire.storage.write_cache import WriteCache

ENTRY_MAX: Final = 2**63 - 1
NO_PARTS: Final = LedgerParts()


class LedgerStorage:
    """See the module. Owned by the node; one event loop."""

    def __init__(self, disk: Disk, bookie: str, options: StorageOptions) -> None:
        self._disk = disk
        self._bookie = bookie
        self._files = EntryFiles(disk, options.open_files_max)
        self._file_number = 0
        self.checkpoint: Checkpoint = FIRST
        self.states: dict[LedgerId, LedgerState] = {}
        self.shelf: Final = Shelf()
        self._turn = asyncio.Lock()
        """Held by whoever changes the checkpoint: a flush, or compaction for its last step."""
        self._changed: dict[LedgerId, None] = {}
        self._cache = WriteCache()
        self._flushing = WriteCache()
        self._position = FIRST.position

    async def load(self) -> None:
        """Read checkpoint, indexes and states; remove files that no checkpoint lists.

        Raises `CorruptStorageError`. A disk that was never used gets its first checkpoint.
        """
        checkpoint = await read_checkpoint(self._disk)
        if checkpoint is None:
            names = await self._disk.list()
            if JOURNAL in names or ENTRIES in names:
                raise CorruptStorageError("checkpoint", "it is missing, but the bookie has data")
            checkpoint = FIRST
            await write_checkpoint(self._disk, checkpoint)
        for directory in (JOURNAL, ENTRIES):
            await self._disk.make_directory(directory)
        await self._disk.sync_directory()
        self.checkpoint = checkpoint
        for number in checkpoint.files:
            self._index(await load_index(self._disk, number, self._bookie))
        for ledger, parts in self.shelf.ledgers.items():
            self.state(ledger).last = parts.last
        await self._remove_unlisted()

    def _index(self, index: EntryIndex) -> None:
        states = decode_rows(index.states)
        self.shelf.add(index, states)
        for state in states:
            self.states[state.ledger] = state

    async def _remove_unlisted(self) -> None:
        present = numbered(await self._disk.list(ENTRIES), ENTRIES_SUFFIX)
        self._file_number = max([0, *present, *self.checkpoint.files])
        for number in present:
            if number not in self.checkpoint.files:
                await self._disk.unlink(entries_path(number))

    def state(self, ledger: LedgerId) -> LedgerState:
        """Return the one state object of a ledger, made when there is none."""
        state = self.states.get(ledger)
        if state is None:
            state = self.states[ledger] = LedgerState(ledger)
        return state

    @property
    def cached_bytes(self) -> int:
        return self._cache.bytes

    @property
    def has_changes(self) -> bool:
        return bool(self._changed or self._cache.ledgers)

    def apply_key(self, ledger: LedgerId, key: bytes) -> None:
        state = self.state(ledger)
        state.key, state.is_key_durable = key, True
        self._changed[ledger] = None

    def apply_fence(self, ledger: LedgerId, key: bytes) -> None:
        self.apply_key(ledger, key)
        state = self.states[ledger]
        state.is_fenced, state.fence = True, None
        state.wake()

    def apply_run(self, run: ScannedRun) -> None:
        state = self.state(run.ledger)
        self._cache.insert(run)
        self._changed[run.ledger] = None
        if run.last > state.last:
            state.last = run.last
        if run.lac > state.hint:
            state.hint = run.lac
        state.wake()

    def touch(self, ledger: LedgerId) -> None:
        """Note that a state changed outside of the journal (an explicit LAC)."""
        self._changed[ledger] = None

    async def flush(self, position: Callable[[], JournalPosition]) -> int:
        """Move what is in memory into a file and the checkpoint to `position`; return the cost
        freed.

        `position` is the journal's, asked in the step that swaps the caches. Raises OSError: after
        ENOSPC nothing is lost and flush may be called again; after any other the process must end.
        """
        async with self._turn:
            return await self._flush(position())

    async def _flush(self, position: JournalPosition) -> int:
        if not self._flushing.bytes:
            self._flushing, self._cache = self._cache, WriteCache()
            self._position = position
        freed = self._flushing.bytes
        changed, self._changed = self._changed, {}
        try:
            index = await self._write_file(changed)
            await self._write_checkpoint(index)
        except OSError:
            self._changed = {**changed, **self._changed}
            raise
        if index is not None:
            self.shelf.add(index, decode_rows(index.states))
        self._flushing = WriteCache()
        return freed

    async def _write_file(self, changed: dict[LedgerId, None]) -> EntryIndex | None:
        """Write what is being flushed and the changed states; None when there is neither."""
        if not changed and not self._flushing.ledgers:
            return None
        rows = [encode_row(self.states[ledger]) for ledger in sorted(changed)]
        ledgers = (
            (ledger, self._flushing.all(ledger)) for ledger in sorted(self._flushing.ledgers)
        )
        return await self.new_file().write(ledgers, b"".join(rows))

    def new_file(self) -> EntryWriter:
        """Return the writer of a file that did not exist before."""
        self._file_number += 1
        return EntryWriter(self._disk, self._file_number, self._bookie)

    async def drop(self, ledgers: Iterable[LedgerId]) -> None:
        """Forget ledgers that were deleted. Their bytes go with compaction.

        Nothing is written: after a restart a file may bring one back, to be dropped again.
        """
        async with self._turn:
            for ledger in ledgers:
                state = self.states.pop(ledger, None)
                if state is not None:
                    state.wake()
                self._changed.pop(ledger, None)
                for cache in (self._cache, self._flushing):
                    cache.ledgers.pop(ledger, None)
                self.shelf.drop(ledger)

    async def replace(self, old: Sequence[int], index: EntryIndex | None) -> None:
        """Put a file into the place of neighbours that hold nothing else, and remove these.

        Raises OSError; after ENOSPC the old files still count and the new one is to be removed.
        """
        async with self._turn:
            files = self.shelf.replaced(old, None if index is None else index.number)
            for _ in PATHS:  # both generations, or the older one would name files that are gone
                checkpoint = self.checkpoint.next(self.checkpoint.position, files)
                await write_checkpoint(self._disk, checkpoint)
                self.checkpoint = checkpoint
            self.shelf.replace(old, index)
        for number in old:
            await self._files.drop(number)

    async def _write_checkpoint(self, index: EntryIndex | None) -> None:
        files = self.checkpoint.files + (() if index is None else (index.number,))
        checkpoint = self.checkpoint.next(self._position, files)
        try:
            await write_checkpoint(self._disk, checkpoint)
        except OSError as error:
            if error.errno == errno.ENOSPC and index is not None:
                await self._disk.unlink(entries_path(index.number))
            raise
        self.checkpoint = checkpoint

    async def read(
        self, ledger: LedgerId, first: EntryId, last: EntryId, bytes_max: int
    ) -> bytes | None:
        """Return, as a run cut at `bytes_max`, entries held from first to last; None if there are
        none.

        Raises `CorruptEntryError` when what may be the first of them is damaged; damage further on
        ends the run early.
        """
        taken: list[Slice] = []
        room = bytes_max
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
            if group and (room <= 0 or group[-1].last < found[-1].last):
                break
            first = complete_to + 1
        return b"".join(part.data for part in taken) if taken else None

    async def _find(
        self, ledger: LedgerId, first: EntryId, last: EntryId, bytes_max: int
    ) -> tuple[list[Slice], EntryId]:
        """Return tidy slices of the entries from first on, and the id up to which they are
        complete.
        """
        while True:
            cached, end = self._find_cached(ledger, first, last, bytes_max)
            parts = self.shelf.ledgers.get(ledger, NO_PARTS).overlapping(first, end)
            try:
                found, end = await self.find_in(ledger, parts, first, end, bytes_max)
            except CorruptEntryError:
                if all(part.file in self.shelf for part in parts):
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
        """Return as `find_in`, with later slices laid over earlier ones."""
        found, last = await self.find_in(ledger, parts, first, last, bytes_max)
        return (found if tidy.is_tidy(found) else tidy.overlay(found)), last

    async def find_in(
        self,
        ledger: LedgerId,
        parts: Sequence[LedgerChunks],
        first: EntryId,
        last: EntryId,
        bytes_max: int,
    ) -> tuple[list[Slice], EntryId]:
        """Return slices of what some files hold, oldest data first, and the id up to which they
        are complete. Raises `CorruptEntryError` when what may be the first entry is damaged.
        """
        ranks = {part.file: rank for rank, part in enumerate(parts)}
        chunks, last = _chunks(parts, ranks, first, last, bytes_max)
        runs, damage = await self._files.read(ledger, chunks)
        if damage is not None:
            last = min(last, chunks[len(runs)].first - 1)
            if last < first:
                raise damage
        read = zip(chunks, map(tidy.whole, runs), strict=False)
        ordered = [whole for _, whole in sorted(read, key=lambda pair: ranks[pair[0].file])]
        return [kept for part in ordered if (kept := tidy.within(part, first, last))], last

    def _find_cached(
        self, ledger: LedgerId, first: EntryId, last: EntryId, bytes_max: int
    ) -> tuple[list[Slice], EntryId]:
        """Return slices of both caches, the newer behind the older."""
        found: list[Slice] = []
        for cache in (self._flushing, self._cache):
            slices = cache.find(ledger, first, last, bytes_max)
            if sum(part.size for part in slices) >= bytes_max:
                last = min(last, slices[-1].last)
            found += slices
        return found, last

    async def verify(self, ledger: LedgerId, chunk: ChunkAt) -> CorruptEntryError | None:
        """Read a chunk and return what is wrong with it."""
        _, damage = await self._files.read(ledger, [chunk])
        return damage

    async def ranges(
        self, ledger: LedgerId, first: EntryId = 0, last: EntryId = ENTRY_MAX
    ) -> list[tuple[EntryId, EntryId]]:
        """Return the ids held from first to last. Raises `CorruptEntryError` when a chunk that
        must be read is damaged.
        """
        found = [
            span
            for cache in (self._flushing, self._cache)
            for span in tidy.ranges(cache.all(ledger))
        ]
        for part in self.shelf.ledgers.get(ledger, NO_PARTS).overlapping(first, last):
            for chunk in part.all():
                if chunk.last < first or chunk.first > last:
                    continue
                if chunk.is_dense:
                    found.append((chunk.first, chunk.last))
                    continue
                runs, damage = await self._files.read(ledger, [chunk])
                if damage is not None:
                    if chunk.file not in self.shelf:
                        return await self.ranges(ledger, first, last)
                    raise damage
                found += tidy.ranges(map(tidy.whole, runs))
        clipped = ((max(low, first), min(high, last)) for low, high in found)
        return tidy.join_ranges([(low, high) for low, high in clipped if low <= high])

    async def close(self) -> None:
        await self._files.close()


def _chunks(
    parts: Sequence[LedgerChunks],
    ranks: dict[int, int],
    first: EntryId,
    last: EntryId,
    bytes_max: int,
) -> tuple[list[ChunkAt], EntryId]:
    """Return the chunks of all parts to read, ascending by first id."""
    found: list[ChunkAt] = []
    for part in parts:
        chunks, last = part.overlapping(first, last, bytes_max)
        found += chunks
    found.sort(key=lambda chunk: (chunk.first, ranks[chunk.file]))
    size = 0
    for number, chunk in enumerate(found):
        if chunk.first > last or (size >= bytes_max and chunk.first > first):
            return found[:number], min(last, chunk.first - 1)
        size += chunk.size
    return found, last
