"""Records as Arrow columns, without a Python step per record.

A batch brings its lengths and its payloads as one buffer each; what is the same for a whole batch
is repeated by Arrow. Only columns that were asked for are made.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final

import pyarrow as pa

from quire.entry import Entry
from quire.log.span import Slice, Span

_TYPES: Final = {
    "log": pa.string(),
    "segment": pa.int64(),
    "ledger": pa.int64(),
    "entry": pa.int64(),
    "slot": pa.int32(),
    "offset": pa.int64(),
    "epoch": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "payload": pa.binary(),
}
"""The types Spark checks record batches against; they belong to `options.LOG_COLUMNS`."""

ROWS_MAX: Final = 64 * 1024
BYTES_MAX: Final = 8 * 1024 * 1024
"""A batch of rows is handed to Spark when it has so many rows or payload bytes."""


def arrow_schema(columns: Sequence[str]) -> pa.Schema:
    """Return the Arrow schema of some columns."""
    return pa.schema([(name, _TYPES[name]) for name in columns])


def record_batches(
    span: Span, slices: Iterable[Slice], columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Turn the slices of a span into Arrow record batches."""
    rows = _Rows(span, columns)
    for piece in slices:
        rows.add(piece)
        if rows.count >= ROWS_MAX or rows.bytes >= BYTES_MAX:
            yield rows.build()
            rows = _Rows(span, columns)
    if rows.count:
        yield rows.build()


def entry_batches(
    ledger: int, runs: Iterable[list[Entry]], columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Turn entries of a raw ledger into Arrow record batches."""
    schema = arrow_schema(columns)
    for run in runs:
        made = {
            "ledger": lambda run=run: pa.repeat(pa.scalar(ledger, pa.int64()), len(run)),
            "entry": lambda run=run: pa.array([each.entry for each in run], pa.int64()),
            "payload": lambda run=run: pa.array([each.payload for each in run], pa.binary()),
        }
        yield pa.RecordBatch.from_arrays([made[name]() for name in columns], schema=schema)


class _Rows:
    """Rows that are being collected: everything is appended a batch at a time."""

    def __init__(self, span: Span, columns: Sequence[str]) -> None:
        self._span = span
        self._columns = columns
        self._slices: list[Slice] = []
        self._lengths: list[int] = []
        self._payloads: list[memoryview] = []
        self.count = 0
        self.bytes = 0

    def add(self, piece: Slice) -> None:
        self._slices.append(piece)
        self.count += len(piece.slots)
        if "payload" not in self._columns:
            return
        lengths, data = piece.batch.lengths, piece.batch.data
        if len(piece.slots) < len(lengths):
            first, end = piece.slots.start, piece.slots.stop
            start = sum(lengths[:first])
            lengths = lengths[first:end]
            data = data[start : start + sum(lengths)]
        self._lengths.extend(lengths)
        self._payloads.append(data)
        self.bytes += len(data)

    def build(self) -> pa.RecordBatch:
        made = [self._column(name) for name in self._columns]
        return pa.RecordBatch.from_arrays(made, schema=arrow_schema(self._columns))

    def _column(self, name: str) -> pa.Array:
        span = self._span
        if name == "payload":
            return self._payload()
        if name == "log":
            return pa.repeat(span.log, self.count)
        if name in ("segment", "ledger", "epoch"):
            value = {"segment": span.segment, "ledger": span.ledger, "epoch": span.epoch}[name]
            return pa.repeat(pa.scalar(value, pa.int64()), self.count)
        return self._numbers(name)

    def _numbers(self, name: str) -> pa.Array:
        """An Arrow array over a column's own memory."""
        values = array("i" if name == "slot" else "q")
        for entry, slots, batch in self._slices:
            first, count = batch.header.first_offset, len(slots)
            if name == "slot":
                values.extend(slots)
            elif name == "offset":
                values.extend(range(first + slots.start, first + slots.stop))
            else:
                same = entry if name == "entry" else batch.header.timestamp_ms * 1000
                values.extend(array("q", [same]) * count)
        return pa.Array.from_buffers(_TYPES[name], self.count, [None, pa.py_buffer(values)])

    def _payload(self) -> pa.Array:
        ends = array("i", accumulate(self._lengths, initial=0))
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(self._payloads))]
        return pa.Array.from_buffers(pa.binary(), self.count, buffers)
