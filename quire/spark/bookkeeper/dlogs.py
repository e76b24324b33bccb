"""Logs of Apache DistributedLog as a system of Spark's format `bookkeeper`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import replace
from typing import Any, Final, cast

import pyarrow as pa

from quire.bookkeeper.dlog.listing import check_servers
from quire.bookkeeper.dlog.log import DlogPiece, DlogRecord, read_piece, whole_segments
from quire.bookkeeper.dlog.names import DlogName, Dlsn
from quire.bookkeeper.pieces import EntryPlace, LedgerPiece, naming
from quire.client_ledgers import LedgerClient
from quire.errors import NoSuchLedgerError, UnreadableContentError
from quire.spark.bookkeeper.system import RecordPlace, RowColumn

PART: Final = -1
"""A log has one part."""

RUN_BYTES: Final = 256 * 1024
"""Records are handed on when they have so many bytes: one by one would cost a task switch each."""

OF_RECORD_BYTES: Final = 128


def _of(spark: str, arrow: pa.DataType, of: Callable[[DlogRecord], Any]) -> RowColumn:
    return RowColumn(spark, arrow, lambda piece, record: of(record))


COLUMNS: Final[Mapping[str, RowColumn]] = {
    "log": RowColumn("string", pa.string(), lambda piece, record: piece.log),
    "segment": _of("long", pa.int64(), lambda record: record.dlsn.segment),
    "ledger": RowColumn("long", pa.int64(), lambda piece, record: piece.ledger),
    "entry": _of("long", pa.int64(), lambda record: record.dlsn.entry),
    "slot": _of("long", pa.int64(), lambda record: record.dlsn.slot),
    "dlsn": _of("string", pa.string(), lambda record: str(record.dlsn)),
    "txid": _of("long", pa.int64(), lambda record: record.txid),
    "sequence": _of("long", pa.int64(), lambda record: record.sequence),
    "payload": _of("binary", pa.binary(), lambda record: record.payload),
}


class DistributedLogs:
    """Logs: a log has one part, a place is a DLSN, the number of a ledger is its segment's."""

    @property
    def columns(self) -> Mapping[str, RowColumn]:
        """See `ForeignSystem`."""
        return COLUMNS

    def full_names(self, names: Sequence[str], store: str) -> tuple[str, ...]:
        """See `ForeignSystem`. The full name is the path: servers are those of the store."""
        found = list(map(DlogName.parse, names))
        for name in found:
            check_servers(name, store)
        return tuple(dict.fromkeys(name.path for name in found))

    def parse_place(self, text: str) -> tuple[int, RecordPlace]:
        """See `ForeignSystem`."""
        found = Dlsn.parse(text)
        return PART, RecordPlace(found.segment, found.entry, found.slot)

    def place_of(self, record: DlogRecord) -> RecordPlace:
        """See `ForeignSystem`."""
        return RecordPlace(record.dlsn.segment, record.dlsn.entry, record.dlsn.slot)

    def bytes_of(self, record: DlogRecord) -> int:
        """See `ForeignSystem`."""
        return OF_RECORD_BYTES + len(record.payload)

    async def list_pieces(
        self, client: LedgerClient, log: str, begins: Mapping[int, EntryPlace], password: bytes
    ) -> Sequence[LedgerPiece]:
        """See `ForeignSystem`."""
        begin = begins.get(PART)
        start = None if begin is None else Dlsn(begin.number, begin.entry, 0)
        with naming(f"log {log}"):
            segments = whole_segments(client, log, start=start, password=password)
            async with aclosing(segments):
                return [_piece(log, each) async for each in segments]

    async def read_piece(
        self, client: LedgerClient, piece: LedgerPiece, password: bytes
    ) -> AsyncGenerator[Sequence[DlogRecord], None]:
        """See `ForeignSystem`."""
        whole = cast(DlogPiece, piece.kept)
        wanted = replace(whole, first=piece.first, last=piece.last)
        run: list[DlogRecord] = []
        size = 0
        with naming(f"log {piece.log}"), _refused_if_deleted(piece):
            async with aclosing(read_piece(client, wanted, password=password)) as records:
                async for record in records:
                    run.append(record)
                    size += self.bytes_of(record)
                    if size >= RUN_BYTES:
                        yield run
                        run, size = [], 0
        if run:
            yield run


@contextmanager
def _refused_if_deleted(piece: LedgerPiece) -> Iterator[None]:
    try:
        yield
    except NoSuchLedgerError as error:
        raise UnreadableContentError(
            f"segment {piece.number} of log {piece.log} with ledger {piece.ledger}",
            "was deleted after the log's segments were listed",
            "read again, and let the log keep unread segments",
        ) from error


def _piece(log: str, piece: DlogPiece) -> LedgerPiece:
    """Return a piece whose size is not known: the records of segments do not have it."""
    return LedgerPiece(
        *(log, PART, piece.segment, piece.ledger, piece.first, piece.last),
        *(None, False, 0, False, piece),
    )
