"""Entry-log files: entries sorted by ledger, immutable, each with its own index.

    header  | magic 8s | version u16 | number u64 | bookie 32s | crc u32 |
    chunks  each a run of one ledger, about `CHUNK_BYTES`, ledgers and ids ascending
    index   per ledger: | ledger i64 | chunks u32 | then per chunk
            | first i64 | last i64 | offset u64 | bytes u32 | entries u32 | crc u32 |
    states  ledger states that changed since the file before (ledger_state.py)
    footer  | magic 8s | version u16 | number u64 | index offset u64 | index bytes u64 |
            | states bytes u64 | crc of index u32 | crc of states u32 | crc of footer u32 |

All big-endian (docs/formats.md, "Entry log"). One read fetches a chunk, one checksum covers it, and
it is a run, so reading a ledger back is copying chunks. The index in memory is one row
per chunk, not per entry. A file counts once a checkpoint lists it; a file that was being written
when the bookie stopped is garbage.
"""

from __future__ import annotations

import errno
import struct
from array import array
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from quire.entry import EntryId, LedgerId
from quire.errors import CorruptStorageError
from quire.outline import Outline
from quire.storage.disk.blocks import crc32c
from quire.storage.disk.port import Disk, File
from quire.storage.entries.extents import Slice, split

ENTRIES: Final = "entries"
ENTRIES_SUFFIX: Final = ".entries"
CHUNK_BYTES: Final = 64 * 1024
WRITE_BYTES: Final = 1024 * 1024
SYNC_BYTES: Final = 2 * 1024 * 1024
"""A flush syncs this often, so that a journal sync never waits for more of its pages: a
millisecond of a fast disk."""

VERSION: Final = 1
HEADER_MAGIC: Final = b"quireENT"
FOOTER_MAGIC: Final = b"quireEND"

_HEADER: Final = struct.Struct(">8sHQ32s")
_LEDGER: Final = struct.Struct(">qI")
_CHUNK: Final = struct.Struct(">qqQIII")
_FOOTER: Final = struct.Struct(">8sHQQQQII")
_CRC: Final = struct.Struct(">I")
HEADER_BYTES: Final = _HEADER.size + _CRC.size
NO_LEDGER: Final = -1


def entries_path(number: int) -> str:
    return f"{ENTRIES}/{number:016x}{ENTRIES_SUFFIX}"


class ChunkAt(NamedTuple):
    """Place and ids of a chunk."""

    file: int
    first: EntryId
    last: EntryId
    offset: int
    size: int
    entries: int
    crc: int

    @property
    def is_dense(self) -> bool:
        """No id between first and last is missing."""
        return self.last - self.first == self.entries - 1


class LedgerChunks:
    """The chunks of one ledger in one file: packed as in the file, plus their first ids."""

    __slots__ = ("_packed", "bytes", "file", "firsts", "last")

    def __init__(self, file: int, packed: bytes) -> None:
        self.file: Final = file
        self._packed = packed
        rows = list(_CHUNK.iter_unpack(packed))
        self.firsts = array("q", [row[0] for row in rows])
        self.last: Final[EntryId] = rows[-1][1]
        self.bytes: Final[int] = sum(row[3] for row in rows)

    @property
    def first(self) -> EntryId:
        return int(self.firsts[0])

    def at(self, number: int) -> ChunkAt:
        return ChunkAt(self.file, *_CHUNK.unpack_from(self._packed, number * _CHUNK.size))

    def all(self) -> list[ChunkAt]:
        return [self.at(number) for number in range(len(self.firsts))]

    def spans(self) -> Iterator[Outline]:
        """Yield first and last id of every chunk, and how many ids are held between them."""
        for first, last, _, _, entries, _ in _CHUNK.iter_unpack(self._packed):
            yield Outline(first, last, entries)

    def since(self, first: EntryId) -> Iterator[ChunkAt]:
        """Yield the chunks that may hold ids from first on."""
        start = max(0, bisect_right(self.firsts, first) - 1)
        for number in range(start, len(self.firsts)):
            chunk = self.at(number)
            if chunk.last >= first:
                yield chunk

    def without(self, chunk: ChunkAt) -> LedgerChunks | None:
        """Return the others; None without any."""
        rows = [
            self._packed[at : at + _CHUNK.size] for at in range(0, len(self._packed), _CHUNK.size)
        ]
        kept = [row for row, each in zip(rows, self.all(), strict=True) if each != chunk]
        return LedgerChunks(self.file, b"".join(kept)) if kept else None

    def overlapping(
        self, first: EntryId, last: EntryId, bytes_max: int
    ) -> tuple[list[ChunkAt], EntryId]:
        """Return chunks that may hold ids from first on, and the last id that they are complete to.

        They end at `last`, or with the chunk that reaches `bytes_max`.
        """
        found: list[ChunkAt] = []
        size = 0
        start = max(0, bisect_right(self.firsts, first) - 1)
        end = bisect_right(self.firsts, last, start)
        rows = memoryview(self._packed)[start * _CHUNK.size : end * _CHUNK.size]
        for row in _CHUNK.iter_unpack(rows):
            if size >= bytes_max:
                return found, row[0] - 1
            if row[1] >= first:
                found.append(ChunkAt(self.file, *row))
                size += row[3]
        return found, last


