"""Whole logs as Spark data frames, through PySpark's Python Data Source API.

    spark.dataSource.register(quire.spark.LogDataSource)
    spark.read.format("quire").option("cluster", "./quire-data").option("log", "orders").load()

Planning takes a snapshot (quire/log/span.py): what a reader could see at that moment. Each segment
is a partition, read by the worker that gets it with a client of its own, never fencing: the
writer is not disturbed. Make a new data frame to see newer records. Batches become Arrow columns
without a Python step per record.

pyspark and pyarrow are imported here and nowhere else (`pip install 'quire[spark]'`).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

import quire.sync
from quire.errors import ConfigurationError
from quire.log.batch import Batch
from quire.log.span import Span

SCHEMA: Final = pa.schema(
    [
        ("log", pa.string()),
        ("segment", pa.int64()),
        ("ledger", pa.int64()),
        ("entry", pa.int64()),
        ("slot", pa.int32()),
        ("offset", pa.int64()),
        ("epoch", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("payload", pa.binary()),
    ]
)
"""One row per record; `timestamp` is when the leader made the batch."""

SPARK_SCHEMA: Final = (
    "log string, segment long, ledger long, entry long, slot int, offset long, epoch long, "
    "timestamp timestamp, payload binary"
)

ROWS_MAX: Final = 64 * 1024
BYTES_MAX: Final = 8 * 1024 * 1024
"""A batch of rows is handed to Spark when it has so many rows or payload bytes."""

_OPTIONS: Final = ("cluster", "log", "password")


@dataclass(frozen=True, slots=True)
class _Options:
    """The options of one `load`, checked."""

    cluster: str
    log: str
    password: bytes

    @classmethod
    def parse(cls, options: dict[str, str]) -> _Options:
        for name in sorted(options):
            if name not in _OPTIONS:
                raise ConfigurationError(
                    f"option {name!r} is not one of format 'quire': use {', '.join(_OPTIONS)}"
                )
        for name in ("cluster", "log"):
            if not options.get(name):
                raise ConfigurationError(f"format 'quire' needs .option({name!r}, …)")
        return cls(options["cluster"], options["log"], options.get("password", "").encode())


class LogDataSource(DataSource):
    """Format `quire`: options `cluster` (store URI or cluster directory), `log`, `password`."""

    @classmethod
    def name(cls) -> str:
        return "quire"

    def schema(self) -> str:
        return SPARK_SCHEMA

    def reader(self, schema: StructType) -> LogDataSourceReader:
        return LogDataSourceReader(_Options.parse(dict(self.options)))


class SpanPartition(InputPartition):
    """One segment of the snapshot; small, and carried to the worker that reads it."""

    def __init__(self, span: Span) -> None:
        super().__init__(span)
        self.span = span


class LogDataSourceReader(DataSourceReader):
    """Plans on the driver, reads in the workers."""

    def __init__(self, options: _Options) -> None:
        self._options = options

    def partitions(self) -> Sequence[SpanPartition]:
        """Take the snapshot. Called once per data frame."""
        with quire.sync.connect(self._options.cluster) as client:
            spans = client.snapshot_log(self._options.log, password=self._options.password)
        return [SpanPartition(span) for span in spans]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the span's records as Arrow record batches."""
        assert isinstance(partition, SpanPartition)
        with quire.sync.connect(self._options.cluster) as client:
            batches = client.read_span(partition.span, password=self._options.password)
            yield from record_batches(partition.span, batches)


def record_batches(
    span: Span, batches: Iterable[tuple[int, int, Batch]]
) -> Iterator[pa.RecordBatch]:
    """Turn (entry, records to skip, batch) into Arrow record batches of `SCHEMA`."""
    columns = _Columns(span)
    for entry, skipped, batch in batches:
        columns.add(entry, skipped, batch)
        if columns.is_full:
            yield columns.build()
            columns = _Columns(span)
    if columns.rows:
        yield columns.build()


class _Columns:
    """Rows that are being collected: everything is appended a batch at a time."""

    def __init__(self, span: Span) -> None:
        self._span = span
        self._entries = array("q")
        self._slots = array("i")
        self._offsets = array("q")
        self._epochs = array("q")
        self._timestamps = array("q")
        self._lengths: list[int] = []
        self._payloads: list[memoryview] = []
        self._bytes = 0

    @property
    def rows(self) -> int:
        return len(self._lengths)

    @property
    def is_full(self) -> bool:
        return self.rows >= ROWS_MAX or self._bytes >= BYTES_MAX

    def add(self, entry: int, skipped: int, batch: Batch) -> None:
        header, lengths = batch.header, batch.lengths[skipped:]
        count = len(lengths)
        self._entries.extend(array("q", [entry]) * count)
        self._slots.extend(range(skipped, header.count))
        self._offsets.extend(range(header.first_offset + skipped, header.next_offset))
        self._epochs.extend(array("q", [header.epoch]) * count)
        self._timestamps.extend(array("q", [header.timestamp_ms * 1000]) * count)
        self._lengths.extend(lengths)
        self._payloads.append(batch.data[sum(batch.lengths[:skipped]) :])
        self._bytes += len(self._payloads[-1])

    def build(self) -> pa.RecordBatch:
        count = self.rows
        ends = array("i", accumulate(self._lengths, initial=0))
        payload = pa.Array.from_buffers(
            pa.binary(), count, [None, pa.py_buffer(ends), pa.py_buffer(b"".join(self._payloads))]
        )
        columns = [
            pa.repeat(self._span.log, count),
            pa.repeat(pa.scalar(self._span.segment, pa.int64()), count),
            pa.repeat(pa.scalar(self._span.ledger, pa.int64()), count),
            _numbers(pa.int64(), self._entries),
            _numbers(pa.int32(), self._slots),
            _numbers(pa.int64(), self._offsets),
            _numbers(pa.int64(), self._epochs),
            _numbers(pa.timestamp("us", tz="UTC"), self._timestamps),
            payload,
        ]
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _numbers(kind: pa.DataType, values: array[int]) -> pa.Array:
    """An Arrow array over a column's own memory."""
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])
