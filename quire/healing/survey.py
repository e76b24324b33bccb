"""Keeps the index of all ledgers up to date, by reading records that may have changed.

The first survey reads the record of every ledger. Each look afterwards reads:

  - ledgers with new ids: those listed among the newest that the index lacks;
  - ledgers that are not closed, some of them in turn;
  - ledgers that the caller names, because moves of theirs ended;
  - some of all, in turn, against drift; and the names of some, so that deleted ledgers fall out.

A closed ledger changes only by moves and by its deletion. A change that the index misses is
healed later; nothing is decided by it alone.
"""

from __future__ import annotations

from array import array
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from typing import Final, cast

from quire.aio.tasks import together
from quire.entry import LedgerId
from quire.errors import CorruptRecordError, NoSuchLedgerError
from quire.healing.index import Index
from quire.ledger.records import LedgerRecords, VersionedMetadata
from quire.metastore.layout import LEDGERS_PER_SHARD

READS_AT_ONCE: Final = 32

NEWEST: Final = 20 * LEDGERS_PER_SHARD
"""Ids below the highest that are listed in every look: clients give ids out of order, but soon."""

OPEN_MAX: Final = 512
"""Ledgers that are not closed and are read in one look."""

DRIFT_PER_SECOND: Final = 2.0
"""Records that are read for no special reason: a million in six days."""

DRIFT_MAX: Final = 128
"""The most of these in one look."""

PAGES: Final = 2
"""Pages of names, a thousand each, that are compared in one look."""


class Survey:
    """See the module."""

    def __init__(self, records: LedgerRecords) -> None:
        self._records = records
        self.index: Final = Index()
        self.total = 0
        """Ledgers that the first survey is to read, as far as is known."""
        self.is_complete = False
        self.reads = 0
        """Records that were read."""
        self.unreadable: set[LedgerId] = set()
        """Ledgers with a damaged record."""
        self.changed: set[LedgerId] = set()
        """Ledgers that changed in the index since the first survey; the caller empties it."""
        self._named: LedgerId = -1
        """The last ledger with a compared name."""
        self._drift: LedgerId = -1
        self._open: LedgerId = -1
        self._owed = 0.0
        """Records to be read against drift."""

    async def build(self) -> AsyncGenerator[None, None]:
        """Read the records of all ledgers, and yield now and then. Raises the store's errors; may
        be called again.
        """
        ids = array("q")
        async for page in self._records.list():
            ids.extend(each for each in page if each not in self.index)
        self.total = len(self.index) + len(ids)
        for first in range(0, len(ids), READS_AT_ONCE):
            await self._read(ids[first : first + READS_AT_ONCE])
            yield
        self.is_complete = True

    async def look(self, seconds: float, named: Iterable[LedgerId] = ()) -> list[LedgerId]:
        """Read records that may have changed, and return ledgers to be checked for holes: the ones
        that were closed meanwhile, and the ones read against drift.

        Args:
            seconds: since the last look.
            named: ledgers that are to be read in any case.

        Raises the store's errors.
        """
        unclosed = set(self.index.open_ledgers())
        new, suspects = await self._newest()
        suspects += await self._gone()
        some_open = self._in_turn_open()
        await self._read_all({*named, *suspects, *some_open, *new})
        self._owed = min(DRIFT_MAX, self._owed + seconds * DRIFT_PER_SECOND)
        drifted = self._in_turn(int(self._owed))
        self._owed -= int(self._owed)
        await self._read_all(drifted)
        self.total = len(self.index)
        fresh = {each for each in (*new, *some_open) if self.index.is_closed(each)}
        fresh.update(each for each in unclosed if self.index.is_closed(each))
        return sorted(fresh) + [each for each in drifted if self.index.is_closed(each)]

    async def read(self, ledger: LedgerId) -> VersionedMetadata | None:
        """Read one record into the index, and return it; None for a ledger that is deleted, or
        has a damaged record. Raises the store's errors.
        """
        self.reads += 1
        before = self.index.row(ledger) if self.is_complete else None
        try:
            return await self._take_in(ledger)
        finally:
            if self.is_complete and before != self.index.row(ledger):
                self.changed.add(ledger)

    async def _take_in(self, ledger: LedgerId) -> VersionedMetadata | None:
        try:
            found = await self._records.read(ledger)
        except NoSuchLedgerError:
            self.index.drop(ledger)
            self.unreadable.discard(ledger)
            return None
        except CorruptRecordError:
            self.unreadable.add(ledger)
            return None
        self.unreadable.discard(ledger)
        self.index.put(found.metadata)
        return found

    async def _newest(self) -> tuple[list[LedgerId], list[LedgerId]]:
        """Return the newest ledgers that the index lacks, and the ones that it has in vain."""
        highest = self.index.highest()
        since = max(-1, highest - NEWEST)
        listed = [each async for page in self._records.list(since) for each in page]
        known = set(self.index.between(since + 1, highest))
        return [each for each in listed if each not in known], sorted(known.difference(listed))

    async def _gone(self) -> list[LedgerId]:
        """Return ledgers that may have been deleted, or were missed, by the names of some."""
        suspects: set[LedgerId] = set()
        names = cast("AsyncGenerator[Sequence[LedgerId], None]", self._records.list(self._named))
        async with aclosing(names):
            for _ in range(PAGES):
                page = await anext(names, None)
                end = self.index.highest() if page is None else page[-1]
                suspects.update(page or ())
                suspects.symmetric_difference_update(self.index.between(self._named + 1, end))
                self._named = end if page else -1
                if page is None:
                    break
        return sorted(suspects)

    def _in_turn(self, count: int) -> list[LedgerId]:
        found = self.index.after(self._drift, count)
        self._drift = found[-1] if len(found) == count and found else -1
        return found

    def _in_turn_open(self) -> list[LedgerId]:
        ledgers = self.index.open_ledgers()
        found = [each for each in ledgers if each > self._open][:OPEN_MAX]
        self._open = found[-1] if len(found) == OPEN_MAX else -1
        return found

    async def _read_all(self, ledgers: Iterable[LedgerId]) -> None:
        ordered = sorted(ledgers)
        for first in range(0, len(ordered), READS_AT_ONCE):
            await self._read(ordered[first : first + READS_AT_ONCE])

    async def _read(self, ledgers: Sequence[LedgerId]) -> None:
        await together(*(self.read(each) for each in ledgers))
