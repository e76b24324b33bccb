"""Bytes of the journal: segment headers, records, and the meaning of a bad record.

A segment file is a header block and then *batches*, each beginning at a multiple of `BLOCK_BYTES`;
one write and one sync make a batch durable (docs/formats.md, "Journal"). Big-endian:

    segment  | magic 8s | version u16 | number u64 | identity u64 | previous identity u64 |
             | bookie 32s | crc u32 |                                  zeros to the block's end
    record   | magic u32 | kind u8 | flags u8 | zero u16 | body bytes u32 | sequence u64 |
             | durable u64 | identity u64 | crc of body u32 | crc of all before u32 | body

Sequence numbers are contiguous over all segments. `identity` is drawn for each life of a segment
file, so the bytes of an earlier life, or of another file, never pass for a record. `durable` is the
highest sequence that was durable before this batch was written: the proof against which a bad
record is judged.

    bad record `s`, and after it a header with durable ≥ s  →  s was durable: corruption
    bad record `s`, and nothing after it that says so       →  a torn tail: never acked

A later record of the *same* torn batch proves nothing, and carries durable < s. Rot inside the very
last batch looks like a torn write; so a journal that falls idle writes a MARK, which proves the
records before it and has no content that could rot. Records acknowledged in the last moments
before a crash stay unproven; then the other copies of the entry have to do.

Batches begin at block boundaries because the kernel writes whole pages: a batch never touches a
page that holds acknowledged bytes, and costs no more input or output than if it did. The
module is pure. Not here: files (segments.py), when to write (journal.py).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from quire.errors import CorruptStorageError
from quire.storage.disk.blocks import BLOCK_BYTES, align, crc32c

SEGMENT_VERSION: Final = 1
SEGMENT_MAGIC: Final = b"quireJNL"
RECORD_MAGIC: Final = 0x71724A52
LAST_OF_BATCH: Final = 1

_SEGMENT: Final = struct.Struct(">8sHQQQQ32s")
_RECORD: Final = struct.Struct(">IBBHIQQQI")
_CRC: Final = struct.Struct(">I")
RECORD_HEADER_BYTES: Final = _RECORD.size + _CRC.size


class RecordKind(IntEnum):
    """The content of a record."""

    LEDGER = 1
    """ledger i64, key: the first key seen for a ledger. Precedes its first run."""
    RUN = 2
    """A run, as it came."""
    FENCE = 3
    """ledger i64, key: the ledger is fenced. Names the key, so it stands alone."""
    MARK = 4
    """Nothing: something to wait for, or the witness of the batch before."""


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """The identity of a segment. `identity` is a random odd number; `previous` is the identity of
    the segment before, or 0 for the first that a process made. `size` is the size of the whole file
    in bytes: it was written in full before its first record, so a shorter file was cut.
    """

    number: int
    identity: int
    previous: int
    size: int
    bookie: str
    """32 hexadecimal digits, or fewer."""


class RecordHeader(NamedTuple):
    """A record's header that passed its own check; the body is not looked at."""

    kind: int
    is_last: bool
    size: int
    sequence: int
    durable: int
    body_crc: int


class Record(NamedTuple):
    """A record that passed both checks, and where the next one would begin."""

    kind: RecordKind
    sequence: int
    body: bytes
    end: int


def encode_segment(header: SegmentHeader) -> bytes:
    """Return the header block of a segment."""
    fields = _SEGMENT.pack(
        SEGMENT_MAGIC,
        SEGMENT_VERSION,
        header.number,
        header.identity,
        header.previous,
        header.size,
        header.bookie.encode("ascii"),
    )
    return (fields + _CRC.pack(crc32c(fields))).ljust(BLOCK_BYTES, b"\0")


def decode_segment(path: str, block: bytes) -> SegmentHeader:
    """Return the identity of a segment. Raises `CorruptStorageError` naming the file."""
    if len(block) < _SEGMENT.size + _CRC.size:
        raise CorruptStorageError(path, f"{len(block)} bytes are too short for a segment")
    magic, version, number, identity, previous, size, bookie = _SEGMENT.unpack_from(block)
    if magic != SEGMENT_MAGIC:
        raise CorruptStorageError(path, "it is not a journal segment")
    if _CRC.unpack_from(block, _SEGMENT.size)[0] != crc32c(block[: _SEGMENT.size]):
        raise CorruptStorageError(path, "the segment header fails its checksum")
    if version != SEGMENT_VERSION:
        raise CorruptStorageError(path, f"segment version {version} is unknown to this program")
    return SegmentHeader(number, identity, previous, size, bookie.rstrip(b"\0").decode("ascii"))


def encode_record(
    kind: RecordKind, body: bytes, sequence: int, durable: int, identity: int, flags: int
) -> bytes:
    """Return a record's header; the body follows it in the file as it is."""
    fields = _RECORD.pack(
        RECORD_MAGIC, kind, flags, 0, len(body), sequence, durable, identity, crc32c(body)
    )
    return fields + _CRC.pack(crc32c(fields))


def read_header(data: bytes, offset: int, identity: int) -> RecordHeader | None:
    """Return the header at an offset if it is one of this life of the segment."""
    if offset + RECORD_HEADER_BYTES > len(data):
        return None
    fields = _RECORD.unpack_from(data, offset)
    if fields[0] != RECORD_MAGIC or fields[7] != identity:
        return None
    end = offset + _RECORD.size
    if _CRC.unpack_from(data, end)[0] != crc32c(data[offset:end]):
        return None
    _, kind, flags, _, size, sequence, durable, _, body_crc = fields
    return RecordHeader(kind, bool(flags & LAST_OF_BATCH), size, sequence, durable, body_crc)


def was_used(data: bytes) -> bool:
    """Whether a segment holds a record, of whichever life of the file. What a power cut left of an
    unfinished spare is none.
    """
    blocks = range(BLOCK_BYTES, len(data) - RECORD_HEADER_BYTES, BLOCK_BYTES)
    return any(read_header(data, at, _RECORD.unpack_from(data, at)[7]) for at in blocks)


def read_record(data: bytes, offset: int, identity: int, sequence: int) -> Record | None:
    """Return the record at an offset if it is whole and the one expected."""
    header = read_header(data, offset, identity)
    if header is None or header.sequence != sequence:
        return None
    start = offset + RECORD_HEADER_BYTES
    end = start + header.size
    body = data[start:end]
    if len(body) != header.size or crc32c(body) != header.body_crc:
        return None
    return Record(RecordKind(header.kind), sequence, body, align(end) if header.is_last else end)


def read_records(
    data: bytes, offset: int, identity: int, sequence: int
) -> tuple[list[Record], int]:
    """Return the contiguous records from an offset on, and the offset where they stop."""
    records: list[Record] = []
    while (record := read_record(data, offset, identity, sequence)) is not None:
        records.append(record)
        offset, sequence = record.end, sequence + 1
    return records, offset


def find_proof(data: bytes, offset: int, identity: int, sequence: int) -> int | None:
    """Return where a batch begins, from an offset on, that knew `sequence` to be durable."""
    for at in range(align(offset), len(data), BLOCK_BYTES):
        header = read_header(data, at, identity)
        if header is not None and header.durable >= sequence:
            return at
    return None
