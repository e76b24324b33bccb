"""Batches: how records share an entry.

An entry's payload is one batch (docs/formats.md, "Batch"), header big-endian:

    | magic "qb" | version u8 | codec u8 | count u32 | body size u32 |
    | first offset i64 | epoch i64 | timestamp ms i64 | body, as the codec packs it |

    body = | length u32, little-endian, per record | payload of the first record | of the second | …

Version 2 has optional columns (producers.py, txids.py, attributes.py) between lengths and payloads,
little-endian:

    | size of all u32 | kind u8, size u32, data | … |

A batch without them is written as version 1. Readers skip unknown kinds.

The body is columns: one call unpacks the lengths, their running sum is the offsets buffer of an
Arrow binary array, and the payloads are its data buffer. No work is done per record until a caller
asks for records. `body size` is the unpacked size. A batch with a body that does not add up is
rejected as a whole: the frame's digest was right, so the writer wrote an invalid batch.

Pure: no clock and no I/O.
"""

from __future__ import annotations

import struct
import threading
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

import lz4.block
import zstandard

from quire.entry import ENTRY_BYTES_MAX, EntryId, LedgerId
from quire.errors import CorruptEntryError, EntryTooLargeError
from quire.log.records.attributes import NO_COLUMNS, AttributeColumns, decode_attributes
from quire.log.records.producers import decode_columns
from quire.log.records.txids import (
    NO_TXID,
    TXIDS,
    Txids,
    decode_txids,
    last_of,
    of_slots,
)

MAGIC: Final = b"qb"
VERSION: Final = 1
COLUMNS_VERSION: Final = 2
ENCRYPTED_VERSION: Final = 3
"""Made and opened elsewhere (encryption.py); the header is the same."""
_COLUMNS_SIZE: Final = struct.Struct("<I")
HEADER: Final = struct.Struct(">2sBBIIqqq")

BATCH_BYTES_MAX: Final = ENTRY_BYTES_MAX - HEADER.size
"""Largest body of a batch, unpacked: also what keeps a hostile header from asking for memory."""


class Compression(StrEnum):
    """How the body of a batch is packed."""

    NONE = "none"
    LZ4 = "lz4"
    ZSTD = "zstd"


_CODES: Final = {Compression.NONE: 0, Compression.LZ4: 1, Compression.ZSTD: 2}
_KINDS: Final = {code: kind for kind, code in _CODES.items()}


class _Zstd(threading.local):
    """The codec of one thread. Its objects mix up the bytes of threads that share them, without an
    error, and offloading unpacks in threads.
    """

    def __init__(self) -> None:
        self.pack = zstandard.ZstdCompressor(level=3, write_checksum=False).compress
        self.unpack = zstandard.ZstdDecompressor().decompress


_zstd: Final = _Zstd()


def _lz4_pack(body: bytes) -> bytes:
    packed: bytes = lz4.block.compress(body, store_size=False)
    return packed


def _lz4_unpack(packed: memoryview, size: int) -> bytes:
    body: bytes = lz4.block.decompress(packed, uncompressed_size=size)
    return body


def _zstd_pack(body: bytes) -> bytes:
    return _zstd.pack(body)


def _zstd_unpack(packed: memoryview, size: int) -> bytes:
    return _zstd.unpack(packed, max_output_size=size)


_PACK: Final[dict[Compression, Callable[[bytes], bytes]]] = {
    Compression.LZ4: _lz4_pack,
    Compression.ZSTD: _zstd_pack,
}
_UNPACK: Final[dict[Compression, Callable[[memoryview, int], bytes]]] = {
    Compression.LZ4: _lz4_unpack,
    Compression.ZSTD: _zstd_unpack,
}


@dataclass(frozen=True, slots=True)
class BatchHeader:
    """The decoded header of a batch."""

    compression: Compression
    count: int
    body_size: int
    first_offset: int
    epoch: int
    timestamp_ms: int

    @property
    def next_offset(self) -> int:
        """Offset of the first record after this batch."""
        return self.first_offset + self.count


class Base(NamedTuple):
    """The place in the log of a ledger that was written outside it.

    The writer of that ledger could not know its place: its batches count from offset 0, in epoch 1,
    at time 0.
    """

    first_offset: int
    epoch: int
    timestamp_ms: int
    txid: int = NO_TXID


UNPLACED: Final = Base(0, 1, 0)
"""The base that the headers of a ledger count from until a log ingests it."""


