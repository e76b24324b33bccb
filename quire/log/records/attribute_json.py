"""Keys, headers and event times as fields of a JSON object. Pure.

    {"key": "ACME", "headers": [{"name": "trace", "value": "1"}], "event_time_ms": 1790000000000}

Bytes that are not UTF-8 stand in base64 under `key_base64` and `value_base64`. A header without a
value has null. A record without a key has no field `key`, and so on. On the way in, `headers` may
also be an object of names and text.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final

from quire.errors import InvalidRequestError
from quire.log.records.attributes import NewRecord
from quire.log.records.position import Record

ATTRIBUTE_FIELDS: Final = ("key", "key_base64", "headers", "event_time_ms")


def attribute_fields(record: Record) -> dict[str, Any]:
    """Return the fields of a record's key, headers and event time."""
    fields: dict[str, Any] = {}
    if record.key is not None:
        fields |= text_field("key", record.key)
    if record.headers:
        fields["headers"] = [
            {"name": name, **text_field("value", data)} for name, data in record.headers
        ]
    if record.event_time_ms is not None:
        fields["event_time_ms"] = record.event_time_ms
    return fields


def new_record(payload: bytes, fields: Mapping[str, Any]) -> NewRecord:
    """Return the record that a payload and the fields of an object stand for.

    Fields of other names are not looked at.

    Raises:
        InvalidRequestError: a field has another form, or cannot be stored.
    """
    time = fields.get("event_time_ms")
    key = _data(fields, "key")
    return NewRecord(payload, key=key, headers=_headers(fields.get("headers")), event_time=time)


def _headers(given: object) -> list[tuple[str, bytes | None]]:
    if given is None:
        return []
    if isinstance(given, Mapping):
        given = [{"name": name, "value": value} for name, value in given.items()]
    if not isinstance(given, list):
        raise _no_headers(given)
    return [_header(each) for each in given]


def _header(given: object) -> tuple[str, bytes | None]:
    if (
        not isinstance(given, Mapping)
        or not isinstance(given.get("name"), str)
        or given.keys() - {"name", "value", "value_base64"}
    ):
        raise _no_headers(given)
    return given["name"], _data(given, "value")


def _no_headers(given: object) -> InvalidRequestError:
    return InvalidRequestError(
        f'headers {str(given)[:60]!r} must be {{"name": "text"}} or '
        '[{"name": "name", "value": "text"}], with "value_base64" for bytes'
    )


def _data(fields: Mapping[str, Any], name: str) -> bytes | None:
    """Return the bytes of a field that is text, or base64 under its other name."""
    text, packed = fields.get(name), fields.get(f"{name}_base64")
    if text is None and packed is None:
        return None
    try:
        if packed is None and isinstance(text, str):
            return text.encode()
        if text is None and isinstance(packed, str):
            return base64.b64decode(packed, validate=True)
    except (UnicodeEncodeError, binascii.Error, ValueError) as error:
        raise InvalidRequestError(f"{name} {str(text or packed)[:60]!r}: {error}") from None
    raise InvalidRequestError(
        f"{name} {str(text or packed)[:60]!r} is not text: write text, or {name}_base64"
    )


def text_field(name: str, data: bytes | None) -> dict[str, str | None]:
    """Return bytes as a field of text, or of base64 under its other name if they are not UTF-8."""
    try:
        return {name: None if data is None else data.decode()}
    except UnicodeDecodeError:
        assert data is not None
        return {f"{name}_base64": base64.b64encode(data).decode()}
