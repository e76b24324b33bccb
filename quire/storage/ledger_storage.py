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

from quire.entry import ENTRY_MAX, EntryId, LedgerId
from quire.errors import CorruptEntryError, CorruptStorageError
from quire.run import ScannedRun
from quire.storage import slices as tidy
from quire.storage.checkpoint import FIRST, Checkpoint, read_checkpoint, write_checkpoint
from quire.storage.disk import Disk
from quire.storage.entry_files import EntryFiles
from quire.storage.entry_log import (
    CHUNK_BYTES,
    ENTRIES,
    ENTRIES_SUFFIX,
    ChunkAt,
    EntryIndex,
    EntryWriter,
    LedgerChunks,
    entries_path,
    load_index,
)
from quire.storage.fresh import check_first
from quire.storage.ledger_state import LedgerState, decode_rows, encode_row
from quire.storage.listing import Lister
from quire.storage.options import StorageOptions
from quire.storage.read_cache import ReadCache, ReadCounts
from quire.storage.replay import JournalPosition
from quire.storage.segments import JOURNAL, numbered
from quire.storage.shelf import NO_PARTS, LedgerParts, Shelf, are_tidy, choose_chunks, slices_of
from quire.storage.slices import Slice
from quire.storage.stored_run import joined
from quire.storage.write_cache import WriteCache

UNFINISHED: Final = "repair-unfinished"
"""A state file that is there while a repair of the directory is under way (salvage.py)."""

AHEAD_BYTES: Final = 1024 * 1024
"""What the disk is told of at once, ahead of somebody who reads in order: a usual answer."""


