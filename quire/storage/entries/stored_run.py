"""Chunks of an entry log as a run that was verified as a whole and is scanned only when needed.

The checksum proves that a chunk holds the bytes that the bookie wrote: runs that it had scanned.
Its index row tells their entries. So a read of whole chunks needs none of their frames found
again: neighbours are one run, and if one read fetched just these, its bytes are the answer. Pure.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from quire.entry import EntryId, LedgerId
from quire.errors import CorruptEntryError, InvalidRequestError
from quire.run import ScannedRun, scan_run
from quire.storage.disk.blocks import crc32c
from quire.storage.entries.entry_log import ChunkAt
from quire.storage.entries.extents import Slice

_BEGINNING: Final = struct.Struct(">Iqq")


def verify(ledger: LedgerId, chunk: ChunkAt, data: bytes) -> None:
    """Raise `CorruptEntryError` when bytes are not the chunk that the index describes."""
    if len(data) != chunk.size or crc32c(data) != chunk.crc:
        where = f"bytes {chunk.offset} to {chunk.offset + chunk.size} of entry log {chunk.file}"
        raise CorruptEntryError(ledger, chunk.first, f"{where} fail their checksum")
    if len(data) < _BEGINNING.size:
        raise CorruptEntryError(ledger, chunk.first, "its chunk is not a run: it is too short")
    _, found, first = _BEGINNING.unpack_from(data)
    if found != ledger or first != chunk.first:
        reason = f"its chunk begins with entry {first} of ledger {found}"
        raise CorruptEntryError(ledger, chunk.first, reason)


class StoredRun:
    """The frames of verified chunks that follow each other, inside the bytes that were read."""

    __slots__ = ("_scanned", "count", "file", "first", "last", "ledger", "size", "source", "start")

    def __init__(
        self, ledger: LedgerId, chunks: Sequence[ChunkAt], source: bytes, start: int
    ) -> None:
        self.ledger: Final = ledger
        self.file: Final[int] = chunks[0].file
        self.first: Final[EntryId] = chunks[0].first
        self.last: Final[EntryId] = chunks[-1].last
        self.count: Final[int] = sum([chunk.entries for chunk in chunks])
        self.size: Final[int] = chunks[-1].offset + chunks[-1].size - chunks[0].offset
        self.source: Final = source
        """The chunks are `source[start : start + size]`."""
        self.start: Final = start
        self._scanned: ScannedRun | None = None

    @property
    def data(self) -> bytes | memoryview:
        """The frames, not copied."""
        if self.size == len(self.source):
            return self.source
        return memoryview(self.source)[self.start : self.start + self.size]

    def scan(self) -> ScannedRun:
        """Return where the frames are. Raises `CorruptEntryError` when there are others."""
        if self._scanned is None:
            try:
                scanned = scan_run(self.data)
            except InvalidRequestError as error:
                reason = f"its chunk is not a run: {error}"
                damage = CorruptEntryError(self.ledger, self.first, reason)
                damage.__cause__ = error  # a compiled `raise … from` leaves it out
                raise damage  # noqa: B904
            if (scanned.first, scanned.last, scanned.count) != (self.first, self.last, self.count):
                reason = f"its chunk holds {scanned.count} entries to {scanned.last}"
                raise CorruptEntryError(self.ledger, self.first, reason)
            self._scanned = scanned
        return self._scanned

    @property
    def entries(self) -> Sequence[EntryId]:
        return self.scan().entries

    @property
    def bounds(self) -> Sequence[int]:
        return self.scan().bounds

    def cut(self, low: int, high: int) -> memoryview:
        return self.scan().cut(low, high)


def joined(slices: Sequence[Slice]) -> bytes:
    """Return the frames of a tidy list, at least one slice, as one run; not copied when they are
    all that one read fetched.
    """
    run = slices[0].run
    if len(slices) == 1 and isinstance(run, StoredRun) and run.data is run.source:
        return run.source if slices[0].is_whole else bytes(slices[0].data)
    return b"".join([part.data for part in slices])
