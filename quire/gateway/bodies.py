"""What a request says, and how records are written as text. Pure: no clock and no I/O.

A record is bytes. In JSON it is `{"value": "text"}`, `{"base64": "…"}` or `{"json": …}`, which is
written without spaces; a plain string is its value. Beside it an object may have a key, headers and
an event time (quire/log/records/attribute_json.py). A record that is read has its text as `value`,
or `base64` if it is not UTF-8.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from quire.errors import InvalidRequestError
from quire.log.records.attribute_json import ATTRIBUTE_FIELDS, attribute_fields, new_record
from quire.log.records.attributes import Appendable
from quire.log.records.position import Appended, Record
from quire.log.records.producers import ProducerSequence
from quire.places import iso_time

JSON: Final = "application/json"
LINES: Final = "application/x-ndjson"
BYTES: Final = "application/octet-stream"
EVENTS: Final = "text/event-stream"

RECORDS_MAX: Final = 10_000
"""Records of one request."""


@dataclass(frozen=True, slots=True)
class Submission:
    """The records of one request to append."""

    records: tuple[Appendable, ...]
    expected_offset: int | None = None
    producer_sequence: ProducerSequence | None = None
    txid: int | None = None
    is_atomic: bool = False
    """Readers see all records or none. Conditions are for all records together."""


def parse_submission(content_type: str, body: bytes) -> Submission:
    """Return the records that a body has.

    Args:
        content_type: `application/json`: one record, or an object with `records`;
            `application/x-ndjson`: a record a line; `application/octet-stream`: the bytes of one
            record.
        body: the body.

    Raises:
        InvalidRequestError: the body has another form, or too many records.
    """
    kind = check_kind(content_type, JSON, LINES, BYTES)
    if kind == BYTES:
        return Submission((body,))
    if kind == LINES:
        lines = [line for line in body.split(b"\n") if line.strip()]
        return _checked(Submission(tuple(parse_record(parse_json(line)) for line in lines)))
    asked = parse_json(body)
    if not isinstance(asked, Mapping) or "records" not in asked:
        asked = {"records": [asked]} if not isinstance(asked, Mapping) else _single(asked)
    unknown = asked.keys() - {"records", *_TERMS}
    if unknown:
        raise InvalidRequestError(
            f"unknown field {sorted(unknown)[0]!r}: there is records, {', '.join(_TERMS)}"
        )
    records = asked["records"]
    if not isinstance(records, list):
        raise InvalidRequestError("'records' must be a list of records")
    return _checked(
        Submission(
            tuple(parse_record(each) for each in records),
            _number(asked, "expected_offset"),
            _producer(asked.get("producer")),
            _number(asked, "txid"),
            _flag(asked, "atomic"),
        )
    )


_TERMS: Final = ("expected_offset", "producer", "txid", "atomic")


def _single(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object with `records` that an object of one record stands for."""
    terms = {name: asked[name] for name in _TERMS if name in asked}
    return {"records": [{name: asked[name] for name in asked if name not in terms}], **terms}


def _checked(batch: Submission) -> Submission:
    if not batch.records:
        raise InvalidRequestError("the request has no record")
    if len(batch.records) > RECORDS_MAX:
        raise InvalidRequestError(
            f"{len(batch.records)} records are too many for one request: send {RECORDS_MAX} at most"
        )
    return batch


def check_kind(content_type: str, *kinds: str) -> str:
    """Return the kind of a body, without parameters. Raises `InvalidRequestError` for another."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind not in kinds:
        *most, last = kinds
        wanted = f"{', '.join(most)} or {last}" if most else last
        raise InvalidRequestError(f"Content-Type {kind or 'is missing'!r}: send {wanted}")
    return kind


def parse_json(text: bytes) -> Any:
    """Return a JSON value. Raises `InvalidRequestError`."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidRequestError(f"the body is not JSON: {error}") from None


def parse_record(value: object) -> Appendable:
    """Return a record in JSON. Raises `InvalidRequestError`."""
    if isinstance(value, str):
        return _payload("value", value)
    if not isinstance(value, Mapping):
        raise _no_record(value)
    if len(value) == 1:  # most have no more than a payload
        ((form, content),) = value.items()
        return _payload(form, content)
    payload = {name: value[name] for name in value if name not in ATTRIBUTE_FIELDS}
    if len(payload) != 1:
        raise _no_record(payload)
    ((form, content),) = payload.items()
    return new_record(_payload(form, content), value)


def _payload(form: str, content: object) -> bytes:
    try:
        if form == "json":
            text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            return text.encode()
        if form == "value" and isinstance(content, str):
            return content.encode()
        if form == "base64" and isinstance(content, str):
            return base64.b64decode(content, validate=True)
    except (UnicodeEncodeError, binascii.Error, ValueError) as error:
        raise InvalidRequestError(f"record {str({form: content})[:60]!r}: {error}") from None
    raise _no_record({form: content})


def _no_record(value: object) -> InvalidRequestError:
    return InvalidRequestError(
        f"{str(value)[:60]!r} is not a record: write "
        '{"value": "text"}, {"base64": "…"} or {"json": …}, with key, headers and event_time_ms'
    )


def _number(asked: Mapping[str, Any], name: str) -> int | None:
    value = asked.get(name)
    if value is not None and type(value) is not int:
        raise InvalidRequestError(f"{name} {value!r} is not a whole number")
    return value


def _flag(asked: Mapping[str, Any], name: str) -> bool:
    value = asked.get(name, False)
    if not isinstance(value, bool):
        raise InvalidRequestError(f"{name} {value!r} is not true or false")
    return value


def _producer(value: object) -> ProducerSequence | None:
    if value is None:
        return None
    if (
        not isinstance(value, Mapping)
        or value.keys() != {"id", "sequence"}
        or not isinstance(value["id"], str)
        or type(value["sequence"]) is not int
    ):
        raise InvalidRequestError(
            f'producer {str(value)[:60]!r} must be {{"id": "name", "sequence": 7}}'
        )
    return ProducerSequence(value["id"], value["sequence"])


def appended(places: Sequence[Appended], is_repeated: bool | None = None) -> bytes:
    """Return the answer to an append, as JSON. Whether it is repeated is told unless it is None.

    The text is put together here: an object for each record would be made only to be written.
    """
    rows = [f'{{"offset":{offset},"position":"{position}"}}' for position, offset in places]
    more = "" if is_repeated is None else f',"repeated":{"true" if is_repeated else "false"}'
    last = places[-1].position.after
    return f'{{"records":[{",".join(rows)}],"next":"{last}"{more}}}'.encode()


def record_fields(record: Record) -> dict[str, object]:
    """Return a record as the fields of a JSON object."""
    fields: dict[str, object] = {
        "offset": record.offset,
        "position": str(record.position),
        "time": iso_time(record.timestamp_ms) or record.timestamp_ms,
        "epoch": record.epoch,
    }
    if record.txid is not None:
        fields["txid"] = record.txid
    fields |= attribute_fields(record)
    try:
        fields["value"] = record.payload.decode()
    except UnicodeDecodeError:
        fields["base64"] = base64.b64encode(record.payload).decode()
    return fields


def lines_of(records: Sequence[Record]) -> bytes:
    """Return records as lines of JSON."""
    return b"".join(
        json.dumps(record_fields(each), ensure_ascii=False).encode() + b"\n" for each in records
    )


def event_of(record: Record) -> bytes:
    """Return a record as a server-sent event. Its id is the position to go on from."""
    data = json.dumps(record_fields(record), ensure_ascii=False)
    return f"id: {record.position.after}\ndata: {data}\n\n".encode()
