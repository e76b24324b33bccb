"""The few messages of etcd's API that a log needs, in the encoding of Protocol Buffers.

Numbers of fields are those in `rpc.proto` and `kv.proto` of etcd 3.4.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from quire.wire.varint import read_varint, varint

PUT: Final = "/etcdserverpb.KV/Put"
RANGE: Final = "/etcdserverpb.KV/Range"
STATUS: Final = "/etcdserverpb.Maintenance/Status"

VARINT: Final = 0
DELIMITED: Final = 2


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Return numbers and values of the fields of a message.

    Raises:
        ValueError: A field has another type than a varint or bytes.
    """
    place = 0
    while place < len(message):
        tag, place = read_varint(message, place)
        value, place = read_varint(message, place)
        match tag & 7:
            case 0:
                yield tag >> 3, value
            case 2:
                yield tag >> 3, message[place : place + value]
                place += value
            case other:
                raise ValueError(f"field {tag >> 3} has type {other}; expected 0 or 2")


def _delimited(number: int, value: bytes) -> bytes:
    return varint(number << 3 | DELIMITED) + varint(len(value)) + value


def put_request(key: bytes, value: bytes) -> bytes:
    """Return a PutRequest."""
    return _delimited(1, key) + _delimited(2, value)


def range_request(first: bytes, end: bytes, limit: int) -> bytes:
    """Return a RangeRequest of keys from `first` and below `end`, in order."""
    bounds = _delimited(1, first) + _delimited(2, end)
    return bounds + varint(3 << 3 | VARINT) + varint(limit)


class Pair(NamedTuple):
    """A key with its value."""

    key: bytes
    value: bytes


def pairs(range_response: bytes) -> list[Pair]:
    """Return the keys and values of a RangeResponse. Raises `ValueError`."""
    return [
        _pair(dict(fields(value)))
        for number, value in fields(range_response)
        if number == 2 and isinstance(value, bytes)
    ]


def _pair(found: dict[int, int | bytes]) -> Pair:
    key, value = found[1], found.get(5, b"")
    if isinstance(key, int) or isinstance(value, int):
        raise ValueError("a key or a value is a number; expected bytes")
    return Pair(key, value)


def is_leader(status_response: bytes) -> bool:
    """Whether the server that answered leads. Raises `ValueError`."""
    found = dict(fields(status_response))
    header = found.get(1, b"")
    if isinstance(header, int):
        raise ValueError("a header is a number; expected bytes")
    leader = found.get(4, 0)
    return leader != 0 and dict(fields(header)).get(2) == leader
