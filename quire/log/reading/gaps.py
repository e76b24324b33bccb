"""Gaps: a reader's ways with lost records.

Without a policy a lost record is an error. With one, a reader of a *sealed* segment reports exactly
the records it leaves out, and continues after them.

  - A gap needs the verdict of the whole write set: each of its bookies answered, and denies the
    entry or has a damaged copy. While one of them is away, the record may exist there. The reader
    tries for `PATIENCE_SECONDS`, then raises, and stays before the entry.
  - A reader that cannot reach the metadata store leaves nothing out. Neither does a reader of a
    segment that is still written.
  - If a segment cannot be opened, all its records are lost: its ledger is not where the log says,
    or its metadata or its file's footer fails verification.
  - A missing file is always an error: an unmounted directory has lost nothing.
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
from quire.log.reading.start import Threshold
from quire.log.records.position import Position

T = TypeVar("T")

PATIENCE_SECONDS: Final = 10.0
LOST: Final = (UnreadableError, IntegrityError, NoSuchEntryError, NoSuchLedgerError)
"""Raised for an entry or a segment that cannot be read now; see `is_lost`."""

NO_VERDICT: Final = (NoSuchLedgerError, StoreWentBackError)
"""Errors that prove nothing about records: the segment moved, or the store went back."""


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
"""Called with every gap before the reader continues after it. If it raises, the reader stays."""


class Found(NamedTuple):
    """The next part of a segment: a batch, a gap, or a gap and the batch after it."""

    segment: Segment
    batch: RecordBatch | None
    gap: Gap | None = None

    def concerns(self, threshold: Threshold) -> bool:
        """Whether the gap may have records at or above a threshold."""
        if self.batch is None:
            return not threshold.is_above(self.segment)
        return not threshold.is_above_all_before(self.batch)


def all_of(segment: Segment, first: Position, error: Exception) -> Found:
    """Return the gap of a segment that is lost as a whole, from a position on."""
    return Found(segment, None, Gap(first, Position(segment.number + 1, 0, 0), str(error)))


async def be_patient(work: Callable[[], Awaitable[T]], rng: Random) -> T:
    """Run a read, and retry it for as long as a lost record needs before it counts as a gap."""
    return await retry(work, rng, timeout=PATIENCE_SECONDS)


async def find_behind(reader: SegmentReader, first: Position, rng: Random) -> Found:
    """Return the lost records of a sealed segment from a position on, and the first batch after
    them that can be read.

    A gap ends before an entry that is away: the next call waits for that entry. Raises
    `NoSuchLedgerError` when the segment was trimmed, moved to a file or lost; `StoreWentBackError`
    when the record names entries that bookies dropped as deleted; the errors of reading the first
    entry while it is not proved lost; and the store's errors.
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
