"""Scrubbing: everything stored is read again now and then, so that rot is found while other copies
still exist.

Every entry log that counts is verified as a read would verify it: header, footer and index, then
each chunk against its checksum. Damage is logged by ledger and entries, kept in `damage`, and the
file is left alone by compaction. Reads keep to a rate. The bookie does not repair: it has neither
the passwords nor the metadata; readers take another copy meanwhile.

Owns one task. Not here: the check of a stopped bookie's whole disk (check.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from quire.entry import BookieId, LedgerId
from quire.errors import CorruptStorageError
from quire.storage.check import Damage
from quire.storage.compaction import Compactor
from quire.storage.disk import Disk
from quire.storage.entry_log import ChunkAt, entries_path, load_index
from quire.storage.ledger_storage import LedgerStorage
from quire.storage.options import StorageOptions

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
    ) -> None:
        self._bookie = bookie
        self._disk = disk
        self._storage = storage
        self._compactor = compactor
        self._options = options
        self._on_fatal = on_fatal
        self._task: asyncio.Task[None] | None = None
        self.counts: Final = ScrubCounts()
        self.damage: list[Damage] = []
        """What the last round found, or the one under way so far."""

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        try:
            while True:
                await asyncio.sleep(self._options.scrub_seconds)
                await self.round()
        except Exception as error:
            self._on_fatal(error)

    async def round(self) -> None:
        """Verify every file once. What is replaced in the meantime is left to the next round."""
        self.damage = []
        for number in self._storage.shelf.files:
            await self._verify_file(number)
        self.counts.rounds += 1
        _log.info("bookie %s scrubbed: %s", self._bookie, self.counts)

    async def _verify_file(self, number: int) -> None:
        path = entries_path(number)
        try:
            await load_index(self._disk, number, self._bookie)
        except (CorruptStorageError, OSError) as error:
            self._report(number, Damage(path, str(error)))
        for ledger in self._storage.shelf.members([number]) if number in self else ():
            for part in self._storage.shelf.parts_in(ledger, [number]):
                for chunk in part.all():
                    await self._verify_chunk(ledger, chunk)
        self.counts.files += 1

    def __contains__(self, number: int) -> bool:
        return number in self._storage.shelf

    async def _verify_chunk(self, ledger: LedgerId, chunk: ChunkAt) -> None:
        error = await self._storage.verify(ledger, chunk)
        if error is not None:
            path = entries_path(chunk.file)
            damage = Damage(path, error.reason, ledger, chunk.first, chunk.last)
            self._report(chunk.file, damage)
        self.counts.chunks += 1
        self.counts.bytes += chunk.size
        await asyncio.sleep(chunk.size / self._options.scrub_bytes_per_second)

    def _report(self, number: int, damage: Damage) -> None:
        if number not in self:
            return  # compaction removed it
        self.counts.damaged += 1
        if len(self.damage) < DAMAGE_MAX:
            self.damage.append(damage)
        self._compactor.avoid(number)
        where = damage.path
        if damage.ledger is not None:
            where += f", entries {damage.first} to {damage.last} of ledger {damage.ledger}"
        _log.error("bookie %s found damage in %s: %s", self._bookie, where, damage.reason)

    async def close(self) -> None:
        """Stop at once."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
