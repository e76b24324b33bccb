"""Good copies in the place of missing or damaged entries.

Entries that others hold are stored as every entry is, through the journal. A damaged chunk counts
until all entries that the bookie must hold of it are back and durable; then it is left out of the
index, and its file is written anew without it. After a crash in between the chunk is found again,
still damaged and still not served. It is patched again: with entries that newer files have by then,
and the rest from others.

Not here: which entries are missing (self_repair.py), which are damaged (scrub.py), where copies
come from (quire/repair).
"""

from __future__ import annotations

import asyncio
import errno
import logging
from bisect import bisect_right
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from itertools import groupby, islice
from typing import Final

from quire.bookie import READ_BYTES_MAX
from quire.entry import NO_ENTRY, EntryId, LedgerId
from quire.errors import CorruptEntryError, UnreadableError
from quire.storage.entries import extents as tidy
from quire.storage.entries.entry_log import ChunkAt
from quire.storage.entries.ledger_storage import LedgerStorage
from quire.storage.journal.options import StorageOptions
from quire.storage.maintenance.compaction import Compactor
from quire.storage.maintenance.pace import CopyPace
from quire.storage.maintenance.replicas_port import Copies, Owed

_log = logging.getLogger(__name__)

BATCH_ENTRIES: Final = 4096
"""Ids looked at together."""

WAITED_SECONDS_MAX: Final = 60.0
"""Longest wait for one write set of a fragment with silent bookies; the rest of its
entries have to wait for another round."""

ANSWER_SECONDS: Final = 1.0
"""A bookie that denies an entry in less has answered: the next entry is asked for. A bookie that is
away costs up to 5 s."""


class Patcher:
    """See the module. `store_run` makes a run durable; `pace` is to be told of appends."""

    def __init__(
        self,
        storage: LedgerStorage,
        compactor: Compactor,
        options: StorageOptions,
        store_run: Callable[[bytes], Awaitable[None]],
    ) -> None:
        self.pace: Final = CopyPace(options.upkeep_bytes_per_second, options.slow_append_seconds)
        self._storage = storage
        self._compactor = compactor
        self._options = options
        self._store_run = store_run

    async def bring(
        self,
        copies: Copies,
        ledger: LedgerId,
        owed: Owed,
        pieces: AsyncGenerator[Iterable[EntryId], None],
    ) -> AsyncGenerator[tuple[int, int], None]:
        """Fetch some ascending entries that are owed and make them durable, at a rate that falls
        while appends are slow; yield how many entries and bytes came, again and again. `pieces` is
        closed in the end. Raises as `Copies.fetch`, and `UnreadableError` for more than the journal
        can take. An entry without any copy does not stop later ones: its error is raised in the
        end. For a ledger with another key, which a stranger began here, it raises
        `UnreadableError` before anything is fetched: the stranger could read the entries.
        """
        room = min(READ_BYTES_MAX, self._options.run_bytes_max)
        missed: UnreadableError | None = None
        vain = _Vain(owed)
        async with aclosing(_batches(pieces)) as batches:
            async for batch in batches:
                wanted = vain.left(batch)
                while wanted:
                    self._check_key(ledger, wanted[0], owed)
                    vain.begin()
                    try:
                        run, got = await copies.fetch(ledger, wanted, room)
                    except UnreadableError as error:
                        missed = missed or error
                        vain.count(wanted[0])
                        wanted = vain.left(wanted)
                        continue
                    if len(run) > self._options.run_bytes_max:  # it fits into no segment
                        reason = f"its copy has {len(run)} bytes"
                        raise UnreadableError(ledger, wanted[0], reason)
                    await self._store_run(run)
                    yield len(got), len(run)
                    wanted = sorted(set(wanted).difference(got))
                    now = asyncio.get_running_loop().time()
                    await asyncio.sleep(self.pace.pause(len(run), now))
        if missed is not None:
            raise missed

    def _check_key(self, ledger: LedgerId, entry: EntryId, owed: Owed) -> None:
        if not self._storage.state(ledger).is_of(owed.key_check):
            reason = "another program began the ledger at this bookie and could read the copies"
            raise UnreadableError(ledger, entry, reason)

    async def patch(self, copies: Copies, ledger: LedgerId, chunk: ChunkAt, owed: Owed) -> bool:
        """Put good copies in the place of a damaged chunk; False when it is not settled yet which
        entries these are. Raises as `bring`, and then the chunk stays as it is.
        """
        if not owed.settles(chunk.first, chunk.last):
            return False
        held = frozenset(await self._held_later(ledger, chunk))
        wanted: Iterable[EntryId] = owed.within(chunk.first, chunk.last)
        wanted = (entry for entry in wanted if entry not in held)
        async with aclosing(self.bring(copies, ledger, owed, _together(wanted))) as bringing:
            async for _ in bringing:
                pass
        self._storage.leave_out(ledger, chunk)
        return True

    async def _held_later(self, ledger: LedgerId, chunk: ChunkAt) -> list[EntryId]:
        """Return entries of a chunk's range that newer files hold and that can be read: perhaps
        no other bookie has them any more. Not all of them when newer files are damaged, too.
        """
        shelf = self._storage.shelf
        held = shelf.ledgers.get(ledger)
        if held is None or chunk.file not in shelf:
            return []
        rank = shelf.rank(chunk.file)
        parts = [
            part
            for part in held.overlapping(chunk.first, chunk.last)
            if shelf.rank(part.file) > rank
        ]
        entries: list[EntryId] = []
        first = chunk.first
        while first <= chunk.last:
            try:
                found, complete_to = await self._storage.reads.find_tidy(
                    ledger, parts, first, chunk.last, READ_BYTES_MAX
                )
            except CorruptEntryError:
                break
            for low, high in tidy.ranges(found):
                entries += range(low, high + 1)
            first = complete_to + 1
        return entries

    async def patch_ledger(self, copies: Copies, ledger: LedgerId, owed: Owed) -> None:
        """Verify every chunk of a ledger, patch damaged ones, and write their files anew.
        Raises as `patch`.

        `owed` is the caller's: to ask again here would make it another than the last one, and
        places are taken of the last (`Copies.take_places`).
        """
        for number, chunks in groupby(self._storage.chunks(ledger), lambda chunk: chunk.file):
            patched = [
                await self._patch_if_damaged(copies, ledger, chunk, owed) for chunk in chunks
            ]
            if any(patched):
                await self.write_anew(number)

    async def _patch_if_damaged(
        self, copies: Copies, ledger: LedgerId, chunk: ChunkAt, owed: Owed
    ) -> bool:
        error = await self._storage.reads.verify(ledger, chunk)
        if error is None or chunk.file not in self._storage.shelf:
            return False  # sound, or compaction has read it and put another file in its place
        self._compactor.avoid(chunk.file)
        if not await self.patch(copies, ledger, chunk, owed):
            raise error
        return True

    async def write_anew(self, number: int) -> bool:
        """Write a file again, from the index in memory, and tell whether that went well: a file
        with other damage, or on a full disk, stays as it is. Raises OSError other than ENOSPC.
        """
        try:
            return await self._compactor.rewrite(number)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            _log.warning("no room to write entry log %d anew", number)
            return False


