"""Rows of Arrow as records to write.

A log takes a column `payload`, and beside it `key`, `headers` and `event_time`, as a read gives
them. Needs pyarrow: callers import this module within `quire.extras.needed_for`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, cast

import pyarrow as pa
from pyarrow import types

from quire.errors import InvalidRequestError
from quire.log.records.attributes import NO_ATTRIBUTES, Attributes, NewRecord

Cell: TypeAlias = bytes | str | None

ATTRIBUTE_COLUMNS: Final = frozenset({"key", "headers", "event_time"})


class RecordRows(NamedTuple):
    """Records to write, by column. `attributes` are empty if the rows have none of its columns."""

    payloads: Sequence[Cell]
    attributes: Sequence[Attributes] = ()


def _is_bytes(kind: pa.DataType) -> bool:
    return any(
        check(kind)
        for check in (
            *(types.is_binary, types.is_large_binary, types.is_fixed_size_binary),
            *(types.is_string, types.is_large_string, types.is_binary_view, types.is_string_view),
        )
    )


def _is_headers(kind: pa.DataType) -> bool:
    if not (types.is_list(kind) or types.is_large_list(kind)):
        return False
    pair = kind.value_type
    if not types.is_struct(pair) or [each.name for each in pair] != ["name", "value"]:
        return False
    return types.is_string(pair.field("name").type) and _is_bytes(pair.field("value").type)


_KINDS: Final[dict[str, Callable[[pa.DataType], bool]]] = {
    "payload": _is_bytes,
    "key": _is_bytes,
    "headers": _is_headers,
    "event_time": types.is_timestamp,
}


def check_columns(schema: pa.Schema) -> None:
    """Raise `InvalidRequestError` unless rows have a column `payload`, and only columns that a log
    takes beside it.
    """
    names = schema.names
    fits = all(each.name in _KINDS and _KINDS[each.name](each.type) for each in schema)
    if not fits or "payload" not in names or len(set(names)) < len(names):
        found = ", ".join(f"{each.name} {each.type}" for each in schema)
        raise InvalidRequestError(
            "a log takes a column payload, binary or string, and beside it key binary, headers "
            "list<struct<name string, value binary>> and event_time timestamp, not "
            f"({found}): select and rename columns first"
        )


def pieces_of(table: Any, rows_max: int) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the schema of a table or a stream, and its rows in pieces.

    Raises `InvalidRequestError` for a value that is neither.
    """
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    if isinstance(table, pa.Table):
        return table.schema, iter(table.to_batches(max_chunksize=rows_max))
    if not isinstance(table, pa.RecordBatchReader):
        if not hasattr(table, "__arrow_c_stream__"):
            raise InvalidRequestError(f"{type(table).__name__} is not an Arrow table or stream")
        table = pa.RecordBatchReader.from_stream(table)
    return table.schema, _cut(table, rows_max)


def _cut(batches: Iterable[pa.RecordBatch], rows_max: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield from (batch.slice(at, rows_max) for at in range(0, len(batch), rows_max))


def rows_of(batch: pa.RecordBatch) -> RecordRows:
    """Return the rows of a batch. Raises `InvalidRequestError` for a value that no record has."""
    payloads = batch.column("payload").to_pylist()
    names = batch.schema.names
    if not ATTRIBUTE_COLUMNS & set(names):
        return RecordRows(payloads)

    def column(name: str) -> list[Any]:
        return batch.column(name).to_pylist() if name in names else [None] * len(payloads)

    if "event_time" in names:
        stamps = batch.column("event_time")
        times = stamps.cast(pa.timestamp("us", tz=stamps.type.tz), safe=False).cast(pa.int64())
    else:
        times = pa.nulls(len(payloads), pa.int64())
    parts = column("key"), column("headers"), times.to_pylist()
    return RecordRows(payloads, [_attributes(*each) for each in zip(*parts, strict=True)])


def records_of(batch: pa.RecordBatch, first: int) -> list[bytes | NewRecord]:
    """Return the records of a batch; `first` rows came before it.

    Raises `InvalidRequestError` for a null payload, or a value that no record has.
    """
    rows = rows_of(batch)
    if not rows.attributes and set(map(type, rows.payloads)) == {bytes}:
        return list(cast(Sequence[bytes], rows.payloads))
    records: list[bytes | NewRecord] = []
    for at, cell in enumerate(rows.payloads):
        payload = as_bytes(cell)
        if payload is None:
            raise InvalidRequestError(f"row {first + at} has no payload: filter nulls out first")
        if rows.attributes:
            key, headers, event_time = rows.attributes[at]
            records.append(NewRecord(payload, key=key, headers=headers, event_time=event_time))
        else:
            records.append(payload)
    return records


def _attributes(key: Cell, headers: Sequence[Any] | None, time_us: int | None) -> Attributes:
    if key is None and not headers and time_us is None:
        return NO_ATTRIBUTES
    pairs = [(each["name"], as_bytes(each["value"])) for each in headers or () if each is not None]
    if any(name is None for name, _ in pairs):
        raise InvalidRequestError(f"a header has no name: {headers!r}")
    time_ms = None if time_us is None else time_us // 1000
    return NewRecord(b"", key=as_bytes(key), headers=pairs, event_time=time_ms).attributes


def as_bytes(cell: Cell) -> bytes | None:
    """Return a cell of a binary or string column as bytes."""
    return cell.encode() if isinstance(cell, str) else cell
