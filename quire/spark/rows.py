"""Rows of a data frame as records to write.

A log takes `payload`, and beside it `key`, `headers` and `event_time`, as a read gives them. A
column `log` names each row's log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    StringType,
    StructType,
    TimestampType,
)

from quire.errors import ConfigurationError, InvalidRequestError
from quire.log.records.attributes import NO_ATTRIBUTES, Attributes, NewRecord

Cell: TypeAlias = bytes | str | None


def _is_bytes(kind: DataType) -> bool:
    return isinstance(kind, BinaryType | StringType)


def _is_headers(kind: DataType) -> bool:
    return (
        isinstance(kind, ArrayType)
        and isinstance(kind.elementType, StructType)
        and kind.elementType.fieldNames() == ["name", "value"]
        and isinstance(kind.elementType["name"].dataType, StringType)
        and _is_bytes(kind.elementType["value"].dataType)
    )


_KINDS: Final[dict[str, Callable[[DataType], bool]]] = {
    "log": lambda kind: isinstance(kind, StringType),
    "payload": _is_bytes,
    "key": _is_bytes,
    "headers": _is_headers,
    "event_time": lambda kind: isinstance(kind, TimestampType),
}


def check_schema(schema: StructType) -> bool:
    """Return whether the rows name their log in a column `log`.

    Raises `ConfigurationError` unless they have a column `payload`, and only columns that a log
    takes beside it.
    """
    kinds = {field.name: field.dataType for field in schema}
    fits = all(name in _KINDS and _KINDS[name](kind) for name, kind in kinds.items())
    if not fits or "payload" not in kinds or len(kinds) < len(schema):
        found = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema)
        raise ConfigurationError(
            "a log takes a column payload, binary or string, and beside it key binary, headers "
            "array<struct<name:string,value:binary>>, event_time timestamp, and log string, which "
            f"names each row's log, not ({found}): select(expression.alias('payload'))"
        )
    return "log" in kinds


class RecordRows(NamedTuple):
    """Records to write, by column. `attributes` are empty if the frame has none of its columns."""

    payloads: Sequence[Cell]
    attributes: Sequence[Attributes] = ()


def rows_of(batch: pa.RecordBatch) -> RecordRows:
    """Return the rows of a batch. Raises `InvalidRequestError` for a value that no record has."""
    payloads = batch.column("payload").to_pylist()
    names = batch.schema.names
    if not {"key", "headers", "event_time"} & set(names):
        return RecordRows(payloads)

    def column(name: str) -> list[Any]:
        return batch.column(name).to_pylist() if name in names else [None] * len(payloads)

    if "event_time" in names:
        times = batch.column("event_time").cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
    else:
        times = pa.nulls(len(payloads), pa.int64())
    parts = column("key"), column("headers"), times.to_pylist()
    return RecordRows(payloads, [_attributes(*each) for each in zip(*parts, strict=True)])


def _attributes(key: Cell, headers: Sequence[Any] | None, time_us: int | None) -> Attributes:
    if key is None and not headers and time_us is None:
        return NO_ATTRIBUTES
    pairs = [(each["name"], _bytes(each["value"])) for each in headers or () if each is not None]
    if any(name is None for name, _ in pairs):
        raise InvalidRequestError(f"a header has no name: {headers!r}")
    time_ms = None if time_us is None else time_us // 1000
    return NewRecord(b"", key=_bytes(key), headers=pairs, event_time=time_ms).attributes


def _bytes(cell: Cell) -> bytes | None:
    return cell.encode() if isinstance(cell, str) else cell