class LedgerStorage:
    """See the module. Owned by the node; one event loop."""

    def __init__(self, disk: Disk, bookie: str, options: StorageOptions) -> None:
        self._disk = disk
        self._bookie = bookie
        self._files = EntryFiles(disk, options.open_files_max, ReadCache(options.read_cache_bytes))
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
        self.lists: Final = Lister(
            self._files, self.shelf, self._find_cached, options.list_bytes_max
        )

    async def load(self) -> None:
        """Read checkpoint, indexes and states.

        Raises `CorruptStorageError`.
        """
        if UNFINISHED in await self._disk.list():
            raise CorruptStorageError(UNFINISHED, "a repair was begun and not finished")
        checkpoint = await read_checkpoint(self._disk)
        await check_first(self._disk, self._bookie, checkpoint)
        for directory in (JOURNAL, ENTRIES):
            await self._disk.make_directory(directory)
        await self._disk.sync_directory()
        present = numbered(await self._disk.list(ENTRIES), ENTRIES_SUFFIX)
        indexes = [
            await load_index(self._disk, number, self._bookie) for number in checkpoint.files
        ]
        self.adopt(checkpoint, indexes, max([0, *present, *checkpoint.files]))

    async def remove_unlisted(self) -> None:
        """Remove files that no checkpoint lists: once the journal was found whole. What it lacks
        may be in them, and a repair takes it from there.
        """
        for number in numbered(await self._disk.list(ENTRIES), ENTRIES_SUFFIX):
            if number not in self.checkpoint.files:
                await self._disk.unlink(entries_path(number))
        # A number is free for good before it is used again, perhaps in another directory.
        await self._disk.sync_directory(ENTRIES)

    def adopt(
        self, checkpoint: Checkpoint, indexes: Iterable[EntryIndex], file_number: int
    ) -> None:
        """Begin with what files hold, oldest data first; new ones get numbers above
        `file_number`.
        """
        self.checkpoint, self._file_number = checkpoint, file_number
        for index in indexes:
            states = decode_rows(index.states)
            self.shelf.add(index, states)
            for state in states:
                self.states[state.ledger] = state
        for ledger, parts in self.shelf.ledgers.items():
            self.state(ledger).last = parts.last

    def state(self, ledger: LedgerId) -> LedgerState:
        """Return the one state object of a ledger, made when there is none."""
        state = self.states.get(ledger)
        if state is None:
            state = self.states[ledger] = LedgerState(ledger)
            if ledger in self.checkpoint.horizon:
                state.doubt()
        return state

    def forget_if_unknown(self, state: LedgerState) -> None:
        """Drop a state that says nothing and that nobody waits for: anybody can name ledgers.

        For whoever asked for it and may have left nothing in it.
        """
        is_wanted = state.is_known or bool(state.waiters)
        if not is_wanted and self.states.get(state.ledger) is state:
            del self.states[state.ledger]

    def is_doubtful(self, ledger: LedgerId) -> bool:
        """Whether something of a ledger may have been lost: nothing is absent from it then."""
        state = self.states.get(ledger)
        return ledger in self.checkpoint.horizon if state is None else state.in_limbo

    def limbo(self) -> list[LedgerId]:
        """Return the known ledgers that are in limbo, ascending."""
        return sorted(each.ledger for each in self.states.values() if each.in_limbo)

    def clear(self, ledger: LedgerId) -> None:
        """Take a ledger out of limbo: it is whole. Durable with the next flush, and harmless to
        forget before.
        """
        self.state(ledger).in_limbo = False
        self._changed[ledger] = None

    @property
    def read_counts(self) -> ReadCounts:
        return self._files.cache.counts

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
            freed = await self._flush(position())
        await self._files.drop_doomed()
        return freed

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
        # One that nobody waits for any more is not remembered (in limbo it was, and found whole).
        rows = [encode_row(self.states[each]) for each in sorted(changed) if each in self.states]
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

        Raises OSError; after ENOSPC a new file that is not on the shelf is to be removed.
        """
        async with self._turn:
            files = self.shelf.replaced(old, None if index is None else index.number)
            await self._list(files, self.checkpoint.position)
            self.shelf.replace(old, index)
            self._files.retire(old)
            # Both generations, or the older one would name files that are gone.
            await self._list(files, self.checkpoint.position)
        await self._files.drop_doomed()

    async def _list(self, files: tuple[int, ...], position: JournalPosition) -> None:
        await write_checkpoint(self._disk, checkpoint := self.checkpoint.next(position, files))
        self.checkpoint = checkpoint
        self._files.doom()

    async def _write_checkpoint(self, index: EntryIndex | None) -> None:
        files = self.checkpoint.files + (() if index is None else (index.number,))
        try:
            await self._list(files, self._position)
        except OSError as error:
            if error.errno == errno.ENOSPC and index is not None:
                await self._disk.unlink(entries_path(index.number))
            raise

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
        """Return tidy slices of the entries from first on, and the id up to which they are
        complete.
        """
        while True:
            cached, end = self._find_cached(ledger, first, last, bytes_max)
            held = self.shelf.ledgers.get(ledger, NO_PARTS)
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
        """Return tidy slices of what some files hold, oldest data first, as it is on the disk, and
        the id up to which they are complete. Raises `CorruptEntryError` when what may be the first
        entry is damaged.
        """
        chunks, last = choose_chunks(parts, first, last, bytes_max)
        read = await self._files.read(ledger, chunks)
        found, last = slices_of(parts, chunks, read, first, last)
        return (found if tidy.is_tidy(found) else tidy.overlay(found)), last

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

    def chunks(self, ledger: LedgerId) -> list[ChunkAt]:
        """Return every chunk of a ledger in files, oldest data first."""
        parts = self.shelf.ledgers.get(ledger, NO_PARTS).parts
        return [chunk for part in parts for chunk in part.all()]

    def leave_out(self, ledger: LedgerId, chunk: ChunkAt) -> None:
        """Forget a damaged chunk: all that is wanted of it was stored again."""
        self.shelf.leave_out(ledger, chunk)
        caches = [each.ledgers.get(ledger) for each in (self._flushing, self._cache)]
        lasts = [each.last for each in caches if each is not None]
        self.state(ledger).last = max([self.shelf.ledgers.get(ledger, NO_PARTS).last, *lasts])

    async def verify(self, ledger: LedgerId, chunk: ChunkAt) -> CorruptEntryError | None:
        """Read a chunk and return what is wrong with it."""
        _, damage = await self._files.read(ledger, [chunk])
        return damage

    async def close(self) -> None:
        await self._files.close()
