"""Following logs of other systems with a streaming query.

A batch is the entries between two places of every part (places.py). Spark writes the places down
before it runs the batch, and confirmed entries never change. So a query that is killed and started
again from its checkpoint gives its sink the same batches again.

All methods but `read` run in one long-lived process beside the driver. An error of theirs ends the
query, so they wait for transient failures to pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from quire.bookkeeper.pieces import EntryPlace, LedgerPiece, within
from quire.spark.bookkeeper.options import ForeignOptions
from quire.spark.bookkeeper.places import (
    Stand,
    Stands,
    Strand,
    admit,
    by_strand,
    from_json,
    ledger_of,
    reached,
    start_of,
    to_json,
)
from quire.spark.bookkeeper.planning import BEGINNING, check_left, list_logs
from quire.spark.bookkeeper.reading import PiecesPartition, read_pieces
from quire.spark.errors import reporting
from quire.spark.packing import pack
from quire.spark.patience import patiently
from quire.spark.versions import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

Found = dict[Strand, list[LedgerPiece]]


@reporting
class ForeignStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches beside the driver, reads them in the workers."""

    def __init__(self, options: ForeignOptions) -> None:
        self._options = options
        self._target: Mapping[Strand, EntryPlace] | None = None
        self._reached: Stands | None = None
        """Where the query is, as far as Spark has said: before 4.2 it does not say it again."""

    # Places. The names are Spark's.

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return where a query without a checkpoint begins."""
        options = self._options
        found = patiently(self._list, {})
        options.check_parts({part for _, part in found})
        self._reached = {
            strand: self._begin(strand, pieces, is_latest=options.is_latest)
            for strand, pieces in found.items()
        }
        return to_json(self._reached)

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """Return where the next batch ends. Before 4.2 Spark gives neither argument."""
        began = from_json(start) if start is not None else self._reached
        limit = limit or self.getDefaultReadLimit()
        entries_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        if began is None:
            return to_json(patiently(self._unsure_ends))
        return to_json(patiently(self._ends, began, entries_max))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit that the options set. Spark's word for it is rows; it means entries."""
        entries = self._options.entries_per_trigger
        return ReadAllAvailable() if entries is None else ReadMaxRows(entries)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Remember what there is now: the query ends when it has read as much."""
        found = patiently(self._list, {})
        self._target = {strand: pieces[-1].end for strand, pieces in found.items()}

    def _list(self, begins: Mapping[Strand, EntryPlace]) -> Found:
        """Return the pieces from places on."""
        by_log: dict[str, dict[int, EntryPlace]] = {}
        for (log, part), place in begins.items():
            by_log.setdefault(log, {})[part] = place
        return by_strand(list_logs(self._options, by_log))

    def _begin(
        self, strand: Strand, pieces: Sequence[LedgerPiece], *, is_latest: bool = False
    ) -> Stand:
        """Where a query begins in a part that it has not seen.

        Only a query's first look begins at the end (`latest`): a part that is found later is new.
        """
        place = self._options.begins.get(strand[1])
        if is_latest:
            place = pieces[-1].end
        elif place is None:
            place = pieces[0].begin
        return Stand(place, place, ledger=ledger_of(pieces, place))

    def _ends(self, began: Stands, entries_max: int | None) -> Stands:
        """Where the next batch ends in each part, never before the query's beginning."""
        self._options.check_begun({log for log, _ in began})
        ends = dict(began)
        stands: Stands = {}
        left: Found = {}
        listed = self._list({strand: stand.next for strand, stand in began.items()})
        for strand in sorted({*listed, *self._followed(began)}):
            pieces = listed.get(strand, [])
            stand = stands[strand] = began.get(strand) or self._begin(strand, pieces)
            check_left(self._options, strand, stand.next, pieces, stand.ledger)
            if unread := self._unread(strand, stand.next, pieces):
                left[strand] = unread
        for strand, place in admit(left, entries_max).items():
            ends[strand] = stands[strand].at(place, ledger_of(left[strand], place))
        return ends

    def _unsure_ends(self) -> Stands:
        """Where all entries end, for a query whose beginning is not known.

        The entries at `fromPosition` may be gone: whether the query has read them, `partitions`
        will know.
        """
        ends: Stands = {}
        for strand, pieces in self._list({}).items():
            begin, end = self._begin(strand, pieces), pieces[-1].end
            place = max(begin.next, end)
            ends[strand] = replace(begin.at(place, ledger_of(pieces, place)), sure=False)
        return ends

    def _followed(self, began: Stands) -> list[Strand]:
        """The parts of logs that the options name still: a query may go on without the others."""
        return [strand for strand in began if strand[0] in self._options.logs]

    def _unread(
        self, strand: Strand, begin: EntryPlace, pieces: Sequence[LedgerPiece]
    ) -> list[LedgerPiece]:
        """The pieces of the next batches, up to the target of a query that ends."""
        target = None if self._target is None else self._target.get(strand, BEGINNING)
        return [
            within(piece, begin, target)
            for piece in pieces
            if target is None or piece.number <= target.number
        ]

    # Batches.

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Cut a batch into pieces."""
        began, ends = from_json(start), from_json(end)
        self._reached = reached(began, ends)
        begins = {
            strand: begin
            for strand, stand in ends.items()
            if (begin := start_of(began, strand, stand)) < stand.next
        }
        listed = patiently(self._list, begins) if begins else {}
        wanted: list[LedgerPiece] = []
        for strand, begin in begins.items():
            wanted += self._between(strand, begin, ends[strand], listed.get(strand, []))
        options = self._options
        return [PiecesPartition(packed) for packed in pack(wanted, options.limits)]

    def _between(
        self, strand: Strand, begin: EntryPlace, end: Stand, pieces: Sequence[LedgerPiece]
    ) -> list[LedgerPiece]:
        """The pieces of a batch in one part.

        Its last entry was confirmed when the end was found; bookies that answer now may not know
        that yet.
        """
        check_left(self._options, strand, begin, pieces)
        if end.next.entry > 0:  # a list may be older than the end: then entries are missing
            check_left(self._options, strand, end.next, pieces, end.ledger)
        found: list[LedgerPiece] = []
        for piece in pieces:
            if piece.number == end.next.number:
                piece = piece.narrow(piece.first, end.next.entry - 1)
            if piece.number <= end.next.number and piece.entries > 0:
                found.append(self._since(piece, end))
        return found

    def _since(self, piece: LedgerPiece, end: Stand) -> LedgerPiece:
        """The piece that expects every ledger since the query's beginning to have been read."""
        if not self._options.fail_on_data_loss:
            return piece
        return replace(piece, since=min(piece.since, end.first.number))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the records of some pieces as Arrow record batches."""
        yield from read_pieces(self._options, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing is kept but Spark's checkpoint."""