def place_header(header: BatchHeader, base: Base | None) -> BatchHeader:
    """Return a header as it is in the log; without a base it is that already."""
    if base is None:
        return header
    return replace(
        header,
        first_offset=base.first_offset + header.first_offset,
        epoch=base.epoch,
        timestamp_ms=base.timestamp_ms,
    )


@dataclass(frozen=True, slots=True)
class Batch:
    """A decoded batch: its header and its columns. At least one record."""

    header: BatchHeader
    source: bytes
    """Bytes that end with the unpacked body. For an uncompressed batch this is the entry itself."""
    columns: bytes = b""
    """The optional columns, undecoded."""
    txids: Txids = ()
    """Ids of the records: none, one for all of them, or one each."""
    attributes: AttributeColumns = NO_COLUMNS
    """Keys, headers and event times of the records."""

    def __len__(self) -> int:
        return self.header.count

    def payloads(self) -> list[bytes]:
        """Return the payloads.

        Returns:
            The bytes of each record, in order.
        """
        source = self.source
        ends = accumulate(self.lengths, initial=self._body_start + self._data_start)
        return [source[start:end] for start, end in pairwise(ends)]

    @property
    def last_txid(self) -> int:
        """The last record's txid, `NO_TXID` when it has none."""
        return last_of(self.txids)

    def txids_of(self, slots: range) -> list[int | None]:
        """Return the txids of some records.

        Args:
            slots: the records' places in the batch.

        Returns:
            The txid of each slot; None for a record without one.
        """
        return of_slots(self.txids, slots)

    def arrow_buffers(self) -> tuple[array[int], memoryview]:
        """Return an Arrow binary array of the payloads, without copying them.

        Returns:
            Its offsets (int32, one more than records) and its data.
        """
        return array("i", accumulate(self.lengths, initial=0)), self.data

    @property
    def data(self) -> memoryview:
        """All payloads, concatenated."""
        return self.body[self._data_start :]

    @property
    def lengths(self) -> tuple[int, ...]:
        """The records' lengths. Bulk work takes them from the body instead, as they stand."""
        return struct.unpack_from(f"<{self.header.count}I", self.source, self._body_start)

    @property
    def body(self) -> memoryview:
        """The unpacked body: lengths, columns, payloads."""
        return memoryview(self.source)[self._body_start :]

    @property
    def _body_start(self) -> int:
        return len(self.source) - self.header.body_size

    @property
    def _data_start(self) -> int:
        if not self.columns:
            return 4 * self.header.count
        return 4 * self.header.count + _COLUMNS_SIZE.size + len(self.columns)


def body_size(records: Sequence[bytes]) -> int:
    """Bytes of the body of a batch of these records."""
    return 4 * len(records) + sum(map(len, records))


def encode_batch(
    records: Sequence[bytes],
    *,
    first_offset: int,
    epoch: int,
    timestamp_ms: int,
    compression: Compression = Compression.NONE,
    columns: bytes = b"",
) -> bytes:
    """Return the entry payload of one or more records, with optional columns.

    A body that does not shrink is stored uncompressed. Raises `EntryTooLargeError` when the
    unpacked body exceeds `BATCH_BYTES_MAX`.
    """
    count = len(records)
    assert count > 0, "a batch has at least one record"
    lengths = struct.pack(f"<{count}I", *map(len, records))
    version = COLUMNS_VERSION if columns else VERSION
    extra = (_COLUMNS_SIZE.pack(len(columns)), columns) if columns else ()
    body = b"".join((lengths, *extra, *records))
    if len(body) > BATCH_BYTES_MAX:
        raise EntryTooLargeError(len(body), BATCH_BYTES_MAX)
    packed = body
    if compression is not Compression.NONE:
        packed = _PACK[compression](body)
        if len(packed) >= len(body):
            packed, compression = body, Compression.NONE
    code = _CODES[compression]
    header = HEADER.pack(MAGIC, version, code, count, len(body), first_offset, epoch, timestamp_ms)
    return header + packed