class _Vain:
    """The time waited for silent bookies, and the entries no longer waited for: by fragment and
    remainder, because all entries of these have the same write set.
    """

    def __init__(self, owed: Owed) -> None:
        self._owed = owed
        self._time = asyncio.get_running_loop().time
        self._begun = 0.0
        self._behind = NO_ENTRY
        """No bookie gave this one, or any requested one before it."""
        self._waited: dict[tuple[EntryId, int], float] = {}
        self._given_up: set[tuple[EntryId, int]] = set()

    def begin(self) -> None:
        self._begun = self._time()

    def count(self, entry: EntryId) -> None:
        """Note that no bookie gave an entry."""
        self._behind = entry
        spent = self._time() - self._begun
        if spent >= ANSWER_SECONDS:
            key = self._write_set(entry)
            self._waited[key] = self._waited.get(key, 0.0) + spent
            if self._waited[key] >= WAITED_SECONDS_MAX:
                self._given_up.add(key)

    def _write_set(self, entry: EntryId) -> tuple[EntryId, int]:
        stretch = self._owed.stretch_of(entry)
        return stretch.last, entry % stretch.cycle

    def left(self, entries: list[EntryId]) -> list[EntryId]:
        """Return which of some ascending entries are still to be asked for."""
        left = entries[bisect_right(entries, self._behind) :]
        if not self._given_up:
            return left
        return [entry for entry in left if self._write_set(entry) not in self._given_up]


async def _together(entries: Iterable[EntryId]) -> AsyncGenerator[Iterable[EntryId], None]:
    """Yield entries as the only piece."""
    yield entries


async def _batches(
    pieces: AsyncGenerator[Iterable[EntryId], None],
) -> AsyncGenerator[list[EntryId], None]:
    """Yield the ids of all pieces, so many that they can be looked at together."""
    async with aclosing(pieces):
        async for piece in pieces:
            waiting = iter(piece)
            while wanted := list(islice(waiting, BATCH_ENTRIES)):
                yield wanted
