"""Everything a bookie holds, found by ledger: states, write caches, entry-log files, the
checkpoint.

`apply_*` (that of runs is in entry_memory.py) change memory and are called for durable journal
records only, by replay and by the live journal alike. `flush` moves the entries in memory into an
entry-log file, and then the checkpoint:

    swap caches, take changed states and the journal's position   (one step: nothing comes between)
    write the file, sync, sync its directory        (after a crash it is unlisted: removed at start)
    write the checkpoint that lists it              (before it the journal is replayed again)
    index the file, forget the flushed cache, release segments

`retire` drops ledgers that were deleted, after their ids are durable:

    write the next generation of the retired ids    (the newest whole file counts at a start)
    write the checkpoint that names it              (an older file alone is damage from then on)
    add the ids, drop states, caches, shelf         (one step)

An add accepted before the last step is for a ledger that this bookie had not dropped yet. It may
become durable later; then it is discarded, by replay as well.

`disown` drops ledgers that other bookies hold (disowning.py) by the same steps, but such a ledger
may be wanted again. So the ids count as disowned before the file is written: a write that fails
may have been made. A ledger that was put into limbo meanwhile keeps its state. To have it again:

    put it into limbo, fetch its entries, flush     (a start keeps a disowned ledger in limbo)
    `own`: write both files without the id          (from here on a start keeps the ledger)
    enter the ledger's record, leave limbo          (self_repair.py)

Files are immutable. Newer sources overlay older ones: file < later file < cache being flushed <
cache. Not here: durability of records (journal.py), protocol rules (node.py), when to flush
(flushing.py), how entries are read (entry_reads.py).
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Final

from quire.entry import EntryId, LedgerId
from quire.errors import CorruptStorageError
from quire.storage.disk.port import Disk
from quire.storage.entries.checkpoint import (
    FIRST,
    Checkpoint,
    read_checkpoint,
    renew_checkpoint,
    write_checkpoint,
)
from quire.storage.entries.entry_files import EntryFiles
from quire.storage.entries.entry_log import (
    ENTRIES,
    ENTRIES_SUFFIX,
    ChunkAt,
    EntryIndex,
    EntryWriter,
    entries_path,
    load_index,
)
from quire.storage.entries.entry_memory import EntryMemory
from quire.storage.entries.entry_reads import EntryReads
from quire.storage.entries.file_set import NO_PARTS, Shelf
from quire.storage.entries.formatting import check_first
from quire.storage.entries.ledger_state import LedgerState, decode_rows, encode_row
from quire.storage.entries.listing import Lister
from quire.storage.entries.read_cache import ReadCache, ReadCounts
from quire.storage.entries.retired import RetiredIds
from quire.storage.entries.retired_file import (
    NOTHING,
    RetiredFile,
    load_retired,
    renew_retired,
    retired_bytes,
    write_retired,
)
from quire.storage.entries.write_cache import WriteCache
from quire.storage.journal.options import StorageOptions
from quire.storage.journal.replay import JournalPosition
from quire.storage.journal.segments import JOURNAL, numbered

UNFINISHED: Final = "repair-unfinished"
"""A state file that is there while a repair of the directory is under way (salvage.py)."""


class LedgerStorage:
    """See the module. Owned by the node; one event loop."""

    def __init__(self, disk: Disk, bookie: str, options: StorageOptions) -> None:
        self._disk = disk
        self._bookie = bookie
        self._files = EntryFiles(disk, options.open_files_max, ReadCache(options.read_cache_bytes))
        self._file_number = 0
        self.checkpoint: Checkpoint = FIRST
        self.memory: Final = EntryMemory(self._begin)
        self.states: Final = self.memory.states
        self._retired: RetiredFile = NOTHING
        self.shelf: Final = Shelf()
        self._turn = asyncio.Lock()
        """Held for a change of the checkpoint: by a flush, or by compaction for its last step."""
        self._flushing = WriteCache()
        self._position = FIRST.position
        self._doubted: set[LedgerId] = set()
        """See `note_doubts`."""
        self.reads: Final = EntryReads(
            self._files, self.shelf, lambda: (self._flushing, self.memory.cache)
        )
        self.lists: Final = Lister(
            self._files, self.shelf, self.reads.find_cached, options.list_bytes_max
        )

    async def load(self) -> None:
        """Read checkpoint, indexes and states. The caller renews their names before it changes
        any file.

        Raises `CorruptStorageError`.
        """
        if UNFINISHED in await self._disk.list():
            raise CorruptStorageError(UNFINISHED, "a repair was begun and not finished")
        checkpoint = await read_checkpoint(self._disk)
        await check_first(self._disk, self._bookie, checkpoint)
        retired = await load_retired(self._disk, self._bookie, checkpoint.retired)
        for directory in (JOURNAL, ENTRIES):
            await self._disk.make_directory(directory)
        await self._disk.sync_directory()
        present = numbered(await self._disk.list(ENTRIES), ENTRIES_SUFFIX)
        indexes = [
            await load_index(self._disk, number, self._bookie) for number in checkpoint.files
        ]
        self.adopt(checkpoint, indexes, max([0, *present, *checkpoint.files]), retired)

    async def renew(self) -> None:
        """Make the names of the newest files durable, which a failed sync may have lost.

        The next checkpoint names this generation of retired ids, and files that an older checkpoint
        lists go on the word of this one. Raises OSError; after ENOSPC it may be called again.
        """
        await renew_checkpoint(self._disk, self.checkpoint)
        await renew_retired(self._disk, self._retired)

    async def remove_unlisted(self) -> None:
        """Remove files that no checkpoint lists: once the journal was found whole. Its missing
        records may be in them, and a repair takes them from there.
        """
        for number in numbered(await self._disk.list(ENTRIES), ENTRIES_SUFFIX):
            if number not in self.checkpoint.files:
                await self._disk.unlink(entries_path(number))
        # A number is free permanently before it is used again, perhaps in another directory.
        await self._disk.sync_directory(ENTRIES)

    def adopt(
        self,
        checkpoint: Checkpoint,
        indexes: Iterable[EntryIndex],
        file_number: int,
        retired: RetiredFile,
    ) -> None:
        """Begin with what files hold, oldest data first; new ones get numbers above
        `file_number`. Ledgers that were retired are garbage in them. A disowned ledger in limbo
        is not: the bookie was making copies of it again.
        """
        self.checkpoint, self._file_number, self._retired = checkpoint, file_number, retired
        for index in indexes:
            states = decode_rows(index.states)
            self.shelf.add(index, states)
            for state in states:
                self.states[state.ledger] = state
        for ledger in {*self.states, *self.shelf.ledgers}:
            found = self.states.get(ledger)
            is_wanted = found is not None and found.in_limbo
            if ledger in self.retired or (self.is_disowned(ledger) and not is_wanted):
                self._drop(ledger)
        for ledger, parts in self.shelf.ledgers.items():
            self.state(ledger).last = parts.last

    def state(self, ledger: LedgerId) -> LedgerState:
        """Return the one state object of a ledger, made if it is missing.

        A ledger that was dropped has none: the returned object is fenced, and is not kept.
        """
        state = self.states.get(ledger)
        if state is None:
            state = LedgerState(ledger)
            if self.retired.is_dropped(ledger):
                state.is_fenced = True
                return state
            self.states[ledger] = state
            if ledger in self.checkpoint.horizon:
                state.doubt()
        return state

    def _begin(self, ledger: LedgerId) -> LedgerState | None:
        return None if self.retired.is_dropped(ledger) else self.state(ledger)

    def forget_if_unknown(self, state: LedgerState) -> None:
        """Drop a state without content and waiters: any client can name any ledger.

        For a caller that asked for it and may have left it empty.
        """
        is_wanted = state.is_known or bool(state.waiters)
        if not is_wanted and self.states.get(state.ledger) is state:
            del self.states[state.ledger]

    def is_doubtful(self, ledger: LedgerId) -> bool:
        """Whether something of a ledger may have been lost: nothing is absent from it then."""
        state = self.states.get(ledger)
        if state is None:
            return ledger in self.checkpoint.horizon and not self.retired.is_dropped(ledger)
        return state.in_limbo

    def limbo(self) -> list[LedgerId]:
        """Return the known ledgers that are in limbo, ascending."""
        return sorted(each.ledger for each in self.states.values() if each.in_limbo)

    def doubt(self, ledger: LedgerId, key_check: str) -> bool:
        """Put a ledger into limbo that the bookie does not hold whole; tell whether it was not
        there before. Durable with the next flush. A deleted ledger stays retired; a disowned one
        has a state again.

        A repair leaves ledgers in limbo whose key it never learned: they get the check now.
        """
        if ledger in self.retired:
            return False
        self._doubted.add(ledger)
        state = self.states.setdefault(ledger, self.state(ledger))
        was_in_limbo, check = state.in_limbo, state.check
        state.doubt(key_check)
        if not was_in_limbo or state.check != check:
            self.memory.changed[ledger] = None
        return not was_in_limbo

    def clear(self, ledger: LedgerId) -> None:
        """Take a ledger out of limbo: it is whole. Durable with the next flush, and harmless to
        forget before.
        """
        self.state(ledger).in_limbo = False
        self.memory.changed[ledger] = None

    @property
    def read_counts(self) -> ReadCounts:
        return self._files.cache.counts

    @property
    def cached_bytes(self) -> int:
        return self.memory.cache.bytes

    def apply_key(self, ledger: LedgerId, key: bytes) -> None:
        state = self.state(ledger)
        state.key, state.is_key_durable = key, True
        self.memory.changed[ledger] = None

    def apply_fence(self, ledger: LedgerId, key: bytes) -> None:
        self.apply_key(ledger, key)
        self.state(ledger).close_door()

    def touch(self, ledger: LedgerId) -> None:
        """Note that a state changed outside of the journal (an explicit LAC)."""
        self.memory.changed[ledger] = None

    async def flush(self, position: Callable[[], JournalPosition]) -> int:
        """Move the entries in memory into a file and the checkpoint to `position`; return the cost
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
            self._flushing, self.memory.cache = self.memory.cache, WriteCache()
            self._position = position
        freed = self._flushing.bytes
        changed, self.memory.changed = self.memory.changed, {}
        try:
            index = await self._write_file(changed)
            await self._write_checkpoint(index)
        except BaseException:  # also a caller that is cancelled: the next flush writes them
            self.memory.changed = {**changed, **self.memory.changed}
            raise
        if index is not None:
            self.shelf.add(index, decode_rows(index.states))
        self._flushing = WriteCache()
        return freed

    async def _write_file(self, changed: dict[LedgerId, None]) -> EntryIndex | None:
        """Write the flushed cache and the changed states; None when there is neither."""
        if not changed and not self._flushing.ledgers:
            return None
        # Without a waiter it is not remembered (it was in limbo, and was found whole).
        rows = [encode_row(self.states[each]) for each in sorted(changed) if each in self.states]
        ledgers = (
            (ledger, self._flushing.all(ledger)) for ledger in sorted(self._flushing.ledgers)
        )
        return await self.new_file().write(ledgers, b"".join(rows))

    def new_file(self) -> EntryWriter:
        """Return the writer of a file that did not exist before."""
        self._file_number += 1
        return EntryWriter(self._disk, self._file_number, self._bookie)

    @property
    def retired(self) -> RetiredIds:
        """The ids of the ledgers that were dropped."""
        return self._retired.ids

    @property
    def retired_generation(self) -> int:
        """How often the retired ids, or `agreed`, were written; 0: never."""
        return self._retired.generation

    @property
    def agreed(self) -> int:
        """The incarnation of the metadata store that this bookie last agreed to; 0: none."""
        return self._retired.agreed

    async def agree(self, incarnation: int) -> None:
        """Note the incarnation of the metadata store, durably. Raises OSError: then it is not
        noted.
        """
        async with self._turn:
            await self._keep(self._retired.next(agreed=incarnation))

    async def retire(self, ledgers: Sequence[LedgerId]) -> None:
        """Forget ledgers that were deleted, after their ids are durable. Their bytes go with
        compaction. Raises OSError: then nothing is forgotten.
        """
        async with self._turn:
            ids = self.retired.joined((each, each) for each in ledgers)
            await self._keep(self._retired.next(ids=ids))
            for ledger in ledgers:
                self._drop(ledger)

    def note_doubts(self) -> set[LedgerId]:
        """Return a set that gets every ledger put into limbo, or asked for while it is there, from
        now to the next call.
        """
        self._doubted = set()
        return self._doubted

    async def disown(
        self, ledgers: Sequence[LedgerId], doubted: Container[LedgerId]
    ) -> list[LedgerId]:
        """Forget ledgers that other bookies hold, after their ids are durable, and return them.

        Ledgers in limbo stay, and so do `doubted` ones: the set of a `note_doubts` before it was
        proved that they may go. Raises OSError: then nothing is forgotten, and the ids may be
        durable. They count as disowned from then on, and a start drops their ledgers.
        """
        async with self._turn:
            going = [each for each in ledgers if self._may_go(each, doubted)]
            if not going:
                return []
            self._retired = self._retired._replace(ids=self.retired.disowning(going))
            await self._keep(self._retired.next())
            # The mender may have asked for one of them while the files were written.
            gone = [each for each in going if self._may_go(each, doubted)]
            for ledger in gone:
                self._drop(ledger)
        return gone

    def _may_go(self, ledger: LedgerId, doubted: Container[LedgerId]) -> bool:
        state = self.states.get(ledger)
        return state is not None and not state.in_limbo and ledger not in doubted

    def is_disowned(self, ledger: LedgerId) -> bool:
        """Whether a ledger was given up, and is not this bookie's again."""
        return ledger in self.retired.disowned

    async def own(self, ledger: LedgerId) -> None:
        """Take a ledger's id out of the disowned ones, durably: it was put into limbo, and that is
        durable. Raises OSError: then it stays disowned.
        """
        async with self._turn:
            if ledger in self.retired.disowned:
                await self._keep(self._retired.next(ids=self.retired.owning(ledger)))

    def retired_bytes(self, more: int) -> int:
        """Return the space that the ids need when so many ledgers more are retired."""
        return retired_bytes(self.retired, more)

    async def keep_retired(self) -> None:
        """Write the retired ids again, for the next checkpoint to name. Raises OSError."""
        file = self._retired.next()
        await write_retired(self._disk, self._bookie, file)
        self._retired = file

    async def _keep(self, file: RetiredFile) -> None:
        """Make retired ids durable; the caller acts on them in the step of the return."""
        await write_retired(self._disk, self._bookie, file)
        await self._list(self.checkpoint.files, self.checkpoint.position, file.generation)
        self._retired = file

    def _drop(self, ledger: LedgerId) -> None:
        """Forget a retired ledger; calls that hold its state find it fenced."""
        state = self.states.pop(ledger, None)
        if state is not None:
            state.close_door()
        self.memory.changed.pop(ledger, None)
        for cache in (self.memory.cache, self._flushing):
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

    async def _list(
        self, files: tuple[int, ...], position: JournalPosition, retired: int | None = None
    ) -> None:
        generation = self._retired.generation if retired is None else retired
        checkpoint = self.checkpoint.next(position, files, generation)
        await write_checkpoint(self._disk, checkpoint)
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
        """See `EntryReads.read`."""
        return await self.reads.read(ledger, first, last, bytes_max)

    def chunks(self, ledger: LedgerId) -> list[ChunkAt]:
        """Return every chunk of a ledger in files, oldest data first."""
        parts = self.shelf.ledgers.get(ledger, NO_PARTS).parts
        return [chunk for part in parts for chunk in part.all()]

    def leave_out(self, ledger: LedgerId, chunk: ChunkAt) -> None:
        """Forget a damaged chunk: all that is wanted of it was stored again."""
        self.shelf.leave_out(ledger, chunk)
        caches = [each.ledgers.get(ledger) for each in (self._flushing, self.memory.cache)]
        lasts = [each.last for each in caches if each is not None]
        self.state(ledger).last = max([self.shelf.ledgers.get(ledger, NO_PARTS).last, *lasts])

    async def close(self) -> None:
        await self._files.close()
