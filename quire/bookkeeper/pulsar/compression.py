"""The codecs of Pulsar: of payloads, and of lists of ledgers. Pure.

The size of the unpacked bytes is known before, so nothing is unpacked beyond it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Final

import lz4.block
import zstandard

from quire.bookkeeper.protobuf import MalformedError
from quire.extras import needed_for

UNPACKED_BYTES_MAX: Final = 128 * 1024 * 1024
"""The most bytes that are unpacked: some 25 times the 5 MiB that a broker takes by default."""

NONE: Final = 0


def unpack(codec: int, data: bytes, size: int) -> bytes:
    """Return unpacked bytes.

    Raises `MalformedError` for an unknown codec, damaged bytes, another size, and a size above
    `UNPACKED_BYTES_MAX`; `MissingExtraError` for Snappy without its package.
    """
    if codec == NONE:
        return data
    if not 0 <= size <= UNPACKED_BYTES_MAX:
        raise MalformedError(f"{size} bytes unpacked: the limit is {UNPACKED_BYTES_MAX}")
    if codec not in _CODECS:
        raise MalformedError(f"codec {codec} is not one of 0 to {max(_CODECS)}")
    unpacked = _CODECS[codec](data, size)
    if len(unpacked) != size:
        raise MalformedError(f"{len(unpacked)} bytes unpacked, and {size} are announced")
    return unpacked


def _lz4(data: bytes, size: int) -> bytes:
    try:
        return bytes(lz4.block.decompress(data, uncompressed_size=size))
    except lz4.block.LZ4BlockError as error:
        raise MalformedError(f"LZ4: {error}") from error


def _zlib(data: bytes, size: int) -> bytes:
    unpacker = zlib.decompressobj()
    try:
        return unpacker.decompress(data, size + 1)
    except zlib.error as error:
        raise MalformedError(f"ZLIB: {error}") from error


def _zstd(data: bytes, size: int) -> bytes:
    try:
        with zstandard.ZstdDecompressor().stream_reader(data) as unpacker:
            return bytes(unpacker.read(size + 1))
    except zstandard.ZstdError as error:
        raise MalformedError(f"ZSTD: {error}") from error


def _snappy(data: bytes, size: int) -> bytes:
    with needed_for("Pulsar's Snappy", "pulsar"):
        import cramjam
    try:
        announced = cramjam.snappy.decompress_raw_len(data)
        if announced != size:
            raise MalformedError(f"{announced} bytes unpacked, and {size} are announced")
        return bytes(cramjam.snappy.decompress_raw(data))
    except cramjam.DecompressionError as error:
        raise MalformedError(f"Snappy: {error}") from error


_CODECS: Final[dict[int, Callable[[bytes, int], bytes]]] = {
    1: _lz4,
    2: _zlib,
    3: _zstd,
    4: _snappy,
}
