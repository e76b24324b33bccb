"""What requests say, and how records are written."""

from __future__ import annotations

import json

import pytest

from quire.errors import InvalidRequestError
from quire.gateway.bodies import (
    BYTES,
    JSON,
    LINES,
    RECORDS_MAX,
    appended,
    event_of,
    parse_submission,
    record_fields,
)
from quire.log.records.attribute_json import ATTRIBUTE_FIELDS
from quire.log.records.attributes import Appendable, NewRecord
from quire.log.records.position import Appended, Position, Record
from quire.log.records.producers import ProducerSequence


def batch_of(value: object, content_type: str = JSON) -> tuple[Appendable, ...]:
    return parse_submission(content_type, json.dumps(value).encode()).records


@pytest.mark.parametrize(
    ("value", "record"),
    [
        ("text", b"text"),
        ({"value": "é"}, "é".encode()),
        ({"value": ""}, b""),
        ({"base64": "AP8="}, b"\x00\xff"),
        ({"json": {"b": [1, None]}}, b'{"b":[1,null]}'),
        ({"json": "x"}, b'"x"'),
    ],
)
def test_a_record_has_one_of_three_forms(value: object, record: bytes) -> None:
    assert batch_of(value) == (record,)
    assert batch_of({"records": [value, "next"]}) == (record, b"next")
    line = json.dumps(value).encode()
    assert parse_submission(LINES, line + b"\n\n" + line + b"\n").records == (record, record)


@pytest.mark.parametrize(
    ("fields", "record"),
    [
        ({"key": "ACME"}, NewRecord(b"buy", key=b"ACME")),
        ({"key_base64": "/w=="}, NewRecord(b"buy", key=b"\xff")),
        (
            {"headers": {"h": "v", "none": None}},
            NewRecord(b"buy", headers={"h": b"v", "none": None}),
        ),
        (
            {"headers": [{"name": "h", "value_base64": "/w=="}, {"name": "h"}]},
            NewRecord(b"buy", headers=[("h", b"\xff"), ("h", None)]),
        ),
        ({"event_time_ms": -1}, NewRecord(b"buy", event_time=-1)),
    ],
)
def test_a_record_has_a_key_headers_and_an_event_time(
    fields: dict[str, object], record: NewRecord
) -> None:
    assert batch_of({"value": "buy", **fields}) == (record,)
    assert batch_of({"records": [{"value": "buy", **fields}, "next"]}) == (record, b"next")
    key, headers, event_time_ms = record.attributes
    read = Record(Position(1, 2, 3), 9, 4, 1_500, b"buy", None, key, headers, event_time_ms)
    again = {name: each for name, each in record_fields(read).items() if name in ATTRIBUTE_FIELDS}
    assert batch_of({"value": "buy", **again}) == (record,)


def test_bytes_are_one_record() -> None:
    assert parse_submission(f"{BYTES}; charset=x", b"\x00\n\xff").records == (b"\x00\n\xff",)
    assert parse_submission(BYTES, b"").records == (b"",)


def test_conditions_come_with_the_records() -> None:
    terms = {"expected_offset": 7, "txid": 9, "producer": {"id": "a", "sequence": 3}}
    for body in (
        {"records": ["x"], "atomic": True, **terms},
        {"value": "x", "atomic": True, **terms},
    ):
        batch = parse_submission(JSON, json.dumps(body).encode())
        assert batch.records == (b"x",)
        assert (batch.expected_offset, batch.txid, batch.is_atomic) == (7, 9, True)
        assert batch.producer_sequence == ProducerSequence("a", 3)


@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        7,
        None,
        {"value": 7},
        {"value": "a", "base64": "AA=="},
        {"base64": "A"},
        {"base64": "é"},
        {"value": "\ud800"},
        {"text": "a"},
        {"records": []},
        {"records": "abc"},
        {"records": [["a"]]},
        {"records": ["a"], "txid": "7"},
        {"records": ["a"], "txid": True},
        {"records": ["a"], "expected_offset": 1.5},
        {"records": ["a"], "atomic": 1},
        {"records": ["a"], "producer": "a"},
        {"records": ["a"], "producer": {"id": "a"}},
        {"records": ["a"], "producer": {"id": "a", "sequence": "3"}},
        {"records": ["a"], "producer": {"id": "a", "sequence": 3, "more": 1}},
        {"records": ["a"], "else": 1},
        {"key": "k"},
        {"value": "a", "key": 7},
        {"value": "a", "key": "k", "key_base64": "AA=="},
        {"value": "a", "key_base64": "A"},
        {"value": "a", "headers": "h"},
        {"value": "a", "headers": ["h"]},
        {"value": "a", "headers": [{"value": "v"}]},
        {"value": "a", "headers": [{"name": "h", "other": "v"}]},
        {"value": "a", "headers": {"h": 7}},
        {"value": "a", "headers": {"": "v"}},
        {"value": "a", "event_time_ms": "2026-07-31"},
        {"value": "a", "event_time_ms": 2**60},
        {"records": ["a"] * (RECORDS_MAX + 1)},
    ],
)
def test_what_is_no_record_is_refused(value: object) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        batch_of(value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("value", ["NaN", "[Infinity]", '{"a": -Infinity}', "1e400"])
def test_a_number_that_json_cannot_have_is_refused(value: str) -> None:
    with pytest.raises(InvalidRequestError, match="not JSON"):
        parse_submission(JSON, f'{{"json": {value}}}'.encode())


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequestError):
        parse_submission(JSON, body)


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded"])
def test_a_form_that_a_web_page_can_send_is_refused(kind: str) -> None:
    """A page of another site can send these kinds without asking the browser for permission."""
    with pytest.raises(InvalidRequestError, match="Content-Type"):
        parse_submission(kind, b'"x"')


def test_a_record_that_is_read_is_text_or_base64() -> None:
    record = Record(Position(1, 2, 3), 9, 4, 1_500, b"a\nb", None)
    fields = record_fields(record)
    assert fields == {
        "offset": 9,
        "position": "1.2.3",
        "time": "1970-01-01T00:00:01.500Z",
        "epoch": 4,
        "value": "a\nb",
    }
    assert record_fields(record._replace(payload=b"\xff", txid=5))["base64"] == "/w=="
    assert record_fields(record._replace(txid=5))["txid"] == 5
    assert record_fields(record._replace(timestamp_ms=2**60))["time"] == 2**60


def test_an_event_is_one_line_and_names_the_next_position() -> None:
    record = Record(Position(1, 2, 3), 9, 4, 1_500, b"a\nb\r\n: c", None)
    head, data, *rest = event_of(record).decode().split("\n")
    assert (head, rest) == ("id: 1.2.4", ["", ""])
    assert json.loads(data.removeprefix("data: "))["value"] == "a\nb\r\n: c"


@pytest.mark.parametrize("is_repeated", [None, True, False])
def test_the_answer_to_an_append_is_json(is_repeated: bool | None) -> None:
    places = [Appended(Position(3, 17, slot), 40 + slot) for slot in range(2)]
    expected: dict[str, object] = {
        "records": [
            {"offset": 40, "position": "3.17.0"},
            {"offset": 41, "position": "3.17.1"},
        ],
        "next": "3.17.2",
    }
    if is_repeated is not None:
        expected["repeated"] = is_repeated
    assert json.loads(appended(places, is_repeated)) == expected
