"""The port between ledger code and the records of ledgers.

A metadata store holds bytes at paths. Ledger code asks for less: the metadata of a ledger at a
version, and new ids. `StoredRecords` (stored_records.py) keeps quire's own records in a
`MetadataStore`. Ledgers of another system have other paths, another encoding and another supply of
ids, under the same port.

Law, for every implementation (contract suite: `tests/contract/records`):

  N1  `read` sees every change that was confirmed before it was called.
  N2  Every change gives a record a version greater than all before.
  N3  A call that raises `StoreUnavailableError` changed nothing. A call that raises
      `StoreOutcomeUnknownError` may have; the caller reads the record again.
  N4  `wait` compares with the caller's version, so no change is lost between a read and a wait.
  N5  No id is given out twice.

The records of systems differ. A subject states its `capabilities`; a call that needs a missing one
raises `UnsupportedError` and changes nothing.

Not here: what metadata means (metadata.py), loops around conflicts (versioned.py,
ledger_record.py), the record of a ledger's life on a bookie (storage).
"""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from quire.entry import BookieId, LedgerId
from quire.ledger.metadata import LedgerMetadata
from quire.metastore.changes import Change


class RecordsCapability(enum.Enum):
    """An ability that the records of some systems have."""

    TRANSACTIONS = "transactions"
    """A record and other records of the store change together or not at all (`along`, `guard`)."""
    CUSTOM = "custom metadata"
    """A record keeps the application's custom metadata."""
    TOKEN = "creation tokens"
    """A record keeps the token of its creation, so that a client knows its own ledger again."""
    POLICY = "policies of closing and placement"
    """A record keeps `full_quorum` and `placement`."""
    INCARNATIONS = "incarnations"
    """The records tell that their store was put back from a backup (`suspects`)."""


@dataclass(frozen=True, slots=True)
class VersionedMetadata:
    """Metadata and the version to compare-and-set against."""

    metadata: LedgerMetadata
    version: int


class NewId(NamedTuple):
    """An id that no other client gets."""

    ledger: LedgerId
    incarnation: int = 0
    """The incarnation of the store that gave the id out, for the new record. It may be too low when
    the ledger is created, never too high."""


class LedgerRecords(Protocol):
    """The records of all ledgers of one system.

    Every method raises the store's errors besides those it names, and may be cancelled: a change
    under way may still be made.
    """

    @property
    def uri(self) -> str:
        """Where the records are, for errors."""
        ...

    @property
    def capabilities(self) -> frozenset[RecordsCapability]:
        """The abilities beyond the law."""
        ...

    async def feature_level(self) -> int:
        """Return the feature level of the cluster: which programs will read the records
        (metastore/levels.py). 0 for records of another system, which know no levels.
        """
        ...

    def name(self, ledger: LedgerId) -> str:
        """Return what errors call a ledger's record: a path, where there is one."""
        ...

    def path(self, ledger: LedgerId) -> str | None:
        """Return the path of a ledger's record in the metadata store of logs; None if it is not
        there.
        """
        ...

    async def create(
        self, metadata: LedgerMetadata, along: Sequence[Change] = (), *, password: bytes = b""
    ) -> VersionedMetadata:
        """Create a record, and make other changes `along` with it or none of them.

        `password` is for systems whose records keep it; quire's own records never do.

        Raises:
            NodeExistsError: the ledger has a record.
            ConflictError: nothing changed; the same call can succeed next time.
            InvalidRequestError: the record would be too large.
            UnsupportedError: `along` without `TRANSACTIONS`, or metadata that the record cannot
                hold.
        """
        ...

    async def read(self, ledger: LedgerId) -> VersionedMetadata:
        """Return a ledger's metadata. Raises `NoSuchLedgerError` and `CorruptRecordError`."""
        ...

    async def change(self, metadata: LedgerMetadata, version: int) -> VersionedMetadata:
        """Replace a ledger's metadata if the record is still at `version`.

        Never repeated inside, so a conflict is never the caller's own lost success. Raises
        `NoSuchLedgerError` and `VersionConflictError`.
        """
        ...

    def guard(self, held: VersionedMetadata) -> Sequence[Change]:
        """Return the changes that succeed only while the record is at a version.

        They are for a transaction with other records. Making them may move the version on; the
        metadata stays. Raises `UnsupportedError` without `TRANSACTIONS`.
        """
        ...

    async def delete(
        self, ledger: LedgerId, version: int | None = None, along: Sequence[Change] = ()
    ) -> None:
        """Delete a record, at any version if `version` is None, with other changes or not at all.

        Raises `NoSuchLedgerError`, `VersionConflictError`, the errors of the changes `along`, and
        `UnsupportedError` for such changes without `TRANSACTIONS`.
        """
        ...

    async def wait(self, ledger: LedgerId, version: int) -> None:
        """Return when the record may no longer be at `version`. It may return for nothing."""
        ...

    def list(self, after: LedgerId = -1) -> AsyncIterator[Sequence[LedgerId]]:
        """Yield the ids above `after` that have records, ascending, in pages.

        A page is what one question brought; a ledger that is created meanwhile may be missing.
        """
        ...

    async def next_id(self) -> NewId:
        """Return an id for a new ledger.

        Cancelling, and an unknown outcome, lose ids but never give one out twice. Raises
        `StoreWentBackError` when ids might be given out again.
        """
        ...

    async def skip_id(self) -> LedgerId:
        """Take an id that no ledger gets: it is above every id given out before. Raises as
        `next_id`.
        """
        ...

    async def suspects(self, metadata: LedgerMetadata) -> Sequence[BookieId]:
        """Return the bookies that may hold the ledger against the word of its metadata.

        Empty where metadata can be believed, as it can unless the store was put back from a backup
        after the ledger was created (docs/protocol.md, I2). Asked after the record was read.
        """
        ...
