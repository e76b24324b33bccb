"""Protobuf messages as fields: written and read without generated code.

Apache BookKeeper's messages have few fields, and a writer sends one message for every entry: what
generated classes do for each of them would cost more than the entry. Numbers are 64 bits, negative
ones as two's complement in ten bytes. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from quire.wire.varint import read_varint, varint

Value: TypeAlias = int | bytes | str
Field: TypeAlias = tuple[int, Value | None]
"""A field's number and value; a field without value (None) is left out."""

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
FIXED32: Final = 5

_BITS: Final = 64
_MASK: Final = 2**_BITS - 1
_POSITIVE: Final = 2 ** (_BITS - 1) - 1
_ONE_BYTE: Final = 0x7F
"""The largest number of one byte."""


class FixedNumber(int):
    """A number of four or eight bytes, in a field of a later release. It is written as it was read:
    a reader that knows the field takes no other encoding.
    """

    __slots__ = ()
    kind = FIXED32
    size = 4


class LongFixedNumber(FixedNumber):
    """One of eight bytes."""

    __slots__ = ()
    kind = FIXED64
    size = 8


_FIXED: Final = {each.kind: each for each in (FixedNumber, LongFixedNumber)}


class MalformedError(ValueError):
    """Bytes that do not make a message, or lack a field that a message must have."""


def number(value: int) -> bytes:
    """Return a number, negative ones in ten bytes."""
    return varint(value & _MASK)


def field(key: int, value: Value) -> bytes:
    """Return one field."""
    if isinstance(value, int):
        if isinstance(value, FixedNumber):
            return varint(key << 3 | value.kind) + value.to_bytes(value.size, "little")
        return varint(key << 3 | VARINT) + number(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(key << 3 | BYTES) + varint(len(data)) + data


def encode(fields: Iterable[Field]) -> bytes:
    """Return a message with its fields in the order given."""
    return b"".join(field(key, value) for key, value in fields if value is not None)


class Message:
    """The fields of a message by number. Raises `MalformedError` for other bytes, and for more
    than `values_max` values.
    """

    __slots__ = ("_fields",)

    def __init__(self, data: bytes | memoryview, values_max: int = _MASK) -> None:
        self._fields = _fields(bytes(data), values_max)

    @classmethod
    def of(cls, fields: dict[int, list[int | bytes]]) -> Message:
        """Return a message whose fields were read by another function."""
        made = cls.__new__(cls)
        made._fields = fields
        return made

    def has(self, key: int) -> bool:
        """Whether a field occurs."""
        return key in self._fields

    def numbers(self, key: int) -> Sequence[int]:
        """Return all values of a field as signed numbers."""
        return [_signed(key, value) for value in self._fields.get(key, ())]

    def parts(self, key: int) -> Sequence[bytes]:
        """Return all values of a field as bytes."""
        return [_bytes(key, value) for value in self._fields.get(key, ())]

    def number(self, key: int, otherwise: int | None = None) -> int:
        """Return the last value of a field. Raises `MalformedError` if the message lacks it and
        nothing is given for that.
        """
        if key in self._fields:
            return _signed(key, self._fields[key][-1])
        if otherwise is None:
            raise MalformedError(f"field {key} is missing")
        return otherwise

    def data(self, key: int, otherwise: bytes | None = None) -> bytes:
        """Return the last value of a field of bytes. Raises as `number`."""
        if key in self._fields:
            return _bytes(key, self._fields[key][-1])
        if otherwise is None:
            raise MalformedError(f"field {key} is missing")
        return otherwise

    def text(self, key: int, otherwise: str | None = None) -> str:
        """Return the last value of a field of text. Raises as `number`."""
        found = self.data(key, None if otherwise is None else otherwise.encode())
        return as_text(key, found)

    def unknown(self, known: Iterable[int]) -> bytes:
        """Return the fields that are not known, to be written back as they were."""
        others = self._fields.keys() - set(known)
        return encode((key, value) for key in sorted(others) for value in self._fields[key])


def as_text(key: int, value: bytes) -> str:
    """Return a field's text. Raises `MalformedError`."""
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise MalformedError(f"field {key} is not UTF-8") from error


def _fields(data: bytes, values_max: int) -> dict[int, list[int | bytes]]:
    """Return the values of a message's fields. Numbers of one byte, nearly all, are read here."""
    found: dict[int, list[int | bytes]] = {}
    at, end, left = 0, len(data), values_max
    try:
        while at < end:
            left -= 1
            if left < 0:
                raise MalformedError(f"a message of {end} bytes has more than {values_max} values")
            tag = data[at]
            at += 1
            if tag > _ONE_BYTE:
                tag, at = read_varint(data, at - 1)
            key, kind = tag >> 3, tag & 7
            if not key:
                raise MalformedError(f"a field without number at byte {at} of {end}")
            value: int | bytes
            if kind == VARINT:
                value = data[at]
                at += 1
                if value > _ONE_BYTE:
                    value, at = read_varint(data, at - 1)
            else:
                size, at = _size(data, at, kind)
                if at + size > end:
                    raise MalformedError(f"field {key} ends after the message of {end} bytes")
                value = data[at : at + size]
                if kind != BYTES:
                    value = _FIXED[kind].from_bytes(value, "little")
                at += size
            if key in found:
                found[key].append(value)
            else:
                found[key] = [value]
    except IndexError as error:
        raise MalformedError(f"the message of {end} bytes ends inside a number") from error
    return found


def _size(data: bytes, at: int, kind: int) -> tuple[int, int]:
    if kind == BYTES:
        return read_varint(data, at)
    if kind == FIXED64:
        return 8, at
    if kind == FIXED32:
        return 4, at
    raise MalformedError(f"wire type {kind} at byte {at}")


def _signed(key: int, value: int | bytes) -> int:
    if not isinstance(value, int):
        raise MalformedError(f"field {key} is not a number")
    value &= _MASK
    return value if value <= _POSITIVE else value - 2**_BITS


def _bytes(key: int, value: int | bytes) -> bytes:
    if not isinstance(value, bytes):
        raise MalformedError(f"field {key} is a number")
    return value
