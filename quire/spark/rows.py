"""Data frames that can be written: the columns of `quire.log.records.arrow_rows`, and `log`, which
names each row's log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    StringType,
    StructType,
    TimestampType,
)

from quire.errors import ConfigurationError


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
