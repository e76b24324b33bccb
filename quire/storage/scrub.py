"""Scrubbing: everything stored is read again now and then, so that rot is found while other copies
still exist.

Every entry log that counts is verified as a read would verify it: header, footer and index, then
each chunk against its checksum. Damage is logged by ledger and entries, and the file is left alone
by compaction. Then the entries are taken from the other bookies, and the file is written anew
(patching.py). What nobody else has stays in `damage`, is reported by every round, and is never
served. Everything keeps to a rate.

Owns one task. Not here: the check of a stopped bookie's whole disk (check.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from quire.entry import BookieId, LedgerId
from quire.errors import CorruptStorageError, NoSuchLedgerError, QuireError
from quire.storage.check import Damage
from quire.storage.compaction import Compactor
from quire.storage.copies import Copies, OpenCopies
from quire.storage.disk import Disk
from quire.storage.entry_log import ChunkAt, entries_path, load_index
from quire.storage.ledger_storage import LedgerStorage
from quire.storage.options import StorageOptions
from quire.storage.patching import Patcher

_log = logging.getLogger(__name__)

DAMAGE_MAX: Final = 10_000
"""Findings kept; more are only counted and logged."""


@dataclass(slots=True)
class ScrubCounts:
    """What scrubbing did since the start."""

    rounds: int = 0
    files: int = 0
    chunks: int = 0
    bytes: int = 0
    damaged: int = 0
    repaired: int = 0
    """Damages that are no more."""


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
        patcher: Patcher,
        copies: OpenCopies | None = None,
    ) -> None:
        self._patcher = patcher
        self._copies = copies
        self._bookie = bookie
        self._disk = disk
        self._storage = storage
        self._compactor = compactor
        self._options = options
        self._on_fatal = on_fatal
        self._task: asyncio.Task[None] | None = None
        self.counts: Final = ScrubCounts()
        self.damage: list[Damage] = []
        """What the last round found and could not repair, or the one under way so far."""
        self._chunks: list[tuple[LedgerId, ChunkAt, Damage]] = []
        self._indexes: list[tuple[int, Damage]] = []
        """Damage of the file that is being verified."""

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        try:
            if not self._storage.limbo():  # what was just repaired is looked at at once
                await asyncio.sleep(self._options.scrub_seconds)
            while True:
                await self.round()
                await asyncio.sleep(self._options.scrub_seconds)
        except Exception as error:
            self._on_fatal(error)

    async def round(self) -> None:
        """Verify every file once, and repair. What is replaced in the meantime is left to the next
        round. Raises OSError.
        """
        self.damage = []
        for number in self._storage.shelf.files:
            self._chunks, self._indexes = [], []
            await self._verify_file(number)
            if self._copies is not None and (self._chunks or self._indexes):
                await self._repair(self._copies, number)
        self.counts.rounds += 1
        if self.damage:
            _log.error("bookie %s has %d damages left", self._bookie, len(self.damage))
        _log.info("bookie %s scrubbed: %s", self._bookie, self.counts)

    async def _verify_file(self, number: int) -> None:
        path = entries_path(number)
        try:
            await load_index(self._disk, number, self._bookie)
        except (CorruptStorageError, OSError) as error:
            damage = Damage(path, str(error))
            if self._report(number, damage):
                self._indexes.append((number, damage))
        for ledger in self._storage.shelf.members([number]) if number in self else ():
            for part in self._storage.shelf.parts_in(ledger, [number]):
                for chunk in part.all():
                    await self._verify_chunk(ledger, chunk)
        self.counts.files += 1

    async def _repair(self, copies: OpenCopies, number: int) -> None:
        """Patch a file's chunks and write it anew; what cannot be had stays reported."""
        patched = [damage for _, damage in self._indexes]
        try:
            async with copies() as others:
                for ledger, chunk, damage in self._chunks:
                    if await self._patch(others, ledger, chunk):
                        patched.append(damage)
        except QuireError as error:
            _log.warning("bookie %s cannot ask for copies: %s", self._bookie, error)
        if len(patched) < len(self._chunks) + len(self._indexes):
            # Written anew, a file keeps what is damaged in it: later, when that can be had.
            patched = [damage for damage in patched if damage.ledger is not None]
        elif not await self._patcher.write_anew(number):
            return
        self.damage = [damage for damage in self.damage if damage not in patched]
        self.counts.repaired += len(patched)

    async def _patch(self, copies: Copies, ledger: LedgerId, chunk: ChunkAt) -> bool:
        entries = f"entries {chunk.first} to {chunk.last} of ledger {ledger}"
        try:
            is_patched = await self._patcher.patch(copies, ledger, chunk)
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

    async def _verify_chunk(self, ledger: LedgerId, chunk: ChunkAt) -> None:
        error = await self._storage.verify(ledger, chunk)
        if error is not None:
            path = entries_path(chunk.file)
            damage = Damage(path, error.reason, ledger, chunk.first, chunk.last)
            if self._report(chunk.file, damage):
                self._chunks.append((ledger, chunk, damage))
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
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
