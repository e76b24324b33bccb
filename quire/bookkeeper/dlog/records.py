"""The contents of an entry of a segment: a packet of records, or bare records. Pure.

    packet   1 u8 | flags u32 (0 none, 1 LZ4) | unpacked u32 | packed u32 | data
    record   metadata i64 | transaction id i64 | size i32 | payload
    set      0x1000 | codec u32 (0 none, 1 LZ4) | count u32 | unpacked u32 | packed u32 | data
             unpacked: (size i32 | payload) × count

Metadata: bits 0–15 flags (1 control, 2 end of the log, 4 a set of records), 16–47 the position in
the segment. A set has one slot, position and sequence number for each of its records.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

import lz4.block

from quire.bookkeeper.protobuf import MalformedError

UNPACKED_BYTES_MAX: Final = 16 * 1024 * 1024
"""The most bytes that are unpacked at once: 16 times what DistributedLog's writers pack."""

_PACKET: Final = struct.Struct(">BIII")
_RECORD: Final = struct.Struct(">Qqi")
_SET: Final = struct.Struct(">IIII")
_SIZE: Final = struct.Struct(">i")
_VERSION: Final = 1
_SET_VERSION: Final = 0x1000
_CONTROL, _END, _RECORDS = 1, 2, 4
_KNOWN: Final = _CONTROL | _END | _RECORDS
_POSITION: Final = 0xFFFFFFFF
_NONE, _LZ4 = 0, 1


class Packed(NamedTuple):
    """A record in its entry."""

    slot: int
    txid: int
    position: int
    """Its number in the segment, from 1; 0 if the writer does not count."""
    payload: bytes
    is_end: bool = False
    """Whether it is the mark at the end of a log, and no record of an application."""


def decode_records(data: bytes, *, enveloped: bool) -> Iterator[Packed]:
    """Yield the records of an entry. Control records, which writers make for themselves, are left
    out; they take slots.

    Args:
        data: the payload of the entry.
        enveloped: whether it is a packet, as segments of version 4 and 5 have.

    Raises:
        MalformedError: the bytes are damaged, or have a version, codec or flag that is not known.
    """
    body = _open_packet(data) if enveloped else data
    at = slot = 0
    while at < len(body):
        if len(body) - at < _RECORD.size:
            raise MalformedError(f"{len(body) - at} bytes are left for the head of a record")
        metadata, txid, size = _RECORD.unpack_from(body, at)
        at += _RECORD.size
        payload, at = _cut(body, at, size), at + size
        flags, position = metadata & 0xFFFF, metadata >> 16
        if flags & ~_KNOWN or position > _POSITION:
            raise MalformedError(f"a record has the metadata {metadata:#018x}, which is not known")
        if flags & _CONTROL:
            slot += 1
        elif flags & _RECORDS:
            for part in _open_set(payload):
                yield Packed(slot, txid, position, part)
                slot += 1
                position += position > 0
        else:
            yield Packed(slot, txid, position, payload, bool(flags & _END))
            slot += 1


def _cut(body: bytes, at: int, size: int) -> bytes:
    if not 0 <= size <= len(body) - at:
        raise MalformedError(f"a record has {size} bytes, and {len(body) - at} are left")
    return body[at : at + size]


def _open_packet(data: bytes) -> bytes:
    if len(data) < _PACKET.size:
        raise MalformedError(f"the packet ends after {len(data)} bytes")
    version, codec, unpacked, packed = _PACKET.unpack_from(data)
    if version != _VERSION:
        raise MalformedError(f"the packet has version {version}, and {_VERSION} is known")
    return _unpack(codec, data[_PACKET.size :], unpacked, packed)


def _open_set(payload: bytes) -> Iterator[bytes]:
    if len(payload) < _SET.size:
        raise MalformedError(f"the record set ends after {len(payload)} bytes")
    metadata, count, unpacked, packed = _SET.unpack_from(payload)
    if metadata & ~3 != _SET_VERSION:
        raise MalformedError(f"the record set has the version {metadata:#x}, which is not known")
    body = _unpack(metadata & 3, payload[_SET.size :], unpacked, packed)
    at = 0
    for _ in range(count):
        if len(body) - at < _SIZE.size:
            raise MalformedError(f"a set of {count} records ends after {at} bytes")
        (size,) = _SIZE.unpack_from(body, at)
        yield _cut(body, at + _SIZE.size, size)
        at += _SIZE.size + size
    if at != len(body):
        raise MalformedError(f"{len(body) - at} bytes follow a set of {count} records")


def _unpack(codec: int, data: bytes, unpacked: int, packed: int) -> bytes:
    if packed != len(data):
        raise MalformedError(f"{packed} bytes are announced, and {len(data)} follow")
    if unpacked > UNPACKED_BYTES_MAX:
        raise MalformedError(f"{unpacked} bytes unpacked: the limit is {UNPACKED_BYTES_MAX}")
    if codec == _NONE:
        body = data
    elif codec == _LZ4:
        try:
            body = bytes(lz4.block.decompress(data, uncompressed_size=unpacked))
        except lz4.block.LZ4BlockError as error:
            raise MalformedError(f"LZ4: {error}") from error
    else:
        raise MalformedError(f"codec {codec} is not one of {_NONE} and {_LZ4}")
    if len(body) != unpacked:
        raise MalformedError(f"{len(body)} bytes unpacked, and {unpacked} are announced")
    return body


class Positions:
    """The positions of the records of a segment, which leave no number out."""

    def __init__(self, *, from_first: bool) -> None:
        """Begin with the first record of a segment, or with any."""
        self._last = 0 if from_first else None
        self._ended = False

    def take(self, record: Packed) -> None:
        """Take the next record. Raises `MalformedError` if records before it are missing, or the
        log ended.
        """
        if self._ended:
            raise MalformedError("a record follows the mark at the end of the log")
        self._ended = record.is_end
        if record.is_end:
            return
        last, self._last = self._last, record.position
        if last is None or record.position == last + 1 or record.position == last == 0:
            return
        raise MalformedError(f"record {record.position} of the segment follows record {last}")
