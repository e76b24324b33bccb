"""Protobuf's variable-length numbers, for messages that are put together by hand."""

from __future__ import annotations

from typing import Final

_SHORT: Final = [bytes((number,)) for number in range(0x80)]
_LOW: Final = [bytes((number | 0x80,)) for number in range(0x80)]


def varint(number: int) -> bytes:
    """Return a number that is not negative, seven bits a byte, the low ones first."""
    # One number in each message of an entry: up to four bytes without a loop.
    if number < 0x80:
        return _SHORT[number]
    if number < 0x4000:
        return bytes((number & 0x7F | 0x80, number >> 7))
    if number < 0x200000:
        return bytes((number & 0x7F | 0x80, number >> 7 & 0x7F | 0x80, number >> 14))
    if number < 0x10000000:
        return bytes(
            (
                number & 0x7F | 0x80,
                number >> 7 & 0x7F | 0x80,
                number >> 14 & 0x7F | 0x80,
                number >> 21,
            )
        )
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)


def varints(first: int, count: int) -> list[bytes]:
    """Return consecutive numbers from `first` on, each as `varint`; they share their high bytes."""
    found: list[bytes] = []
    at, end = first, first + count
    while at < end:
        low, high = at & 0x7F, at >> 7
        stop = min(end, (high + 1) << 7)
        if high:
            rest = varint(high)
            found += [each + rest for each in _LOW[low : low + stop - at]]
        else:
            found += _SHORT[at:stop]
        at = stop
    return found


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number that begins at an offset, and where it ends.

    Raises `IndexError` when the data end inside it, or it has more than 64 bits.
    """
    if at > len(data):  # an index of more than 64 bits is another error, once this is compiled
        raise IndexError(f"offset {at} exceeds the length")
    number = shift = 0
    while (group := data[at]) > 0x7F:
        if shift >= 63:
            raise IndexError("a number of more than ten bytes")
        number |= (group & 0x7F) << shift
        shift += 7
        at += 1
    return number | group << shift, at + 1
