"""Reading in batches.

Planning takes a snapshot (quire/log/reading/snapshot.py): all records that a reader could see at
that moment, split into ranges of entries. Each worker reads its ranges without fencing, so the
writer is not disturbed. Make a new data frame to see newer records.

Spark's filters narrow nothing here. Spark keeps one plan of a Python source for all uses of a data
frame, and the last one's filters would be in it (`DataSourceReader.pushFilters`, Spark 4.3): the
other uses would silently lack records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from quire.columns import entry_batches, spans_batches
from quire.errors import InvalidRequestError, NoSuchLogError
from quire.log.reading.span import Span
from quire.spark.beginning import check_beginning
from quire.spark.clients import worker_client, worker_keyring
from quire.spark.errors import reporting
from quire.spark.options import ReadOptions
from quire.spark.packing import Packed, pack
from quire.sync import SyncClient


class SpanPartition(InputPartition):
    """Ranges of entries, in order; small, and carried to the worker that reads them."""

    def __init__(self, spans: Packed) -> None:
        super().__init__(spans)
        self.spans = spans


def snapshots(client: SyncClient, options: ReadOptions) -> list[Span]:
    """Take the snapshots of all logs that are meant. Raises `NoSuchLogError` for a named log."""
    found: list[Span] = []
    logs = options.select(client.list_logs())
    options.check_offsets(logs)
    for log in logs:
        bounds = options.bounds_of(log)
        try:
            spans = client.snapshot_log(log, password=options.password, bounds=bounds)
            check_beginning(client, log, options)  # workers report later trims
        except NoSuchLogError:
            if log in options.logs:
                raise
            continue  # a pattern named it, and it was deleted since
        found += spans
    return found


@reporting
class LogBatchReader(DataSourceReader):
    """Plans on the driver, reads in the workers."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Take the snapshot. Called once per data frame."""
        options = self._options
        found = snapshots(worker_client(options.cluster), options)
        return [SpanPartition(packed) for packed in pack(found, options.limits)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the records of a range as Arrow record batches."""
        yield from read_partition(self._options, partition)


def read_partition(options: ReadOptions, partition: InputPartition) -> Iterator[Any]:
    """Yield the records of a partition as Arrow record batches, in a worker."""
    if not isinstance(partition, SpanPartition):
        return  # Spark adds a partition of its own to a plan without any
    keyring = worker_keyring(options.key_file)
    pieces = worker_client(options.cluster)._logs.read_spans(
        partition.spans, password=options.password, keyring=keyring
    )
    yield from spans_batches(partition.spans, pieces, options.columns)


class EntriesPartition(InputPartition):
    """A range of entries of a raw ledger, both ends included."""

    def __init__(self, first: int, last: int) -> None:
        super().__init__((first, last))
        self.first = first
        self.last = last


@reporting
class LedgerBatchReader(DataSourceReader):
    """Reads a raw ledger as it is: up to its end when it is closed, else up to its LAC."""

    def __init__(self, options: ReadOptions) -> None:
        if not options.is_unbounded:
            raise InvalidRequestError(
                "option 'ledger' reads all entries: filter by the column 'entry' instead"
            )
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Cut the ledger into ranges. Called once per data frame."""
        options = self._options
        assert options.ledger is not None
        client = worker_client(options.cluster)
        with client.open_ledger_without_recovery(
            options.ledger, password=options.password
        ) as reader:
            last = reader.last_confirmed()
            size, limits = reader.info.length or 0, options.limits
        records_max = limits.records_max or last + 1
        pieces = max(-(-size // limits.split_bytes), limits.partitions_min)
        pieces = min(max(pieces, -(-(last + 1) // records_max) if last >= 0 else 0), last + 1)
        cuts = [(last + 1) * piece // max(pieces, 1) for piece in range(pieces + 1)]
        return [EntriesPartition(cuts[i], cuts[i + 1] - 1) for i in range(pieces)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the entries of a range as Arrow record batches."""
        if not isinstance(partition, EntriesPartition):
            return
        options = self._options
        assert options.ledger is not None
        client = worker_client(options.cluster)
        with client.open_ledger_without_recovery(
            options.ledger, password=options.password
        ) as reader:
            runs = reader.read_runs(partition.first, partition.last)
            yield from entry_batches(options.ledger, runs, options.columns)
