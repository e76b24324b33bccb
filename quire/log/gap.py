"""Gaps: what a reader does about records that nobody can give it any more.

Without a policy what cannot be read is an error, always. With one, a reader of a *sealed* segment
says exactly what it leaves out and goes on behind it. It first tries for `PATIENCE_SECONDS`: a gap
is for records that are lost, not for bookies that are slow. A reader that is cut off from the
metadata store as well leaves nothing out, and neither does one of a segment that is still written.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple, TypeAlias

from quire.errors import IntegrityError, NoSuchLedgerError, NotFoundError, UnreadableError
from quire.log.position import Position
from quire.log.retry import retry
from quire.log.segment_reader import RecordBatch, SegmentReader

PATIENCE_SECONDS: Final = 10.0
LOST: Final = (UnreadableError, IntegrityError, NotFoundError)
"""What an entry that cannot be had any more raises."""


class Gap(NamedTuple):
    """Records from `first` up to, not including, `end` could not be read."""

    first: Position
    end: Position
    reason: str


OnGap: TypeAlias = Callable[[Gap], None]
"""Told of every gap before the reader goes on behind it; it may raise, and the reader stays."""


async def find_behind(
    reader: SegmentReader, first: Position, rng: Random
) -> tuple[Gap | None, RecordBatch | None]:
    """Return what of a sealed segment cannot be read from a position on, and the first batch
    that can; None when everything, or nothing, is lost.

    Raises `NoSuchLedgerError` when the segment is gone from where it was opened: trimmed, or moved
    to a file. Raises the store's errors.
    """
    last = reader.segment.last_entry
    assert last is not None, "only sealed segments have gaps"
    reason = ""
    for entry in range(first.entry, last + 1):
        try:
            patience = 0.0 if reason else PATIENCE_SECONDS
            batch = await retry(lambda entry=entry: reader.batch(entry), rng, timeout=patience)  # type: ignore[misc]
        except NoSuchLedgerError:
            raise
        except LOST as error:
            reason = reason or str(error)
            continue
        number = reader.segment.number
        behind = Position(number, entry, 0)
        gap = Gap(first, behind, reason) if reason else None
        return gap, RecordBatch(number, entry, 0, batch)
    return Gap(first, Position(reader.segment.number + 1, 0, 0), reason), None