class EntryIndex(NamedTuple):
    """Index and states of a file."""

    number: int
    ledgers: dict[LedgerId, LedgerChunks]
    states: bytes


class EntryWriter:
    """Writes one file from beginning to end."""

    def __init__(self, disk: Disk, number: int, bookie: str) -> None:
        self._disk = disk
        self._bookie = bookie
        self.number: Final = number
        self._index: list[bytes] = []
        self._rows: list[bytes] = []
        self._ledger: LedgerId = NO_LEDGER
        self._ledgers: dict[LedgerId, LedgerChunks] = {}
        self._buffers: list[bytes | memoryview] = []
        self._buffered = 0
        self._unsynced = 0
        self._offset = 0

    async def write(
        self, ledgers: Iterable[tuple[LedgerId, Sequence[Slice]]], states: bytes
    ) -> EntryIndex:
        """Write and sync the file and its name. Raises OSError; after ENOSPC the file is gone."""

        async def fill() -> None:
            for ledger, slices in ledgers:
                await self.put(ledger, slices)

        return await self.write_by(fill, lambda: states)

    async def write_by(
        self, fill: Callable[[], Awaitable[None]], states: Callable[[], bytes]
    ) -> EntryIndex:
        """Write as `write`, what `fill` puts; `states` is asked when all entries are written.

        When `fill` raises or is cancelled the file is left, or removed if that is ENOSPC.
        """
        path = entries_path(self.number)
        self._file: File = await self._disk.open(path, create=True)
        try:
            header = _HEADER.pack(HEADER_MAGIC, VERSION, self.number, self._bookie.encode("ascii"))
            self._put(header, _CRC.pack(crc32c(header)))
            await fill()
            self._end_ledger()
            rows = states()
            self._put_end(rows)
            await self._drain()
            await self._file.sync()
            await self._disk.sync_directory(ENTRIES)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                await self._disk.unlink(path)
            raise
        finally:
            await self._file.close()
        return EntryIndex(self.number, self._ledgers, rows)

    async def put(self, ledger: LedgerId, slices: Sequence[Slice]) -> None:
        """Write entries after the earlier ones of their ledger, or begin a higher ledger."""
        if ledger != self._ledger:
            self._end_ledger()
            self._ledger = ledger
        for chunk in split(slices, CHUNK_BYTES):
            offset, crc, count = self._offset, 0, 0
            for part in chunk:
                crc = crc32c(part.data, crc)
                count += part.high - part.low
                self._put(part.data)
            size = self._offset - offset
            row = _CHUNK.pack(chunk[0].first, chunk[-1].last, offset, size, count, crc)
            self._rows.append(row)
            if self._buffered >= WRITE_BYTES:
                await self._drain()

    def _end_ledger(self) -> None:
        if self._rows:
            packed = b"".join(self._rows)
            self._index.append(_LEDGER.pack(self._ledger, len(self._rows)) + packed)
            self._ledgers[self._ledger] = LedgerChunks(self.number, packed)
        self._rows = []

    def _put(self, *data: bytes | memoryview) -> None:
        for part in data:
            self._buffers.append(part)
            self._buffered += len(part)
            self._offset += len(part)

    def _put_end(self, states: bytes) -> None:
        index, offset = b"".join(self._index), self._offset
        footer = _FOOTER.pack(
            FOOTER_MAGIC,
            VERSION,
            self.number,
            offset,
            len(index),
            len(states),
            crc32c(index),
            crc32c(states),
        )
        self._put(index, states, footer, _CRC.pack(crc32c(footer)))

    async def _drain(self) -> None:
        buffers, self._buffers = self._buffers, []
        size, self._buffered = self._buffered, 0
        self._unsynced += size
        must_sync = self._unsynced >= SYNC_BYTES
        await self._file.write(self._offset - size, buffers, sync=must_sync)
        if must_sync:
            self._unsynced = 0


