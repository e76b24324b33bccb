"""Reading pieces in a worker, as Arrow record batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from quire.bookkeeper.pieces import LedgerPiece
from quire.columns import BYTES_MAX, ROWS_MAX
from quire.spark.bookkeeper.options import ForeignOptions
from quire.spark.bookkeeper.planning import plan_batch
from quire.spark.clients import worker_client
from quire.spark.errors import reporting
from quire.spark.packing import pack


class PiecesPartition(InputPartition):
    """Pieces, in order; small, and carried to the worker that reads them."""

    def __init__(self, pieces: tuple[LedgerPiece, ...]) -> None:
        super().__init__(pieces)
        self.pieces = pieces


@reporting
class ForeignBatchReader(DataSourceReader):
    """Plans on the driver, reads in the workers."""

    def __init__(self, options: ForeignOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Take the snapshot. Called once per data frame."""
        options = self._options
        return [PiecesPartition(packed) for packed in pack(plan_batch(options), options.limits)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the records of some pieces as Arrow record batches."""
        yield from read_pieces(self._options, partition)


def read_pieces(options: ForeignOptions, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Yield the records of a partition as Arrow record batches, in a worker."""
    if not isinstance(partition, PiecesPartition):
        return  # Spark adds a partition of its own to a plan without any
    rows = ForeignRows(options)
    client, system = worker_client(options.cluster), options.system

    def weigh(records: Sequence[Any]) -> int:
        return sum(map(system.bytes_of, records))

    for piece in partition.pieces:
        source = partial(system.read_piece, client._client, piece, options.password)
        for records in client._portal.iterate(source, weigh):
            yield from rows.add(piece, records)
        yield from rows.rest(piece)


class ForeignRows:
    """Records of a piece that become a record batch, once there are enough."""

    def __init__(self, options: ForeignOptions) -> None:
        self._options = options
        self._system = options.system
        self._columns = [self._system.columns[name] for name in options.columns]
        self._schema = pa.schema(
            [(name, self._system.columns[name].arrow) for name in options.columns]
        )
        self._rows: list[Any] = []
        self._bytes = 0

    def add(self, piece: LedgerPiece, records: Sequence[Any]) -> Iterator[pa.RecordBatch]:
        """Take records of a piece; yield record batches that are full."""
        for record in self._wanted(piece.part, records):
            self._rows.append(record)
            self._bytes += self._system.bytes_of(record)
            if len(self._rows) >= ROWS_MAX or self._bytes >= BYTES_MAX:
                yield from self.rest(piece)

    def rest(self, piece: LedgerPiece) -> Iterator[pa.RecordBatch]:
        """Yield the rows that are left. Called after each piece."""
        rows, self._rows, self._bytes = self._rows, [], 0
        if rows:
            made = [
                pa.array([column.value(piece, row) for row in rows], column.arrow)
                for column in self._columns
            ]
            yield pa.RecordBatch.from_arrays(made, schema=self._schema)

    def _wanted(self, part: int, records: Sequence[Any]) -> Sequence[Any]:
        options, place_of = self._options, self._system.place_of
        if not options.is_bounded:
            return records
        return [record for record in records if options.wants(part, place_of(record))]
