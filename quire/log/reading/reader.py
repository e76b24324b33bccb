"""Reading a log: from a position, through its segments, to its end or forever.

    manifest → segment of `position` → its entries → … → closed and drained → the next, at entry 0

The position is the whole state. After an error or a cancellation the next call starts from it. A
reader that another process opens at the position starts there, too. Rules:

  * A reader leaves a segment only when its ledger is closed and every entry was delivered. That
    another segment exists does not show it.
  * Offsets have no gaps. A batch that does not continue the batch before is an error.
  * An unreadable record is an error that names the cause: trimmed, replaced, deleted, damaged or
    out of reach.

A reader never fences a ledger and never writes. Not here: the start of a reader (`seek`, `start`),
the search for gaps (`gaps`), one segment (`segment_reader`), the segments behind it (`ahead`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from functools import partial
from random import Random
from typing import Final

from quire.aio.handle import Handle
from quire.aio.home import home_here
from quire.aio.retry import retry
from quire.aio.timing import time_limit
from quire.checked import check_callable
from quire.errors import (
    ColdFileMissingError,
    HandleClosedError,
    InvalidRequestError,
    MissingPageError,
    NoSuchLedgerError,
    PositionTrimmedError,
    StoreUnavailableError,
    StoreWentBackError,
)
from quire.log.manifest.manifest import LogManifest, Segment
from quire.log.manifest.pages_at_hand import segment_from
from quire.log.manifest.record import ManifestRecord
from quire.log.reading.ahead import SegmentsAhead
from quire.log.reading.gaps import (
    LOST,
    NO_VERDICT,
    Found,
    OnGap,
    all_of,
    be_patient,
    find_behind,
    is_lost,
)
from quire.log.reading.manifest_reader import ManifestReader
from quire.log.reading.seek import Asked, find_in_front, find_start, is_after_removed
from quire.log.reading.segment_reader import RecordBatch, SegmentReader, open_segment
from quire.log.reading.start import Course, Threshold
from quire.log.records.keyring import Keyring, check_keyring
from quire.log.records.position import BEGINNING, Position, Record
from quire.log.segment_store.port import SegmentStore
from quire.metrics.meter import ReaderFigures

RETRY_SECONDS: Final = 10.0
"""A reader that does not follow retries metadata and bookies for this long."""

ROLL_SECONDS: Final = 5.0
"""A reader that does not follow waits this long for a roll under way."""


class LogReader(Handle):
    """An asynchronous iterator of records. For one task; made by `LogDirectory.read`.

    Raises:
        NoSuchLogError: the log does not exist, or was deleted.
        PositionTrimmedError: the record at the position was trimmed.
        LogReplacedError: the log was deleted and created again.
        InvalidRequestError: the log never handed out this position.
        DecryptionError: a batch does not open with the keyring.
        StoreUnavailableError: the metadata store is unavailable, and the reader does not follow;
            likewise its other errors.
        UnreadableError: a record is lost or damaged and `on_gap` is not given; likewise
            `IntegrityError`, `NoSuchEntryError` and `NoSuchLedgerError`.

    Cancellation:
        Iteration can continue after a cancellation or an error: no record is skipped.

    Guarantees:
        Records come in order, without gaps in the offsets. `on_gap` is called for every gap that
        the reader passes, and only for those.
    """

    def __init__(
        self,
        record: ManifestRecord,
        segments: SegmentStore,
        *,
        start: Asked,
        follow: bool,
        wait_for_log: bool,
        password: bytes,
        log_id: str | None,
        rng: Random,
        clock: Callable[[], float],
        on_gap: OnGap | None = None,
        keyring: Keyring | None = None,
    ) -> None:
        if on_gap is not None:
            check_callable(on_gap, "on_gap")
        self._keyring = check_keyring(keyring)
        self._clock = clock
        self._record = record
        self._segments = segments
        self._on_gap = on_gap
        self._start: Asked | None = start
        self._course = Course(start if isinstance(start, Position) else BEGINNING)
        self._follow = follow
        self._patience = None if follow else RETRY_SECONDS
        self._manifests = ManifestReader(
            record,
            rng,
            log_id=log_id,
            is_awaited=follow and wait_for_log,
            patience=self._patience,
        )
        self._password = password
        self._rng = rng
        self._buffer: deque[Record] = deque()
        self._delivered: tuple[int, float, float] | None = None
        """The offset after the last record, the record's time in seconds, its age when it came."""
        self._segment: SegmentReader | None = None
        self._ahead = SegmentsAhead(self._open_segment)
        self._seen: LogManifest | None = None
        """The manifest that was read last."""
        self._closed = False
        self._home = home_here()
        self._ended_open = False
        self._reading = asyncio.Lock()
        self._cut: asyncio.Timeout | None = None

    def __repr__(self) -> str:
        state = "closed" if self._closed else "follows" if self._follow else "reads"
        return f"<LogReader {self.name!r} at {self.position}, {state}>"

    @property
    def name(self) -> str:
        """The log's name."""
        return self._record.name

    @property
    def log_id(self) -> str | None:
        """The log's identity, known once something was read. Store it with the position."""
        return self._manifests.log_id

    @property
    def position(self) -> Position:
        """The next position to read. An application stores it to continue later.

        Before the first record arrives, it may be older than the requested offset, time or
        txid, down to `BEGINNING`. An application then stores its request instead.
        """
        return self._buffer[0].position if self._buffer else self._course.next

    @property
    def ended_open(self) -> bool:
        """Whether iteration ended, without `follow`, in a segment that is still open.

        Then records may be acknowledged that this reader did not see: records of a leader that is
        still writing, or of a leader that crashed. Reading with `recover` sees them.
        """
        return self._ended_open

    def _figures(self) -> ReaderFigures | None:
        """Return the figures that a meter shows.

        While the program works on a record, the lag grows; while this reader waits for the next
        one, it is the age that the last one had.
        """
        if self._closed or self._delivered is None:
            return None
        following, written, age = self._delivered
        if self._buffer or not self._reading.locked():
            age = max(age, self._clock() - written)
        return ReaderFigures(self.name, following - len(self._buffer), age)

    def __aiter__(self) -> LogReader:
        return self

    async def __anext__(self) -> Record:
        if not self._buffer:
            batch = await self._read_batch()
            if batch is None:
                raise StopAsyncIteration
            self._buffer.extend(batch.records())
        return self._buffer.popleft()

    async def read_batches(self) -> AsyncGenerator[RecordBatch, None]:
        """Yield whole entries as columns, for bulk work. `position` is after the last one.

        Yields:
            The records of one entry, from `position` on.

        Raises:
            QuireError: the errors that the class names.

        Cancellation: a cancelled step leaves the reader where it was.
        """
        if self._buffer:
            self._course.go_back(self._buffer[0].position, self._buffer[0].offset)
            self._buffer.clear()
            await self._leave()
        while (batch := await self._read_batch()) is not None:
            yield batch

    async def close(self) -> None:
        """Release open resources. Iteration in another task ends with `HandleClosedError`.

        Raises:
            Nothing: a reader holds nothing that can fail to close.

        Cancellation: the reader is closed, and a read-ahead may still be ending.
        """
        self._closed = True
        if self._cut is not None:
            self._cut.reschedule(asyncio.get_running_loop().time())
        async with self._reading:
            await self._leave()
            await self._ahead.close()

    # One batch after the other.

    async def _read_batch(self) -> RecordBatch | None:
        self._home.check(self)
        async with self._reading:
            if not self._closed:
                try:
                    async with time_limit(None) as self._cut:  # `close` ends it at once
                        return await self._find_batch()
                except TimeoutError:
                    if not self._closed:
                        raise
                finally:
                    self._cut = None
        raise HandleClosedError(f"reader of log {self.name!r}")

    async def _find_batch(self) -> RecordBatch | None:
        try:
            while (found := await self._look()) is not None:
                batch = self._take(found)
                if batch is not None:
                    return batch
            return None
        except BaseException:
            await self._leave()
            raise

    def _take(self, found: Found) -> RecordBatch | None:
        """Report a gap, then move the position past the gap and past the batch.

        The three steps are atomic under cancellation, because the method does not wait.
        """
        course, gap = self._course, found.gap
        if gap is not None:
            if self._on_gap is not None and found.concerns(course.threshold):
                self._on_gap(gap)
            course.leave_out(gap.end)
            self._start = None
        if found.batch is None:
            return None
        batch = course.take(found.batch, found.segment.ledger)
        written = batch.batch.header.timestamp_ms / 1000
        self._delivered = batch.next_offset, written, max(0.0, self._clock() - written)
        self._start = None
        return batch if len(batch) else None

    async def _look(self) -> Found | None:
        """Find the next batch or gap. None at the end of a log that is not followed."""
        while True:
            try:
                segment = self._segment.segment if self._segment else await self._enter()
                if segment is None:
                    return None
                found = await self._look_into(segment)
                if found is not None:
                    return found
                is_over = self._segment is not None and self._segment.is_over
                await self._leave()
                if is_over:
                    self._course.next = Position(segment.number + 1, 0, 0)
                    if self._seen is not None:
                        await self._ahead.begin(self._seen, segment.number + 1)
                elif not await self._roll_ends(segment):
                    self._ended_open = True
                    return None
            except NoSuchLedgerError as error:
                await self._leave()
                await self._ahead.close()
                self._seen = None
                missing = await self._manifests.find_missing(error)
                if missing is not None:
                    if isinstance(error, ColdFileMissingError):
                        raise  # the file may exist: its file system is not mounted here
                    self._check_passable(missing)
                    if missing.number == self._course.next.segment:
                        return all_of(missing, self._course.next, error)
            except StoreUnavailableError:
                await self._leave()
                if not self._follow:
                    raise

    async def _look_into(self, segment: Segment) -> Found | None:
        """Find the next batch or gap in a segment.

        Returns None at the segment's end, or after its last confirmed record. Raises
        `NoSuchLedgerError` if the ledger is not where the manifest said.
        """
        try:
            reader = self._segment or await self._open(segment)
            found = await reader.next()
        except NO_VERDICT:
            raise
        except LOST as error:
            self._check_passable(segment)
            if self._segment is None:
                if not is_lost(error):
                    raise
                return all_of(segment, self._course.next, error)
            behind = await find_behind(self._segment, self._course.next, self._rng)
            await self._leave()
            return behind
        if found is None:
            return None
        return Found(segment, RecordBatch(segment.number, found[0], 0, found[1]))

    def _check_passable(self, segment: Segment) -> None:
        """Raise the error being handled, unless the reader passes gaps in this segment."""
        if self._on_gap is None or segment.end is None:
            raise

    async def _leave(self) -> None:
        segment, self._segment = self._segment, None
        if segment is not None:
            await segment.close()

    # From manifest to segment.

    async def _enter(self) -> Segment | None:
        """Return the segment to read next. None at the end of a log that is not followed."""
        course = self._course
        segment = await self._known()
        missing: int | None = None
        while segment is None:
            manifest, version = await self._manifests.read()
            try:
                segment = await self._find_segment(manifest)
            except MissingPageError:
                if version == missing:
                    raise
                missing = version  # the page is lost, or the manifest has changed
                continue
            if segment is not None:
                self._seen = manifest
                break
            if course.next > Position(manifest.next_segment, 0, 0):
                raise InvalidRequestError(
                    f"log {self.name!r} has no position {course.next}: it ends before segment "
                    f"{manifest.next_segment}"
                )
            if manifest.sealed or not self._follow:
                return None
            await self._manifests.wait(version)
        if segment.number > course.next.segment:
            course.next = segment.start
        return segment

    async def _known(self) -> Segment | None:
        """Return the segment to read next, if the last manifest read says how it ends.

        The end of a segment never changes, so the manifest is not read again. None otherwise.
        """
        seen, here = self._seen, self._course.next
        if seen is None or self._start is not None or here < seen.trimmed_to:
            return None
        try:
            found = await segment_from(seen, here.segment)
        except MissingPageError:
            return None
        return found if found is not None and found.end is not None else None

    async def _find_segment(self, manifest: LogManifest) -> Segment | None:
        """Return the segment to read next by this manifest, None at its end."""
        await self._begin(manifest)
        await self._check_trimmed(manifest)
        return await segment_from(manifest, self._course.next.segment)

    async def _open(self, segment: Segment) -> SegmentReader:
        async def attempt() -> SegmentReader:
            reader = await self._open_segment(segment)
            try:
                await reader.start(self._course.next.entry)
            except BaseException:
                await reader.close()
                raise
            return reader

        ahead = await self._ahead.take(segment) if self._course.next.entry == 0 else None
        if ahead is None:
            ahead = await retry(attempt, self._rng, timeout=self._patience)
        self._segment = ahead
        return ahead

    async def _open_segment(self, segment: Segment) -> SegmentReader:
        return await open_segment(
            self._segments,
            segment,
            self._record,
            password=self._password,
            keyring=self._keyring,
            follow=self._follow,
        )

    async def _begin(self, manifest: LogManifest) -> None:
        """Turn the start that was asked for into a position, once the log is known."""
        asked = self._start
        if asked is None:
            return
        if asked == BEGINNING:
            self._course.next = manifest.first_position
            return  # keeps the request: the log may be trimmed before the first record
        self._course.begin(*await self._seek(manifest, asked))
        self._start = None

    async def _seek(self, manifest: LogManifest, asked: Asked) -> tuple[Position, Threshold]:
        now_ms = int(1000 * self._clock())
        seek = partial(find_start, manifest, asked, self._open_segment, now_ms)
        if self._on_gap is None:
            return await seek()
        try:
            return await be_patient(seek, self._rng)
        except MissingPageError:
            raise  # a missing page does not prove that records are lost
        except LOST as error:
            has_moved = isinstance(error, NoSuchLedgerError) and (
                await self._manifests.find_missing(error) is None
            )
            if has_moved or isinstance(error, StoreWentBackError):
                raise
            threshold = Threshold.of(asked)
            place = await find_in_front(manifest, threshold, self._open_segment)
            if place is None:
                raise
            return place, threshold

    async def _check_trimmed(self, manifest: LogManifest) -> None:
        """Raises `PositionTrimmedError` when records after the position were removed."""
        here = self._course.next
        if here >= manifest.trimmed_to:
            return
        if self._course.ends_at(manifest.offset_trimmed_to) or await is_after_removed(
            manifest, here, self._open_segment
        ):
            self._course.next = manifest.trimmed_to
            return
        raise PositionTrimmedError(self.name, str(here), str(manifest.first_position))

    async def _roll_ends(self, segment: Segment) -> bool:
        """Return whether the leader has left an open segment, and seals it in time.

        Raises `NoSuchLedgerError` also if the next segment stayed empty and a takeover dropped it.
        """
        manifest, version = await self._manifests.read()
        if manifest.levels and segment.number < manifest.rows[0].number:
            return True  # segments in pages are sealed
        later = manifest.segment_from(segment.number + 1)
        now = manifest.segment_from(segment.number)
        if now is None or now.end is not None or now.number != segment.number:
            return True
        if later is None:
            return False
        reader = await self._open_segment(later)
        try:
            if await reader.last_confirmed() < 0:
                return False
        finally:
            await reader.close()
        try:
            async with time_limit(ROLL_SECONDS):
                await self._manifests.wait(version)
        except TimeoutError:
            return False
        return True
