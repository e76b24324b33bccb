"""The seam between Spark and a system that keeps its logs on BookKeeper.

A system lists the pieces of a log, reads one piece, and names the columns of its rows. Everything
else is the same for all systems: options, partitions, places of streams, batches.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from quire.bookkeeper.pieces import EntryPlace, LedgerPiece
from quire.client_ledgers import LedgerClient


class RowColumn(NamedTuple):
    """A column of the rows of a system."""

    spark: str
    """Its type, as Spark writes it."""
    arrow: pa.DataType
    value: Callable[[LedgerPiece, Any], Any]
    """Makes the value of a record of a piece."""


class RecordPlace(NamedTuple):
    """The place of a record in a part. The places of a part have its order."""

    number: int
    """As `LedgerPiece.number`."""
    entry: int
    slot: int
    """The record of the entry; −1 is before all of them."""

    @property
    def before(self) -> EntryPlace:
        """The place before the entry."""
        return EntryPlace(self.number, self.entry)

    @property
    def after(self) -> EntryPlace:
        """The place after all entries with a record before this place."""
        return EntryPlace(self.number, self.entry + (self.slot >= 0))


class ForeignSystem(Protocol):
    """A kind of logs. Its objects hold nothing: each process has its own."""

    @property
    def columns(self) -> Mapping[str, RowColumn]:
        """The columns of its rows by name, in their order."""

    def full_names(self, names: Sequence[str], store: str) -> tuple[str, ...]:
        """Return the names of logs in full, each log once, in their order.

        A log has one name in full: it is in the rows and in the checkpoints of streams.

        Raises `ConfigurationError` for a wrong name, for a log that is not in the metadata store
        with this URI, and for two logs of which one holds the other.
        """

    def parse_place(self, text: str) -> tuple[int, RecordPlace]:
        """Return the part and the place that a text means. Raises `InvalidRequestError`."""

    def place_of(self, record: Any) -> RecordPlace:
        """Return the place of a record."""

    def bytes_of(self, record: Any) -> int:
        """Return about how many bytes a record takes in memory."""

    async def list_pieces(
        self, client: LedgerClient, log: str, begins: Mapping[int, EntryPlace], password: bytes
    ) -> Sequence[LedgerPiece]:
        """Return a piece for each ledger, each part in its order.

        By part, no entry before its place in `begins` is in a piece. A ledger without entries, or
        with entries before that place only, has a piece without entries.
        """

    def read_piece(
        self, client: LedgerClient, piece: LedgerPiece, password: bytes
    ) -> AsyncGenerator[Sequence[Any], None]:
        """Yield the records of a piece, in lists, in their order. Errors name log and ledger."""