async def load_index(disk: Disk, number: int, bookie: str) -> EntryIndex:
    """Read a file's index and states. Raises `CorruptStorageError` when it cannot be believed."""
    path = entries_path(number)
    try:
        file = await disk.open(path)
    except FileNotFoundError:
        raise CorruptStorageError(path, "the checkpoint lists it, but it is missing") from None
    try:
        found, owner = decode_header(path, await file.read(0, HEADER_BYTES))
        if found != number:
            raise CorruptStorageError(path, f"its header says entry log {found}")
        if owner != bookie:
            raise CorruptStorageError(path, f"it does not belong to bookie {bookie}")
        return await read_index(file, path, number)
    finally:
        await file.close()


def decode_header(path: str, data: bytes) -> tuple[int, str]:
    """Return number and bookie of a file. Raises `CorruptStorageError` naming it."""
    header, crc = data[: _HEADER.size], data[_HEADER.size : HEADER_BYTES]
    if len(data) < HEADER_BYTES or crc != _CRC.pack(crc32c(header)):
        raise CorruptStorageError(path, "the header fails its checksum")
    magic, version, number, owner = _HEADER.unpack(header)
    if magic != HEADER_MAGIC or version != VERSION:
        raise CorruptStorageError(path, f"it is not version {VERSION} of an entry log")
    return number, owner.rstrip(b"\0").decode("ascii")


async def read_index(file: File, path: str, number: int) -> EntryIndex:
    """Return what an open file holds. Raises `CorruptStorageError` and OSError."""
    index, states = await _read_end(file, path, number)
    return EntryIndex(number, _parse_index(number, index), states)


async def _read_end(file: File, path: str, number: int) -> tuple[bytes, bytes]:
    """Return index and states, checked against the footer."""
    size = _FOOTER.size + _CRC.size
    data = await file.read(max(0, file.size - size), size)
    footer, crc = data[: _FOOTER.size], data[_FOOTER.size :]
    if len(data) < size or crc != _CRC.pack(crc32c(footer)):
        raise CorruptStorageError(path, "the footer fails its checksum")
    magic, version, found, offset, index_size, states_size, index_crc, states_crc = _FOOTER.unpack(
        footer
    )
    if magic != FOOTER_MAGIC or version != VERSION or found != number:
        raise CorruptStorageError(path, f"it does not end as entry log {number} should")
    block = await file.read(offset, index_size + states_size)
    index, states = block[:index_size], block[index_size:]
    if crc32c(index) != index_crc or crc32c(states) != states_crc:
        raise CorruptStorageError(path, "the index fails its checksum")
    return index, states


def _parse_index(number: int, data: bytes) -> dict[LedgerId, LedgerChunks]:
    ledgers: dict[LedgerId, LedgerChunks] = {}
    offset = 0
    while offset < len(data):
        ledger, count = _LEDGER.unpack_from(data, offset)
        offset += _LEDGER.size
        end = offset + count * _CHUNK.size
        ledgers[ledger] = LedgerChunks(number, data[offset:end])
        offset = end
    return ledgers
