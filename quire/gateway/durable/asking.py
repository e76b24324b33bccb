"""Headers and queries of requests to a stream. Pure.

Every function raises `InvalidRequestError` for a value that the protocol does not allow.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final, NamedTuple

from quire.errors import InvalidRequestError
from quire.gateway.durable.state import StreamState

CLOSED: Final = "stream-closed"
TTL: Final = "stream-ttl"
EXPIRES: Final = "stream-expires-at"
SEQUENCE: Final = "stream-seq"
FORKED: Final = "stream-forked-from"

DEFAULT_TYPE: Final = "application/octet-stream"

TTL_MAX: Final = 2**53 - 1
_TYPE: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+/[!#$%&'*+.^_`|~0-9A-Za-z-]+ *(;.*)?")
_NUMBER: Final = re.compile(r"0|[1-9][0-9]*")
_TIME: Final = re.compile(
    r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)
_PRODUCER: Final = ("producer-id", "producer-epoch", "producer-seq")


class Sender(NamedTuple):
    """An idempotent producer, and the number of its append."""

    producer: str
    epoch: int
    sequence: int


def is_closing(headers: Mapping[str, str]) -> bool:
    """Return whether a request closes its stream."""
    return headers.get(CLOSED, "").lower() == "true"


def content_type_of(headers: Mapping[str, str]) -> str | None:
    """Return the content type of a request, None if it has none."""
    given = headers.get("content-type", "").strip()
    if not given:
        return None
    if not _TYPE.fullmatch(given):
        raise InvalidRequestError(f"Content-Type {given!r} is not a media type such as text/plain")
    return given


def wanted(headers: Mapping[str, str]) -> StreamState:
    """Return the stream that a request to create one asks for."""
    ttl, expires = headers.get(TTL), headers.get(EXPIRES)
    if ttl is not None and expires is not None:
        raise InvalidRequestError("give Stream-TTL or Stream-Expires-At, not both")
    return StreamState(
        content_type_of(headers) or DEFAULT_TYPE,
        None if ttl is None else number(ttl, "Stream-TTL", TTL_MAX),
        None if expires is None else _time(expires),
        is_closing(headers),
    )


def _time(text: str) -> str:
    try:
        if not _TIME.fullmatch(text):
            raise ValueError("no RFC 3339")
        datetime.fromisoformat(text.upper())
    except ValueError:
        raise InvalidRequestError(
            f"Stream-Expires-At {text!r} is not a time such as 2030-01-01T00:00:00Z"
        ) from None
    return text.upper()


def number(text: str, name: str, most: int) -> int:
    """Return a whole number of a header."""
    if not _NUMBER.fullmatch(text) or len(text) > 20 or int(text) > most:
        raise InvalidRequestError(f"{name} {text!r} is not a whole number of at most {most}")
    return int(text)


def sender_of(headers: Mapping[str, str], epoch_max: int, sequence_max: int) -> Sender | None:
    """Return the producer of an append, None if it has none."""
    given = [headers.get(name) for name in _PRODUCER]
    if given == [None, None, None]:
        return None
    producer, epoch, sequence = given
    if producer is None or epoch is None or sequence is None:
        raise InvalidRequestError("give Producer-Id, Producer-Epoch and Producer-Seq, or none")
    if not producer:
        raise InvalidRequestError("Producer-Id is empty")
    return Sender(
        producer,
        number(epoch, "Producer-Epoch", epoch_max),
        number(sequence, "Producer-Seq", sequence_max),
    )
