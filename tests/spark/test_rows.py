"""Rows to write: which schemas fit, and what becomes of their columns."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from quire.errors import InvalidRequestError
from quire.log.records.arrow_rows import RecordRows, rows_of
from quire.log.records.attributes import NO_ATTRIBUTES, Attributes

HEADERS = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))
US = pa.timestamp("us", tz="UTC")


def batch(**columns: tuple[list[Any], Any]) -> pa.RecordBatch:
    arrays = [pa.array(values, kind) for values, kind in columns.values()]
    return pa.RecordBatch.from_arrays(arrays, list(columns))


def test_payloads_alone_have_no_attributes() -> None:
    assert rows_of(batch(payload=([b"a", None], pa.binary()))) == RecordRows([b"a", None])
    assert rows_of(batch(payload=(["a"], pa.string()), log=(["x"], pa.string()))) == RecordRows(
        ["a"]
    )


def test_columns_become_attributes() -> None:
    pairs = [{"name": "h", "value": b"v"}, {"name": "h", "value": None}]
    made = rows_of(
        batch(
            key=(["k", None, "", None], pa.string()),
            payload=([b"a", b"b", b"c", b"d"], pa.binary()),
            headers=([pairs, None, [], None], HEADERS),
            event_time=([None, None, None, -1], US),
        )
    )
    assert made.payloads == [b"a", b"b", b"c", b"d"]
    assert made.attributes == [
        Attributes(b"k", (("h", b"v"), ("h", None))),
        NO_ATTRIBUTES,
        Attributes(b""),
        Attributes(event_time_ms=-1),
    ]


def test_a_header_without_a_name_is_refused() -> None:
    nameless = [[{"name": None, "value": b"v"}]]
    with pytest.raises(InvalidRequestError, match="no name"):
        rows_of(batch(payload=([b"a"], pa.binary()), headers=(nameless, HEADERS)))
