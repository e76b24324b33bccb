"""How large a compressed batch is, without unpacking more than a limit. Pure.

A kilobyte may unpack to a gigabyte, and Kafka's libraries unpack a batch whole.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from typing import Any, Final

import lz4.frame
import zstandard

from quire.errors import InvalidRequestError

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
"""Kafka's numbers of compressions."""

REQUEST_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes that all batches of a request unpack to: four of the largest batches."""

REQUEST_RECORDS_MAX: Final = 100_000
"""Records of all batches of a request. A megabyte of records of 20 bytes has 40,000."""

_GZIP_BITS: Final = 16 + zlib.MAX_WBITS
_XERIAL: Final = b"\x82SNAPPY\x00"
_XERIAL_BYTES: Final = 16


class Allowance:
    """What the batches of one request may come to, all of them together: they are unpacked in one
    step each, and kept until they are appended.
    """

    def __init__(self) -> None:
        self._bytes = REQUEST_BYTES_MAX
        self._records = REQUEST_RECORDS_MAX

    def take(self, size: int, records: int) -> None:
        """Count a batch. Raises `InvalidRequestError` if it is too much with those before."""
        self._bytes -= size
        self._records -= records
        if self._bytes < 0 or self._records < 0:
            raise InvalidRequestError(
                f"the batches of a request unpack to more than {REQUEST_BYTES_MAX} bytes or "
                f"{REQUEST_RECORDS_MAX} records: send several requests"
            )


def check_size(compression: int, data: bytes, most: int) -> int:
    """Return the size that data unpacks to. Raise `InvalidRequestError` for more than `most` bytes.

    `compression` is Kafka's number; another number than the four is not looked at. Data that is
    damaged may pass, or raise errors of its library.
    """
    size = _SIZES.get(compression, _same)(data, most)
    if size > most:
        raise InvalidRequestError(
            f"a batch of {len(data)} bytes unpacks to more than {most}: send smaller batches"
        )
    return size


def _same(data: bytes, _: int) -> int:
    return len(data)


def _in_pieces(make: Callable[[], Any]) -> Callable[[bytes, int], int]:
    """Return the size of streams that follow each other, each unpacked as far as the limit."""

    def size(data: bytes, most: int) -> int:
        total = 0
        while data and total <= most:
            stream = make()
            total += len(stream.decompress(data, most - total + 1))
            data = stream.unused_data or b""
        return total

    return size


def _zstd(data: bytes, most: int) -> int:
    reader = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data), read_across_frames=True)
    return len(reader.read(most + 1))


def _snappy(data: bytes, most: int) -> int:
    if not data.startswith(_XERIAL):
        return _varint(data)
    total, at = 0, _XERIAL_BYTES
    while at < len(data) and total <= most:
        size = int.from_bytes(data[at : at + 4])
        total += _varint(data[at + 4 : at + 9])
        at += 4 + size
    return total


def _varint(data: bytes) -> int:
    """Return the length that a block of Snappy begins with."""
    found = 0
    for place, byte in enumerate(data[:5]):
        found |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            break
    return found


_SIZES: Final[dict[int, Callable[[bytes, int], int]]] = {
    GZIP: _in_pieces(lambda: zlib.decompressobj(_GZIP_BITS)),
    SNAPPY: _snappy,
    LZ4: _in_pieces(lz4.frame.LZ4FrameDecompressor),
    ZSTD: _zstd,
}
