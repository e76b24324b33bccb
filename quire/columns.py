"""Records as Arrow columns, without a Python step per record.

A batch has its lengths and its payloads as one buffer each; Arrow repeats values that are equal in
the whole batch. Only requested columns are built.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Final

import pyarrow as pa
from pyarrow import compute

from quire.entry import Entry
from quire.errors import InvalidRequestError
from quire.log.reading.span import Slice, Span
from quire.log.records.attributes import ATTRIBUTE_VALUES
from quire.log.records.txids import NO_TXID

_TYPES: Final = {
    "log": pa.string(),
    "segment": pa.int64(),
    "ledger": pa.int64(),
    "entry": pa.int64(),
    "slot": pa.int32(),
    "offset": pa.int64(),
    "epoch": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "txid": pa.int64(),
    "key": pa.binary(),
    "headers": pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())])),
    "event_time": pa.timestamp("us", tz="UTC"),
    "payload": pa.binary(),
}
"""The types of the columns. Spark checks record batches against them (`spark.options`)."""

LENGTH_BYTES: Final = 4
"""A record's length in a batch, and in Arrow."""

ROWS_MAX: Final = 64 * 1024
BYTES_MAX: Final = 4 * 1024 * 1024
"""A batch of rows is handed on when it has so many rows or payload bytes."""


def arrow_schema(columns: Sequence[str]) -> pa.Schema:
    """Return the Arrow schema of some columns. Raises `InvalidRequestError` for an unknown one."""
    for name in columns:
        if name not in _TYPES:
            known = ", ".join(_TYPES)
            raise InvalidRequestError(f"no column is named {name!r}: choose from {known}")
    return pa.schema([(name, _TYPES[name]) for name in columns])


class SpanRows:
    """Turns the slices of a span into Arrow record batches, one slice after the other."""

    def __init__(self, span: Span, columns: Sequence[str]) -> None:
        self._same = _Same(span)
        self._columns = columns
        self._rows = _Rows(self._same, columns)

    def add(self, piece: Slice) -> pa.RecordBatch | None:
        """Take a slice in; return a record batch once there are enough rows for it."""
        self._rows.add(piece)
        is_full = self._rows.count >= ROWS_MAX or self._rows.bytes >= BYTES_MAX
        return self.rest() if is_full else None

    def rest(self) -> pa.RecordBatch | None:
        """Return the rows that are left, None without any."""
        rows, self._rows = self._rows, _Rows(self._same, self._columns)
        return rows.build() if rows.count else None


