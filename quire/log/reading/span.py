"""Spans: pieces of a snapshot of a log, which other processes can read at the same time.

snapshot.py makes them. Reading never fences and never disturbs the writer. Records that were
offloaded since are read from their file; records that were trimmed since raise
`PositionTrimmedError`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from quire.entry import EntryId, LedgerId
from quire.errors import (
    CorruptEntryError,
    LogReplacedError,
    NoSuchLedgerError,
    NoSuchLogError,
    PositionTrimmedError,
)
from quire.log.manifest.cold_files import ColdFile
from quire.log.manifest.manifest import LogManifest
from quire.log.manifest.pages_at_hand import segment_from
from quire.log.reading.bounds import Bounds
from quire.log.reading.source import open_source
from quire.log.records.batch import (
    Base,
    Batch,
    BatchHeader,
    decode_batch,
    place_batch,
)
from quire.log.records.encryption import Decryption
from quire.log.records.keyring import Keyring
from quire.log.records.position import Position
from quire.log.segment_store.port import SegmentStore

Describe: TypeAlias = Callable[[str], Awaitable[LogManifest]]
"""Reads a log's manifest. Raises `NoSuchLogError`."""


@dataclass(frozen=True, slots=True)
class Span:
    """The entries `first` … `last` of one segment, as far as their records are within `bounds`.

    `offsets` are the offsets of the whole segment, as far as the snapshot saw it; `bytes` is the
    payload of the entries 0 … `last`, None while the segment is open.
    """

    log: str
    log_id: str
    segment: int
    ledger: LedgerId
    epoch: int
    first: EntryId
    last: EntryId
    offsets: range
    bytes: int | None
    bounds: Bounds
    base: Base | None = None
    cold: ColdFile | None = None
    """The file that holds the segment, if it is read from one."""

    @property
    def size(self) -> int | None:
        """The payload of the entries `first` … `last`, estimated; None while the segment is open.

        Returns:
            Bytes, as if all entries of the segment were equal.
        """
        if self.bytes is None:
            return None
        return self.bytes * (self.last - self.first + 1) // (self.last + 1)

    @property
    def records(self) -> int:
        """How many records of the whole segment are wanted, by their offsets.

        Returns:
            The number, as if the span were the whole segment.
        """
        offsets, bounds = self.offsets, self.bounds
        first = max(offsets.start, bounds.first_offset)
        return max(0, min(offsets.stop, bounds.end_offset) - first)

    def split(self, bytes_max: int) -> list[Span]:
        """Return the span cut into ranges of entries, in order.

        Args:
            bytes_max: the payload, in bytes, that a range should have at most. Entries are not cut,
                and sizes are estimated.

        Returns:
            Spans that together cover this one. One span while the segment is open.
        """
        pieces = max(1, -(-(self.size or 0) // bytes_max))
        return self.split_into(min(self.last - self.first + 1, pieces))

    def split_into(self, pieces: int) -> list[Span]:
        """Return the span cut into ranges of about the same number of entries, in order.

        Args:
            pieces: how many, at most as many as there are entries.

        Returns:
            Spans that together cover this one.
        """
        entries = self.last - self.first + 1
        cuts = [self.first + entries * piece // pieces for piece in range(pieces + 1)]
        return [self.narrow(first, end - 1) for first, end in pairwise(cuts)]

    def narrow(self, first: EntryId, last: EntryId) -> Span:
        """Return the span with other ends, within the old ones.

        Args:
            first: the new first entry.
            last: the new last entry.

        Returns:
            The part of this span from `first` to `last`.
        """
        size = None if self.bytes is None else self.bytes * (last + 1) // (self.last + 1)
        return replace(self, first=first, last=last, bytes=size)


class Slice(NamedTuple):
    """The wanted records of one entry: the slots `slots` of a batch."""

    entry: EntryId
    slots: range
    batch: Batch

    def payloads(self) -> list[bytes]:
        """Return the payloads.

        Returns:
            The bytes of each wanted record, in order.
        """
        return self.batch.payloads()[self.slots.start : self.slots.stop]


async def read_span(
    segments: SegmentStore, span: Span, *, password: bytes = b"", keyring: Keyring | None = None
) -> AsyncGenerator[Slice, None]:
    """Yield the records of a span by entry, in order.

    Raises `NoSuchLedgerError` when the segment is gone, `CorruptEntryError` for a batch that
    cannot be at its place, `DecryptionError`, and the errors of reading a ledger.
    """
    decryption = Decryption(span.log, keyring)
    reader = await open_source(segments, span.ledger, span.cold, span.last, span.base, password)
    reader.confirm(span.last)  # it was; bookies that answer here may not know that yet
    async with (
        AsyncExitStack() as stack,
        aclosing(reader.read_runs(span.first, span.last)) as runs,
    ):
        stack.push_async_callback(reader.close)
        async for entries in runs:
            for entry in entries:
                number, ledger = entry.entry, span.ledger
                plain = decryption.open(entry.payload, span.segment, ledger, number)
                batch = decode_batch(plain, ledger, number)
                batch = place_batch(batch, span.base)
                _check(span, entry.entry, batch.header)
                slots = span.bounds.slots(span.segment, entry.entry, batch.header)
                if slots:
                    yield Slice(entry.entry, slots, batch)


async def read_span_anywhere(
    segments: SegmentStore,
    span: Span,
    describe: Describe,
    *,
    password: bytes = b"",
    keyring: Keyring | None = None,
) -> AsyncGenerator[Slice, None]:
    """As `read_span`, and continues in the file if the segment was offloaded since the snapshot.

    For a segment that is gone the error says why: `PositionTrimmedError`, `NoSuchLogError` or
    `LogReplacedError`. `NoSuchLedgerError` means that it is missing.
    """
    entry = span.first
    while True:
        try:
            reading = read_span(segments, span, password=password, keyring=keyring)
            async with aclosing(reading) as slices:
                async for piece in slices:
                    entry = piece.entry + 1
                    yield piece
            return
        except NoSuchLedgerError as error:
            left = span.narrow(entry, span.last)
            span = replace(left, cold=await _find_file(await describe(span.log), left, error))


async def _find_file(manifest: LogManifest, span: Span, error: NoSuchLedgerError) -> ColdFile:
    """Return the file that a segment was moved to."""
    if manifest.log_id != span.log_id:
        raise LogReplacedError(span.log) from error
    if manifest.retired:
        raise NoSuchLogError(span.log) from error
    found = await segment_from(manifest, span.segment)
    if found is None or found.number != span.segment:
        here = str(Position(span.segment, span.first, 0))
        raise PositionTrimmedError(span.log, here, str(manifest.first_position)) from error
    if found.cold is None or found.cold == span.cold:
        raise error
    return found.cold


def _check(span: Span, entry: EntryId, header: BatchHeader) -> None:
    fits = span.offsets.start + entry <= header.first_offset < span.offsets.stop
    if header.epoch != span.epoch or not fits:
        raise CorruptEntryError(
            span.ledger,
            entry,
            f"epoch {header.epoch}, offset {header.first_offset} cannot be in a segment of epoch "
            f"{span.epoch} with offsets {span.offsets.start} to {span.offsets.stop - 1}",
        )
