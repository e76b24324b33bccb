"""The state of a stream, beside its bytes. Pure.

The last record of each append carries the state in a header. So one read of the log's last record
finds it, an append and its closing are one entry, and a log needs no record in another place.
Records without payload are not part of the stream: they only carry the state.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, NamedTuple

from quire.errors import InvalidRequestError
from quire.log.records.position import Record

STATE: Final = "quire-stream"
"""The name of the header."""

OFFSET_DIGITS: Final = 19
_OFFSET: Final = re.compile(rf"[0-9]{{{OFFSET_DIGITS}}}")
BEGINNING, NOW = "-1", "now"
"""Offsets with a meaning of their own."""


class Closer(NamedTuple):
    """The append of a producer that closed a stream."""

    producer: str
    epoch: int
    sequence: int


@dataclass(frozen=True, slots=True)
class StreamState:
    """The state of a stream after an append."""

    content_type: str
    ttl: int | None = None
    """Seconds without a read or an append after which the stream is gone."""
    expires: str | None = None
    """When it is gone, as RFC 3339 has it."""
    is_closed: bool = False
    sequence: str | None = None
    """The last `Stream-Seq`."""
    closer: Closer | None = None
    id: str = ""
    """Of this stream, and of none that was at the same URL before."""

    @property
    def is_json(self) -> bool:
        """Whether the stream has JSON values, each with its bounds."""
        return media_type(self.content_type) == "application/json"

    @property
    def is_text(self) -> bool:
        """Whether events carry its bytes as they are."""
        return self.is_json or media_type(self.content_type).startswith("text/")

    def is_created_by(self, other: StreamState) -> bool:
        """Whether a request to create the other stream finds this one to be the same."""
        mine = media_type(self.content_type), self.ttl, self.expires, self.is_closed
        return mine == (
            *(media_type(other.content_type), other.ttl, other.expires),
            other.is_closed,
        )

    def has_times_of(self, other: StreamState) -> bool:
        """Whether both are states of one stream, with the same end in time."""
        return (self.id, self.ttl, self.expires) == (other.id, other.ttl, other.expires)

    def closed_by(self, closer: Closer | None) -> StreamState:
        """Return the state of the stream when it is closed."""
        return replace(self, is_closed=True, closer=closer)

    def encode(self) -> bytes:
        """Return the value of the header."""
        fields: dict[str, Any] = {
            "type": self.content_type,
            "ttl": self.ttl,
            "expires": self.expires,
            "closed": self.is_closed or None,
            "seq": self.sequence,
            "closer": self.closer,
            "id": self.id,
        }
        given = {name: value for name, value in fields.items() if value is not None}
        return json.dumps(given, separators=(",", ":")).encode()


def decode_state(record: Record) -> StreamState | None:
    """Return the state that a record carries, None if it has none.

    Raises `InvalidRequestError` for a header that no gateway wrote.
    """
    value = next((value for name, value in record.headers if name == STATE), None)
    if value is None:
        return None
    try:
        fields = json.loads(value)
        closer = fields.get("closer")
        state = StreamState(
            fields["type"],
            fields.get("ttl"),
            fields.get("expires"),
            fields.get("closed", False),
            fields.get("seq"),
            None if closer is None else Closer(*closer),
            fields.get("id", ""),
        )
        _check(state)
        return state
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidRequestError(
            f"header {STATE} of record {record.offset} is not the state of a stream: {error}"
        ) from None


def _check(state: StreamState) -> None:
    """Raise `TypeError` or `ValueError` for a value of another type: any client writes headers."""
    given: list[tuple[object, type]] = [
        (state.content_type, str),
        (state.ttl or 0, int),
        (state.is_closed, bool),
        (state.sequence or "", str),
        (state.id, str),
    ]
    if not all(type(value) is kind for value, kind in given):
        raise TypeError("a value has another type")
    if state.closer is not None and tuple(map(type, state.closer)) != (str, int, int):
        raise TypeError("the closer is not a producer with two numbers")
    if state.expires is not None:
        datetime.fromisoformat(state.expires).timestamp()


def media_type(content_type: str) -> str:
    """Return a content type without its parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def offset_text(offset: int) -> str:
    """Return how clients are told an offset: texts are ordered as offsets are."""
    return f"{offset:0{OFFSET_DIGITS}d}"


def parse_offset(text: str) -> int | None:
    """Return the offset that a client gives, None for `BEGINNING`. Raises `InvalidRequestError`."""
    if text == BEGINNING:
        return None
    if not _OFFSET.fullmatch(text) or int(text) >= 2**63:
        raise InvalidRequestError(
            f"offset {text!r} is not of this stream: give a Stream-Next-Offset, {BEGINNING} or "
            f"{NOW}"
        )
    return int(text)


def is_over(state: StreamState, now: float, idle: float) -> bool:
    """Return whether the time of a stream is over.

    `now` is in Unix seconds. `idle` is for how many seconds it was seen without a use, by one
    process: no age is a difference of two clocks (decision 22).
    """
    if state.expires is not None:
        return datetime.fromisoformat(state.expires).timestamp() <= now
    return state.ttl is not None and idle >= state.ttl
