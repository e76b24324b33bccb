"""A client's knowledge of a ledger that it does not write, as far as it looked.

Two facts grow here: the record, replaced by a newer version only, and the LAC, which never falls.
A reader and its calls share one value, so that each uses what the other has learned. Readers of
one client that follow the same ledger learn from each other.
"""

from __future__ import annotations

from quire.entry import NO_ENTRY, EntryId, LedgerId, Sealer
from quire.ledger.metadata import LedgerMetadata
from quire.ledger.options import LedgerOptions
from quire.ledger.records import LedgerRecords, VersionedMetadata
from quire.ledger.roster import Bookies


class KnownLedger:
    """One ledger, with the ways to its record and its bookies."""

    __slots__ = ("_current", "_lac", "bookies", "options", "records", "sealer")

    def __init__(
        self,
        records: LedgerRecords,
        bookies: Bookies,
        sealer: Sealer,
        opened: VersionedMetadata,
        options: LedgerOptions,
    ) -> None:
        self.records = records
        self.bookies = bookies
        self.sealer = sealer
        self.options = options
        self._current = opened
        self._lac = NO_ENTRY

    @property
    def ledger(self) -> LedgerId:
        """The ledger's id."""
        return self.sealer.ledger

    @property
    def metadata(self) -> LedgerMetadata:
        """The ledger's record as last seen."""
        return self._current.metadata

    @property
    def version(self) -> int:
        """The record's version as last seen."""
        return self._current.version

    @property
    def is_closed(self) -> bool:
        """Whether the ledger is known to have its final end."""
        return self.metadata.is_closed

    @property
    def confirmed(self) -> EntryId:
        """The highest entry known to be confirmed, without asking a bookie."""
        if self.metadata.last_entry is not None:
            return self.metadata.last_entry
        return max(self._lac, self.metadata.last_fragment.first - 1)

    def confirm(self, lac: EntryId) -> None:
        """Take in a LAC that was proven. It never falls."""
        self._lac = max(self._lac, lac)

    def learn(self, other: KnownLedger) -> bool:
        """Take in the knowledge of another value of the same ledger. Return whether any is new."""
        is_new = False
        if other._current.version > self._current.version:
            self._current, is_new = other._current, True
        if other._lac > self._lac:
            self._lac, is_new = other._lac, True
        return is_new

    async def refresh(self) -> None:
        """Read the record again. Raises the errors of the records."""
        newest = await self.records.read(self.ledger)
        if newest.version > self._current.version:
            self._current = newest

    async def wait_change(self) -> None:
        """Wait until the record may have changed, and read it. Raises as `refresh`."""
        await self.records.wait(self.ledger, self.version)
        await self.refresh()
