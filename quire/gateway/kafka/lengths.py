"""Lengths in a request, held against its bytes before the request is decoded. Pure.

`kio` makes room for a list before it reads the first element. A request of 40 bytes that announces
2³¹ elements would have it ask for more memory than there is, which ends the process. So each list
is walked first: every element takes a byte at least. Elements are counted, too: an object for each
of millions, made in one step, would keep all other clients waiting.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Hashable
from functools import cache, partial
from types import NoneType
from typing import Any, Final, TypeAlias, cast

from quire.errors import InvalidRequestError

_SIZES: Final = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "timedelta_i32": 4,
    "timedelta_i64": 8,
    "uuid": 16,
}
"""Bytes of the kinds of values that always have as many."""

_STRING_BYTES, _LIST_BYTES = 2, 4
"""Bytes of a length, in versions without compact ones."""

ELEMENTS_MAX: Final = 100_000
"""Elements of all lists in a request, and its tagged fields: `kio` takes about 0.1 s of the
processor for as many. A consumer of a thousand topics names two thousand.
"""


class _Walked:
    """A message that is walked, and the elements that it may still have."""

    __slots__ = ("data", "left")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.left = ELEMENTS_MAX


_Step: TypeAlias = Callable[[_Walked, int], int]
"""Returns where the next value begins."""


def check_lengths(schema: type[Any], message: bytes, begin: int) -> None:
    """Raise `InvalidRequestError` if a list or text in a message is longer than the message, or its
    lists have more than `ELEMENTS_MAX` elements together.

    Args:
        schema: the schema of the message.
        message: its bytes, perhaps after others.
        begin: where it begins in them.
    """
    _of_schema(cast(Hashable, schema))(_Walked(message), begin)


@cache
def _of_schema(schema: Any) -> _Step:
    hints = typing.get_type_hints(schema)
    steps = [
        _of_field(hints[field.name], field.metadata.get("kafka_type"), schema.__flexible__)
        for field in dataclasses.fields(schema)
        if "tag" not in field.metadata
    ]
    if schema.__flexible__:
        steps.append(_tagged)
    return partial(_all, steps)


def _of_field(hint: Any, kind: str | None, is_compact: bool) -> _Step:
    is_nullable = NoneType in typing.get_args(hint)
    if is_nullable:
        (hint,) = (each for each in typing.get_args(hint) if each is not NoneType)
    if typing.get_origin(hint) is tuple:
        element = _of_field(typing.get_args(hint)[0], kind, is_compact)
        return partial(_list, element, is_nullable, is_compact)
    if dataclasses.is_dataclass(hint):
        return _of_schema(cast(Hashable, hint))
    if kind in ("string", "bytes", "records"):
        width = _STRING_BYTES if kind == "string" else _LIST_BYTES
        return partial(_text, 0 if is_compact else width)
    assert kind is not None, "a value has a kind"
    return partial(_fixed, _SIZES[kind])


def _all(steps: list[_Step], message: _Walked, at: int) -> int:
    for step in steps:
        at = step(message, at)
    return at


def _fixed(size: int, message: _Walked, at: int) -> int:
    return _within(message, at + size)


def _text(width: int, message: _Walked, at: int) -> int:
    length, at = _length(width, message, at)
    return _within(message, at + max(0, length))


def _list(element: _Step, is_nullable: bool, is_compact: bool, message: _Walked, at: int) -> int:
    length, at = _length(0 if is_compact else _LIST_BYTES, message, at)
    if length < 0 and not (is_nullable and length == -1):
        raise InvalidRequestError(f"a list of {length} elements: 0 or more are taken")
    _within(message, at + max(0, length))
    _count(message, max(0, length))
    for _ in range(length):
        at = element(message, at)
    return at


def _count(message: _Walked, elements: int) -> None:
    message.left -= elements
    if message.left < 0:
        raise InvalidRequestError(f"a request has more than {ELEMENTS_MAX} elements: send several")


def _tagged(message: _Walked, at: int) -> int:
    number, at = _varint(message, at)
    _count(message, number)
    for _ in range(number):
        _, at = _varint(message, at)
        size, at = _varint(message, at)
        at = _within(message, at + size)
    return at


def _length(width: int, message: _Walked, at: int) -> tuple[int, int]:
    """Return a length, −1 for a value that is null, and where the value begins."""
    if not width:
        found, at = _varint(message, at)
        return found - 1, at
    end = _within(message, at + width)
    return int.from_bytes(message.data[at:end], signed=True), end


def _varint(message: _Walked, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        end = _within(message, at + 1)
        number |= (message.data[at] & 0x7F) << shift
        if message.data[at] < 0x80:
            return number, end
        at, shift = end, shift + 7
        if shift > 28:
            raise InvalidRequestError("a length has more than 5 bytes")


def _within(message: _Walked, at: int) -> int:
    if at > len(message.data):
        raise InvalidRequestError(f"a request of {len(message.data)} bytes announces {at}")
    return at