def spans_batches(
    spans: Sequence[Span], pieces: Iterable[tuple[int, Slice]], columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Turn the slices of several spans, each with the index of its span, into record batches.

    The rows of small spans share a batch: handing a batch on costs more than ten rows do.
    """
    joined = _Joined()
    at, rows = 0, None
    for index, piece in pieces:
        if rows is None or index != at:
            if rows is not None and (batch := rows.rest()) is not None:
                yield from joined.add(batch)
            at, rows = index, SpanRows(spans[index], columns)
        if (batch := rows.add(piece)) is not None:
            yield from joined.add(batch)
    if rows is not None and (batch := rows.rest()) is not None:
        yield from joined.add(batch)
    yield from joined.rest()


class _Joined:
    """Collects small batches until they have enough rows."""

    def __init__(self) -> None:
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0
        self._bytes = 0

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if self._rows + len(batch) > ROWS_MAX or self._bytes + batch.nbytes > BYTES_MAX:
            yield from self.rest()
        self._batches.append(batch)
        self._rows += len(batch)
        self._bytes += batch.nbytes

    def rest(self) -> Iterator[pa.RecordBatch]:
        batches, self._batches = self._batches, []
        self._rows = self._bytes = 0
        if len(batches) == 1:
            yield batches[0]  # a large one is not copied
        elif batches:
            yield pa.concat_batches(batches)


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


class _Same:
    """Columns that are the same all along a span; made once, handed out in slices."""

    def __init__(self, span: Span) -> None:
        self._values = {
            "log": span.log, "segment": span.segment, "ledger": span.ledger, "epoch": span.epoch,
        }  # fmt: skip
        self._made: dict[str, pa.Array] = {}
        self._records = len(span.offsets)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def column(self, name: str, count: int) -> pa.Array:
        found = self._made.get(name)
        if found is None or len(found) < count:
            value = pa.scalar(self._values[name], _TYPES[name])
            # A small segment needs no more of them than it has records.
            found = self._made[name] = pa.repeat(value, max(count, min(ROWS_MAX, self._records)))
        return found.slice(0, count)


class _Rows:
    """Rows that are being collected: everything is appended a batch at a time.

    The rows of a span have offsets without gaps, and a batch is stored with its lengths as an array
    of 32-bit numbers, which is what Arrow wants to sum up. So no column needs a step per record.
    """

    def __init__(self, same: _Same, columns: Sequence[str]) -> None:
        self._same = same
        self._columns = columns
        self._slices: list[Slice] = []
        self._lengths: list[bytes | memoryview] = [bytes(LENGTH_BYTES)]  # the first one starts at 0
        self._payloads: list[memoryview] = []
        self.count = 0
        self.bytes = 0

    def add(self, piece: Slice) -> None:
        self._slices.append(piece)
        self.count += len(piece.slots)
        if "payload" not in self._columns:
            return
        first, end = piece.slots.start, piece.slots.stop
        data = piece.batch.data
        if len(piece.slots) < len(piece.batch):
            lengths = piece.batch.lengths
            start = sum(lengths[:first])
            data = data[start : start + sum(lengths[first:end])]
        self._lengths.append(piece.batch.body[LENGTH_BYTES * first : LENGTH_BYTES * end])
        self._payloads.append(data)
        self.bytes += len(data)

    def build(self) -> pa.RecordBatch:
        made = [self._column(name) for name in self._columns]
        return pa.RecordBatch.from_arrays(made, schema=arrow_schema(self._columns))

    def _column(self, name: str) -> pa.Array:
        if name == "payload":
            return self._payload()
        if name in self._same:
            return self._same.column(name, self.count)
        if name == "offset":
            first = self._slices[0]
            start = first.batch.header.first_offset + first.slots.start
            counted = pa.Array.from_buffers(
                pa.int64(), self.count, [None, pa.py_buffer(_counting("q", range(self.count)))]
            )
            return compute.add(counted, pa.scalar(start, pa.int64()))
        if name == "txid":
            return self._txids()
        if name in ATTRIBUTE_VALUES:
            return self._attributes(name)
        return self._numbers(name)

    def _numbers(self, name: str) -> pa.Array:
        """An Arrow array over a column's own memory."""
        values = array("i" if name == "slot" else "q")
        for entry, slots, batch in self._slices:
            if name == "slot":
                values.extend(_counting("i", slots))
            else:
                same = entry if name == "entry" else batch.header.timestamp_ms * 1000
                values.extend(array("q", [same]) * len(slots))
        return pa.Array.from_buffers(_TYPES[name], self.count, [None, pa.py_buffer(values)])

    def _txids(self) -> pa.Array:
        """Ids of the application; null before the log's first id."""
        if not any(piece.batch.txids for piece in self._slices):
            return pa.nulls(self.count, pa.int64())
        values = array("q")
        for _, slots, batch in self._slices:
            ids = batch.txids or (NO_TXID,)
            same = len(ids) == 1
            values.extend(ids * len(slots) if same else ids[slots.start : slots.stop])
        found = pa.Array.from_buffers(pa.int64(), self.count, [None, pa.py_buffer(values)])
        return compute.if_else(compute.equal(found, NO_TXID), pa.scalar(None, pa.int64()), found)

    def _attributes(self, name: str) -> pa.Array:
        """Keys, headers or event times of the application; null for records without."""
        if not any(piece.batch.attributes for piece in self._slices):
            return pa.nulls(self.count, _TYPES[name])
        value_of = ATTRIBUTE_VALUES[name]
        values = [
            value_of(each)
            for _, slots, batch in self._slices
            for each in batch.attributes.of_slots(slots)
        ]
        return pa.array(values, _TYPES[name])

    def _payload(self) -> pa.Array:
        lengths = b"".join(self._lengths)
        sizes = pa.Array.from_buffers(pa.int32(), self.count + 1, [None, pa.py_buffer(lengths)])
        ends = compute.cumulative_sum(sizes).buffers()[1]
        data = pa.py_buffer(b"".join(self._payloads))
        return pa.Array.from_buffers(pa.binary(), self.count, [None, ends, data])


def _counting(kind: str, numbers: range) -> array[int]:
    """Consecutive numbers, copied from ones that were made before."""
    return _from_0(kind, 1 << numbers.stop.bit_length())[numbers.start : numbers.stop]


@cache
def _from_0(kind: str, count: int) -> array[int]:
    return array(kind, range(count))
