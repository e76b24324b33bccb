"""What a new leader reads before it writes: the memory of producers, from the end of the log.

The last batch tells where the last snapshot is; everything from there on is read once. A log
without producers costs one read. Adopted segments have no stamps and are passed over, whatever
their size. Batches that were trimmed are read too while their segment is there. When the snapshot
went with its segment the memory begins with the first batch left: who trims a log to its very end
forgets who wrote it.

What is confirmed is read before anybody is fenced, and only what came since is read after: who
cannot read what a leader needs, for want of a key or of pyarrow, deposes nobody.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from quire.entry import EntryId
from quire.errors import (
    ConflictError,
    CorruptEntryError,
    NoSuchLedgerError,
    PositionTrimmedError,
)
from quire.log.manifest.manifest import LogManifest, Segment
from quire.log.reading.search import OpenSegment, find_offset
from quire.log.records.batch import Batch
from quire.log.records.position import BEGINNING, Position
from quire.log.records.producers import (
    FORGOTTEN,
    SNAPSHOT,
    SNAPSHOT_AT,
    STAMPS,
    Producers,
    decode_at,
    decode_columns,
    decode_stamps,
)


class Restoration:
    """The memory of producers of one log, as far as it was read.

    One call at a time. After one that failed or was cancelled the next goes on where it ended.
    """

    def __init__(
        self, describe: Callable[[], Awaitable[LogManifest]], open_segment: OpenSegment
    ) -> None:
        self._describe = describe
        self._open_segment = open_segment
        self._log_id: str | None = None
        self._producers = Producers()
        self._at = BEGINNING
        """What is in front of it is noted, as far as it counts."""

    async def finish(self) -> Producers:
        """Return what is remembered at the end of a log, whose segments with records are sealed.

        Raises as `advance`, and `ConflictError` when the log was trimmed meanwhile.
        """
        manifest = await self._describe()
        sealed = tuple(each for each in manifest.segments if each.end is not None)
        try:
            return await self.advance(replace(manifest, segments=sealed))
        except NoSuchLedgerError as error:
            raise ConflictError(f"log {manifest.name!r} was trimmed meanwhile") from error

    async def advance(self, manifest: LogManifest) -> Producers:
        """Read what is confirmed and was not read yet, and return what is remembered behind it.

        Never fences. Behind a segment that may still grow nothing is read. Raises
        `CorruptEntryError` when a batch's columns do not add up, `NoSuchLedgerError` when a segment
        was trimmed meanwhile, `DecryptionError` when a key is missing, and what reading does.
        """
        if manifest.log_id != self._log_id:
            self._log_id = manifest.log_id
            self._begin(BEGINNING)
        written = [each for each in manifest.segments if not each.adopted]
        if not await self._skip_to_snapshot(manifest, written):
            return self._producers
        for segment in written:
            is_noted = segment.number < self._at.segment or segment.ends_by(self._at)
            if not (is_noted or await self._note_segment(segment)):
                break
        return self._producers

    def _begin(self, position: Position) -> None:
        self._producers, self._at = Producers(), position

    async def _skip_to_snapshot(self, manifest: LogManifest, written: Sequence[Segment]) -> bool:
        """Pass over what the last snapshot makes superfluous; False when nothing is left to read.

        Looks at the last confirmed batch, unless it is noted.
        """
        for segment in reversed(written):
            if segment.ends_by(self._at):
                return False
            reader = await self._open_segment(segment)
            try:
                last = await reader.last_confirmed()
                if last < 0:
                    continue
                here, behind = (Position(segment.number, each, 0) for each in (last, last + 1))
                if here < self._at:
                    return False
                columns = _columns(await reader.batch(last), segment, last)
            finally:
                await reader.close()
            start = behind
            if SNAPSHOT in columns:
                start = here
            elif SNAPSHOT_AT in columns:
                start = await self._position_of(manifest, decode_at(columns[SNAPSHOT_AT]))
            if start > self._at:
                self._begin(start)
            return self._at < behind
        self._begin(BEGINNING)
        return False

    async def _position_of(self, manifest: LogManifest, offset: int) -> Position:
        try:
            return await find_offset(manifest, offset, self._open_segment)
        except PositionTrimmedError:
            return manifest.first_position

    async def _note_segment(self, segment: Segment) -> bool:
        """Note what is confirmed of a segment; returns whether that is all it will ever have."""
        reader = await self._open_segment(segment)
        try:
            await reader.start(self._at.entry if segment.number == self._at.segment else 0)
            while found := await reader.next():
                self._producers = _note(self._producers, segment, *found)
                self._at = Position(segment.number, found[0] + 1, 0)
            return reader.is_over
        finally:
            await reader.close()


def _columns(batch: Batch, segment: Segment, entry: EntryId) -> dict[int, bytes]:
    try:
        return decode_columns(batch.columns)
    except ValueError as error:
        raise CorruptEntryError(segment.ledger, entry, str(error)) from error


def _note(producers: Producers, segment: Segment, entry: EntryId, batch: Batch) -> Producers:
    try:
        columns = decode_columns(batch.columns)
        if SNAPSHOT in columns:
            producers = Producers.decode(columns[SNAPSHOT], columns.get(FORGOTTEN, b""))
        if STAMPS in columns:
            stamps = decode_stamps(columns[STAMPS], len(batch))
            producers.note_batch(batch.header.first_offset, stamps)
    except ValueError as error:
        raise CorruptEntryError(segment.ledger, entry, str(error)) from error
    return producers
