"""Scrubbing: everything stored is read again now and then, so that rot is found while other copies
still exist. Damage that a read meets in the meantime is looked at then (`suspect`).

The first round begins somewhere within the time between two, at any file: so a bookie that never
runs for that long, or not for as long as a round takes, is read as often as others in the long run.

Every entry log that counts is verified as a read would verify it: header, footer and index, then
each chunk against its checksum. Damage is logged by ledger and entries, and the file is left alone
by compaction. Then the entries are taken from the other bookies, and the file is written anew
(read_repair.py). Damage without another copy stays in `damage`, is reported by every round, and is
never served. Everything keeps to a rate.

Owns two tasks. Not here: the check of a stopped bookie's whole disk (check.py).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from quire.aio.tasks import Tasks
from quire.entry import BookieId, EntryId, LedgerId
from quire.errors import CorruptStorageError, NoSuchLedgerError, QuireError
from quire.storage.disk.port import Disk, is_shortage
from quire.storage.entries.damage import Damage
from quire.storage.entries.entry_log import ChunkAt, entries_path, load_index
from quire.storage.entries.ledger_storage import LedgerStorage
from quire.storage.journal.options import StorageOptions
from quire.storage.maintenance.compaction import Compactor
from quire.storage.maintenance.read_repair import Patcher
from quire.storage.maintenance.replicas_port import Copies, OpenCopies

_log = logging.getLogger(__name__)

DAMAGE_MAX: Final = 10_000
"""Findings kept; more are only counted and logged."""

SUSPECTS_MAX: Final = 1000
"""Entries that wait to be looked at, and entries left alone for a while; more are left to
the next round."""


@dataclass(slots=True)
class ScrubCounts:
    """What scrubbing did since the start."""

    rounds: int = 0
    files: int = 0
    chunks: int = 0
    bytes: int = 0
    damaged: int = 0
    repaired: int = 0
    """Damages that are gone."""


@dataclass(slots=True)
class _DamagedFile:
    """The damaged chunks of one file."""

    number: int
    chunks: list[tuple[LedgerId, ChunkAt, Damage]] = field(default_factory=list)
    indexes: list[Damage] = field(default_factory=list)


class Scrubber:
    """See the module. `start` and `close` belong to the owner."""

    def __init__(
        self,
        bookie: BookieId,
        disk: Disk,
        storage: LedgerStorage,
        compactor: Compactor,
        options: StorageOptions,
        on_fatal: Callable[[BaseException], None],
        *,
        rng: random.Random,
        patcher: Patcher,
        copies: OpenCopies | None = None,
    ) -> None:
        self._rng = rng
        self._patcher = patcher
        self._copies = copies
        self._bookie = bookie
        self._disk = disk
        self._storage = storage
        self._compactor = compactor
        self._options = options
        self._on_fatal = on_fatal
        self._tasks = Tasks(on_fatal)
        self._repairing = asyncio.Lock()
        self._suspects: dict[tuple[LedgerId, EntryId], None] = {}
        self._resting: dict[tuple[LedgerId, EntryId], float] = {}
        """Suspects that were looked at, and until when they are not looked at again."""
        self._is_suspicious = asyncio.Event()
        self.counts: Final = ScrubCounts()
        self.damage: list[Damage] = []
        """Damage that the last round, or the present one so far, could not repair."""

    def start(self) -> None:
        self._tasks.start(self._run(), f"scrub of {self._bookie}")
        self._tasks.start(self._look_at_suspects(), f"suspects of {self._bookie}")

    async def _run(self) -> None:
        if not self._storage.limbo():  # a disk just repaired is read at once
            await asyncio.sleep(self._rng.random() * self._options.scrub_seconds)
        while True:
            await self.round()
            await asyncio.sleep(self._options.scrub_seconds)

    def suspect(self, ledger: LedgerId, entry: EntryId) -> None:
        """Note that a read met damage. It is looked at soon, and then left alone for a while:
        damage that cannot be repaired yet is met again and again.
        """
        suspect = (ledger, entry)
        if asyncio.get_running_loop().time() < self._resting.get(suspect, 0.0):
            return
        if len(self._suspects) < SUSPECTS_MAX:
            self._suspects[suspect] = None
            self._is_suspicious.set()

    async def _look_at_suspects(self) -> None:
        clock = asyncio.get_running_loop()
        while True:
            await self._is_suspicious.wait()
            self._is_suspicious.clear()
            while self._suspects:
                suspect = next(iter(self._suspects))
                await self.look_at(*suspect)
                del self._suspects[suspect]
                self._resting.pop(suspect, None)
                if len(self._resting) >= SUSPECTS_MAX:
                    del self._resting[next(iter(self._resting))]
                self._resting[suspect] = clock.time() + self._options.suspect_seconds

    async def look_at(self, ledger: LedgerId, entry: EntryId) -> None:
        """Verify what files hold of an entry, and repair it. Raises OSError."""
        for chunk in self._storage.chunks(ledger):
            if chunk.first <= entry <= chunk.last and chunk.file in self:
                span, found = (ledger, chunk.first, chunk.last), _DamagedFile(chunk.file)
                self.damage = [each for each in self.damage if each[2:] != span]  # met before
                await self._verify_chunk(found, ledger, chunk)
                if found.chunks:
                    await self._repair(found)

    async def round(self) -> None:
        """Verify every file once, and repair. Files replaced in the meantime are left to the next
        round. Raises OSError.
        """
        self.damage = []
        files = self._storage.shelf.files
        first = self._rng.randrange(len(files)) if files else 0
        for number in (*files[first:], *files[:first]):
            found = await self._verify_file(number)
            if found.chunks or found.indexes:
                await self._repair(found)
            else:
                await self._settle(number)
        self.counts.rounds += 1
        if self.damage:
            _log.error("bookie %s has %d damages left", self._bookie, len(self.damage))
        _log.info("bookie %s scrubbed: %s", self._bookie, self.counts)

    async def _verify_file(self, number: int) -> _DamagedFile:
        path, found = entries_path(number), _DamagedFile(number)
        try:
            await load_index(self._disk, number, self._bookie)
        except (CorruptStorageError, OSError) as error:
            if is_shortage(error):
                raise
            damage = Damage(path, str(error))
            if self._report(number, damage):
                found.indexes.append(damage)
        for ledger in self._storage.shelf.members([number]) if number in self else ():
            for part in self._storage.shelf.parts_in(ledger, [number]):
                for chunk in part.all():
                    await self._verify_chunk(found, ledger, chunk)
        self.counts.files += 1
        return found

    async def _repair(self, found: _DamagedFile) -> None:
        """Patch a file's chunks and write it anew; unrepaired damage stays reported."""
        if self._copies is None:
            return
        patched = list(found.indexes)
        async with self._repairing:
            try:
                async with self._copies() as others:
                    for ledger, chunk, damage in found.chunks:
                        if await self._patch(others, ledger, chunk):
                            patched.append(damage)
            except QuireError as error:
                _log.warning("bookie %s cannot ask for copies: %s", self._bookie, error)
            is_all = len(patched) == len(found.chunks) + len(found.indexes)
            if not (is_all and await self._patcher.write_anew(found.number)):
                # Not with damage in it, or without space: later. Patched chunks are left out till
                # then.
                patched = [damage for damage in patched if damage.ledger is not None]
        repaired = frozenset(patched)
        self.damage = [damage for damage in self.damage if damage not in repaired]
        self.counts.repaired += len(patched)

    async def _settle(self, number: int) -> None:
        """Write a file anew that was damaged and is not any more: by now there is space for it, or
        its damaged chunks belonged to a ledger that is deleted.
        """
        if self._compactor.avoids(number) and number in self:
            await self._patcher.write_anew(number)

    async def _patch(self, copies: Copies, ledger: LedgerId, chunk: ChunkAt) -> bool:
        entries = f"entries {chunk.first} to {chunk.last} of ledger {ledger}"
        if chunk not in self._storage.chunks(ledger):
            return True  # by the first read that met it
        try:
            owed = await copies.owed(ledger)
            is_patched = await self._patcher.patch(copies, ledger, chunk, owed)
        except NoSuchLedgerError:
            return False  # the collector's
        except QuireError as error:
            _log.error("bookie %s has no good copy of %s: %s", self._bookie, entries, error)
            return False
        if is_patched:
            _log.warning("bookie %s has good copies of %s again", self._bookie, entries)
        else:
            _log.warning("bookie %s repairs %s once it is closed", self._bookie, entries)
        return is_patched

    def __contains__(self, number: int) -> bool:
        return number in self._storage.shelf

    async def _verify_chunk(self, found: _DamagedFile, ledger: LedgerId, chunk: ChunkAt) -> None:
        error = await self._storage.reads.verify(ledger, chunk)
        if error is not None:
            path = entries_path(chunk.file)
            damage = Damage(path, error.reason, ledger, chunk.first, chunk.last)
            if self._report(chunk.file, damage):
                found.chunks.append((ledger, chunk, damage))
        self.counts.chunks += 1
        self.counts.bytes += chunk.size
        await asyncio.sleep(chunk.size / self._options.scrub_bytes_per_second)

    def _report(self, number: int, damage: Damage) -> bool:
        """Note damage; False when compaction has removed the file meanwhile."""
        if number not in self:
            return False
        self.counts.damaged += 1
        if len(self.damage) < DAMAGE_MAX:
            self.damage.append(damage)
        self._compactor.avoid(number)
        where = damage.path
        if damage.ledger is not None:
            where += f", entries {damage.first} to {damage.last} of ledger {damage.ledger}"
        _log.error("bookie %s found damage in %s: %s", self._bookie, where, damage.reason)
        return True

    async def close(self) -> None:
        """Stop at once."""
        await self._tasks.stop()
