"""Gaps: what a reader does about records that nobody can give it any more.

Without a policy what cannot be read is an error, always. With one, a reader of a *sealed* segment
says exactly what it leaves out and goes on behind it. A gap needs the verdict of the whole write
set: each of its bookies answered, and denies the entry or has a damaged copy. While one of them is
away the record may exist there: the reader tries for `PATIENCE_SECONDS`, then raises, and stays
before it. A reader that is cut off from the metadata store as well leaves nothing out, and neither
does one of a segment that is still written.

Of a segment that cannot even be opened everything is lost: its ledger is not where the log says, or
its metadata, or its file's footer, cannot be believed. A file that is not there is an error all the
same: whoever unmounts a directory has lost nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import Final, NamedTuple, TypeAlias, TypeVar

from quire.aio.retry import retry
from quire.errors import (
    EntryLostError,
    IntegrityError,
    NoSuchEntryError,
    NoSuchLedgerError,
    StoreWentBackError,
    UnreadableError,
)
from quire.log.manifest.manifest import Segment
from quire.log.reading.segment_reader import RecordBatch, SegmentReader
from quire.log.reading.threshold import Threshold
from quire.log.records.position import Position

T = TypeVar("T")

PATIENCE_SECONDS: Final = 10.0
LOST: Final = (UnreadableError, IntegrityError, NoSuchEntryError, NoSuchLedgerError)
"""What an entry, or a segment, that cannot be read now raises; see `is_lost`."""

NO_VERDICT: Final = (NoSuchLedgerError, StoreWentBackError)
"""What says nothing about the records of a segment: it moved, or metadata cannot be believed."""


def is_lost(error: Exception) -> bool:
    """Return whether an error proves that records are lost, rather than away for a time.

    Source: docs/protocol.md, "Logs".
    """
    if isinstance(error, NoSuchEntryError):
        return not error.silent
    if isinstance(error, UnreadableError):
        return isinstance(error, EntryLostError)
    return isinstance(error, LOST) and not isinstance(error, StoreWentBackError)


class Gap(NamedTuple):
    """Records from `first` up to, not including, `end` could not be read."""

    first: Position
    end: Position
    reason: str


OnGap: TypeAlias = Callable[[Gap], None]
"""Told of every gap before the reader goes on behind it; it may raise, and the reader stays."""


class Found(NamedTuple):
    """What comes next in a segment: a batch, a gap, or a batch behind a gap."""

    segment: Segment
    batch: RecordBatch | None
    gap: Gap | None = None

    def concerns(self, threshold: Threshold) -> bool:
        """Whether what was asked for may lie in the gap."""
        if self.batch is None:
            return not threshold.is_above(self.segment)
        return not threshold.is_above_all_before(self.batch)


def all_of(segment: Segment, first: Position, error: Exception) -> Found:
    """Return what comes next where all of a segment is lost, from a position on."""
    return Found(segment, None, Gap(first, Position(segment.number + 1, 0, 0), str(error)))


async def be_patient(work: Callable[[], Awaitable[T]], rng: Random) -> T:
    """Do what reads, trying for as long as nothing is taken for lost."""
    return await retry(work, rng, timeout=PATIENCE_SECONDS)


async def find_behind(reader: SegmentReader, first: Position, rng: Random) -> Found:
    """Return what of a sealed segment cannot be read from a position on, and the first batch
    that can.

    Raises `NoSuchLedgerError` when the segment is gone from where it was opened: trimmed, moved to
    a file, or lost; `StoreWentBackError` when metadata names what bookies dropped as deleted; what
    reading the first entry does while that is not proved lost; and the store's errors. What is lost
    ends before an entry that is away: the next call waits for that one.
    """
    segment, last = reader.segment, reader.segment.last_entry
    assert last is not None, "only sealed segments have gaps"
    lost: Exception | None = None
    for entry in range(first.entry, last + 1):
        try:
            patience = 0.0 if lost else PATIENCE_SECONDS
            batch = await retry(lambda entry=entry: reader.batch(entry), rng, timeout=patience)  # type: ignore[misc]
        except NO_VERDICT:
            raise
        except LOST as error:
            if is_lost(error):
                lost = lost or error
                continue
            if lost is None:
                raise
            return Found(segment, None, Gap(first, Position(segment.number, entry, 0), str(lost)))
        behind = Position(segment.number, entry, 0)
        gap = Gap(first, behind, str(lost)) if lost else None
        return Found(segment, RecordBatch(segment.number, entry, 0, batch), gap)
    assert lost is not None, "a read met a lost entry"
    return all_of(segment, first, lost)