def assemble_batch(
    lengths: bytes, data: bytes | memoryview, header: BatchHeader, columns: bytes = b""
) -> bytes:
    """Return the uncompressed entry payload of the given record columns.

    Only offset, epoch and time of the header are used.
    """
    extra = (_COLUMNS_SIZE.pack(len(columns)), columns) if columns else ()
    body = b"".join((lengths, *extra, data))
    version = COLUMNS_VERSION if columns else VERSION
    placed = (header.first_offset, header.epoch, header.timestamp_ms)
    return HEADER.pack(MAGIC, version, 0, len(lengths) // 4, len(body), *placed) + body


def renumber_batch(payload: bytes, first_offset: int) -> bytes:
    """Return a plain entry payload whose records count from another offset."""
    *fields, _, epoch, timestamp_ms = HEADER.unpack_from(payload)
    return HEADER.pack(*fields, first_offset, epoch, timestamp_ms) + payload[HEADER.size :]


def decode_header(payload: bytes, ledger: LedgerId, entry: EntryId) -> BatchHeader:
    """Return the header of an entry's batch. Raises `CorruptEntryError`."""
    if len(payload) < HEADER.size:
        raise CorruptEntryError(ledger, entry, f"batch of {len(payload)} bytes is too short")
    magic, version, code, count, size, first_offset, epoch, timestamp_ms = HEADER.unpack_from(
        payload
    )
    if magic != MAGIC or version not in (
        VERSION,
        COLUMNS_VERSION,
        ENCRYPTED_VERSION,
    ):
        raise CorruptEntryError(ledger, entry, f"not a batch: magic {magic!r}, version {version}")
    if code not in _KINDS:
        raise CorruptEntryError(ledger, entry, f"batch has unknown codec {code}")
    if count < 1 or not 4 * count <= size <= BATCH_BYTES_MAX or first_offset < 0 or epoch < 1:
        raise CorruptEntryError(
            ledger,
            entry,
            f"impossible batch: {count} records in {size} bytes, "
            f"offset {first_offset}, epoch {epoch}",
        )
    return BatchHeader(_KINDS[code], count, size, first_offset, epoch, timestamp_ms)


def decode_batch(payload: bytes, ledger: LedgerId, entry: EntryId) -> Batch:
    """Return the batch of an entry; `ledger` and `entry` only name it in errors.

    Raises `CorruptEntryError` when any byte of its structure does not add up.
    """
    header = decode_header(payload, ledger, entry)
    if payload[len(MAGIC)] == ENCRYPTED_VERSION:
        raise CorruptEntryError(ledger, entry, "batch is encrypted and was not opened")
    source = payload
    try:
        if header.compression is not Compression.NONE:
            packed = memoryview(payload)[HEADER.size :]
            source = _UNPACK[header.compression](packed, header.body_size)
    except (zstandard.ZstdError, lz4.block.LZ4BlockError, ValueError) as error:
        raise CorruptEntryError(
            ledger, entry, f"batch does not unpack as {header.compression}: {error}"
        ) from error
    at = HEADER.size if source is payload else 0
    if len(source) - at != header.body_size:
        raise CorruptEntryError(
            ledger, entry, f"batch body has {len(source) - at} bytes, {header.body_size} announced"
        )
    batch = Batch(header, source)
    start = 4 * header.count
    if payload[len(MAGIC)] == COLUMNS_VERSION:
        columns = _columns(batch.body, start, ledger, entry)
        start += _COLUMNS_SIZE.size + len(columns)
        txids, attributes = _decoded(columns, header.count, ledger, entry)
        batch = Batch(header, source, columns, txids, attributes)
    if start + sum(batch.lengths) != header.body_size:
        raise CorruptEntryError(ledger, entry, "lengths of records do not add up to the batch")
    return batch


def _decoded(
    columns: bytes, count: int, ledger: LedgerId, entry: EntryId
) -> tuple[Txids, AttributeColumns]:
    try:
        found = decode_columns(columns)
        column = found.get(TXIDS)
        txids = () if column is None else decode_txids(column, count)
        return txids, decode_attributes(found, count)
    except ValueError as error:
        raise CorruptEntryError(ledger, entry, str(error)) from error


def place_batch(batch: Batch, base: Base | None) -> Batch:
    """Return a batch as it is in the log; without a base it is that already."""
    if base is None:
        return batch
    ids = () if base.txid == NO_TXID else (base.txid,)
    return replace(batch, header=place_header(batch.header, base), txids=ids)


def _columns(body: memoryview, at: int, ledger: LedgerId, entry: EntryId) -> bytes:
    if len(body) >= at + _COLUMNS_SIZE.size:
        (size,) = _COLUMNS_SIZE.unpack_from(body, at)
        at += _COLUMNS_SIZE.size
        if 0 < size <= len(body) - at:
            return bytes(body[at : at + size])
    raise CorruptEntryError(ledger, entry, "columns of a batch do not add up")
