"""Producer state: which sequence numbers a new leader has to recognize, read before it writes.

  * The last batch names the position of the last snapshot. The batches from there on are read once.
  * A log without producers costs one read.
  * Ingested segments have no sequence numbers, and are skipped at any size.
  * Trimmed batches are read while their segment exists. If the snapshot was deleted with its
    segment, the state begins with the first remaining batch. A client that trims a log to its end
    therefore also removes its producer state.

Confirmed batches are read before the old leader is fenced, and only later batches after. So a
candidate that cannot read producer state (missing key, missing pyarrow) fails before it deposes the
leader.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from quire.entry import EntryId
from quire.errors import (
    ConflictError,
    CorruptEntryError,
    MissingPageError,
    NoSuchLedgerError,
    PositionTrimmedError,
)
from quire.log.manifest.manifest import LogManifest, Segment
from quire.log.manifest.page import Summary
from quire.log.manifest.pages_at_hand import Walk
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
    """The producer state of one log, as far as it was read.

    One call at a time. After a failed or cancelled call, the next call continues where it ended.
    """

    def __init__(
        self, describe: Callable[[], Awaitable[LogManifest]], open_segment: OpenSegment
    ) -> None:
        self._describe = describe
        self._open_segment = open_segment
        self._log_id: str | None = None
        self._producers = Producers()
        self._at = BEGINNING
        """All batches before it are noted, or do not matter."""

    async def finish(self) -> Producers:
        """Return the state at the end of a log. All its segments with records are sealed.

        Raises as `advance`, and `ConflictError` if the log was trimmed meanwhile.
        """
        manifest = await self._describe()
        sealed = tuple(each for each in manifest.rows if each.end is not None)
        try:
            return await self.advance(replace(manifest, rows=sealed))
        except (NoSuchLedgerError, MissingPageError) as error:
            raise ConflictError(f"log {manifest.name!r} was trimmed meanwhile") from error

    async def advance(self, manifest: LogManifest) -> Producers:
        """Read the confirmed batches not read yet, and return the state after them.

        Never fences. Stops after a segment that may still grow. Raises `CorruptEntryError` if the
        columns of a batch are damaged, `NoSuchLedgerError` if a segment was trimmed meanwhile,
        `DecryptionError` if a key is missing, and the errors of reading.
        """
        if manifest.log_id != self._log_id:
            self._log_id = manifest.log_id
            self._begin(BEGINNING)
        if not await self._skip_to_snapshot(manifest):
            return self._producers
        written = Walk(manifest, self._at.segment, skips=_is_ingested, wants=_is_written)
        async for segment in written:
            if not (segment.ends_by(self._at) or await self._note_segment(segment)):
                break
        return self._producers

    def _begin(self, position: Position) -> None:
        self._producers, self._at = Producers(), position

    async def _skip_to_snapshot(self, manifest: LogManifest) -> bool:
        """Skip the batches before the last snapshot. Return False if all batches are noted.

        Reads the last confirmed batch, unless it is noted.
        """
        written = Walk(manifest, skips=_is_ingested, wants=_is_written, is_backward=True)
        async for segment in written:
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
        """Note the confirmed batches of a segment. Return whether the segment has ended."""
        reader = await self._open_segment(segment)
        try:
            await reader.start(self._at.entry if segment.number == self._at.segment else 0)
            while found := await reader.next():
                self._producers = _note(self._producers, segment, *found)
                self._at = Position(segment.number, found[0] + 1, 0)
            return reader.is_over
        finally:
            await reader.close()


def _is_ingested(of: Summary) -> bool:
    return of.ingested == of.segments


def _is_written(segment: Segment) -> bool:
    return not segment.ingested


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
