"""Reading a log: from a position, through its segments, to its end or for ever.

    manifest → segment of `position` → its entries → … → closed and drained → the next, at entry 0

The position is all the state there is: whatever goes wrong or is cancelled, the next call starts
from it, and so does a reader made tomorrow. Rules:

  * A segment is left only when its ledger is closed and every entry of it was delivered. That
    another segment exists proves nothing.
  * Offsets have no gaps; a batch that does not continue the one before is an error.
  * What cannot be read is an error that names why: trimmed, replaced, deleted, damaged, out of
    reach.

A reader never fences, and writes nothing anywhere.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from datetime import datetime
from random import Random
from typing import Final

from quire.errors import (
    CorruptEntryError,
    HandleClosedError,
    InvalidRequestError,
    LogReplacedError,
    NoSuchLedgerError,
    NoSuchLogError,
    PositionTrimmedError,
    StoreUnavailableError,
)
from quire.ledger.catalog import LedgerCatalog
from quire.ledger.handle import Handle
from quire.log.cold import ColdFileMissingError
from quire.log.gap import LOST, OnGap, find_behind
from quire.log.keyring import Keyring
from quire.log.manifest import LogManifest, Segment
from quire.log.manifest_record import ManifestRecord
from quire.log.position import BEGINNING, AtTransaction, Position, Record, to_ms
from quire.log.retry import retry
from quire.log.search import find_offset, find_time, find_transaction
from quire.log.segment_reader import RecordBatch, SegmentReader, open_segment
from quire.log.threshold import NO_OFFSET, Threshold
from quire.timing import time_limit

RETRY_SECONDS: Final = 10.0
"""How long a reader that does not follow tries to reach metadata and bookies."""

ROLL_SECONDS: Final = 5.0
"""How long a reader that does not follow waits for a roll under way to be finished."""


class LogReader(Handle):
    """An asynchronous iterator of records. For one task; made by `LogDirectory.read`.

    Iteration raises `NoSuchLogError`, `PositionTrimmedError`, `LogReplacedError` when the log was
    deleted and created anew, `CorruptEntryError`, `DecryptionError`, `UnreadableError`, and the
    store's errors when it does not follow. After an error or a cancellation it can be continued:
    nothing is skipped.
    """

    def __init__(
        self,
        record: ManifestRecord,
        catalog: LedgerCatalog,
        *,
        start: Position | int | datetime | AtTransaction,
        follow: bool,
        wait_for_log: bool,
        password: bytes,
        log_id: str | None,
        rng: Random,
        on_gap: OnGap | None = None,
        keyring: Keyring | None = None,
    ) -> None:
        self._keyring = keyring
        self._record = record
        self._catalog = catalog
        self._on_gap = on_gap
        self._start: Position | int | datetime | AtTransaction | None = start
        self._follow = follow
        self._wait_for_log = wait_for_log
        self._password = password
        self._rng = rng
        self._log_id = log_id
        self._next = start if isinstance(start, Position) else BEGINNING
        self._buffer: deque[Record] = deque()
        self._offset: int | None = None
        self._threshold = Threshold()
        self._segment: SegmentReader | None = None
        self._closed = False
        self._reading = asyncio.Lock()
        self._cut: asyncio.Timeout | None = None

    @property
    def name(self) -> str:
        return self._record.name

    @property
    def log_id(self) -> str | None:
        """The log's identity, known once something was read. Store it with the position."""
        return self._log_id

    @property
    def position(self) -> Position:
        """The position to read next: what an application stores to go on from later.

        Before the first record came it may be older than an offset, a time or a transaction that
        was asked for, down to `BEGINNING`: then store what was asked for.
        """
        return self._buffer[0].position if self._buffer else self._next

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
        """Yield whole entries as columns, for bulk work. `position` is behind the last one."""
        if self._buffer:
            self._next, self._offset = self._buffer[0].position, self._buffer[0].offset
            self._buffer.clear()
            await self._leave()
        while (batch := await self._read_batch()) is not None:
            yield batch

    async def close(self) -> None:
        """Release what is open; iteration under way in another task ends with
        `HandleClosedError`.
        """
        self._closed = True
        if self._cut is not None:
            self._cut.reschedule(asyncio.get_running_loop().time())
        async with self._reading:
            await self._leave()

    # One batch after the other.

    async def _read_batch(self) -> RecordBatch | None:
        async with self._reading:
            if not self._closed:
                try:
                    async with time_limit(None) as self._cut:  # `close` makes it now
                        return await self._find_batch()
                except TimeoutError:
                    if not self._closed:
                        raise
                finally:
                    self._cut = None
        raise HandleClosedError(f"reader of log {self.name!r}")

    async def _find_batch(self) -> RecordBatch | None:
        while True:
            try:
                segment = self._segment or await self._enter()
                if segment is None:
                    return None
                found = await segment.next()
            except NoSuchLedgerError as error:
                await self._leave()
                await self._check_gone(error)
                continue
            except LOST:
                segment, self._segment = self._segment, None
                if segment is None:
                    raise
                batch = await self._skip(segment)
                if batch is not None:
                    return batch
                continue
            except StoreUnavailableError:
                await self._leave()
                if not self._follow:
                    raise
                continue
            except BaseException:
                await self._leave()
                raise
            if found is not None:
                batch = self._take(RecordBatch(segment.segment.number, found[0], 0, found[1]))
                if len(batch):
                    return batch
            elif segment.is_over:
                self._next = Position(segment.segment.number + 1, 0, 0)
                await self._leave()
            else:
                await self._leave()
                if not await self._roll_ends(segment.segment):
                    return None

    async def _skip(self, segment: SegmentReader) -> RecordBatch | None:
        """Called while an error is handled: raise it, or report the gap and go on behind it."""
        try:
            if self._on_gap is None or segment.segment.end is None:
                raise
            gap, batch = await find_behind(segment, self._next, self._rng)
            if gap is not None:
                self._on_gap(gap)
                self._start = None
                self._next, self._offset = gap.end, None
                self._threshold = self._threshold._replace(offset=NO_OFFSET)
            if batch is None:
                return None
            return self._take(batch) or None
        except NoSuchLedgerError as error:
            await self._check_gone(error)
            return None
        finally:
            await segment.close()

    def _take(self, batch: RecordBatch) -> RecordBatch:
        """Check that a batch continues what was read, and cut off what is before the start."""
        if self._offset is not None and self._offset not in (batch.first_offset, batch.next_offset):
            inside = batch.first_offset < self._offset < batch.next_offset
            if not inside or self._next.slot == 0:
                raise CorruptEntryError(
                    self._segment.segment.ledger if self._segment else -1,
                    batch.entry,
                    f"offset {batch.first_offset} follows offset {self._offset - 1}",
                )
        if self._offset is None and self._threshold.is_missed_by(batch):
            raise CorruptEntryError(
                self._segment.segment.ledger if self._segment else -1,
                batch.entry,
                f"offset {batch.first_offset} where offset {self._threshold.offset} was looked for",
            )
        slot = self._next.slot if batch.entry == self._next.entry else 0
        slot = min(max(slot, self._threshold.first_slot(batch)), len(batch))
        self._start = None
        self._next = batch.after
        self._offset = batch.next_offset
        if slot < len(batch):
            self._threshold = Threshold()
        return RecordBatch(batch.segment, batch.entry, slot, batch.batch)

    async def _leave(self) -> None:
        segment, self._segment = self._segment, None
        if segment is not None:
            await segment.close()

    # From manifest to segment.

    async def _enter(self) -> SegmentReader | None:
        """Open the segment to read next. None at the end of a log that is not followed."""
        while True:
            manifest, version = await self._read_manifest()
            await self._resolve(manifest)
            await self._check_trimmed(manifest)
            segment = manifest.segment_from(self._next.segment)
            if segment is not None:
                if segment.number > self._next.segment:
                    self._next = segment.start
                return await self._open(segment)
            if self._next > Position(manifest.next_segment, 0, 0):
                raise InvalidRequestError(
                    f"log {self.name!r} has no position {self._next}: it ends before segment "
                    f"{manifest.next_segment}"
                )
            if manifest.sealed or not self._follow:
                return None
            await self._retry_wait(version)

    async def _open(self, segment: Segment) -> SegmentReader:
        async def attempt() -> SegmentReader:
            reader = await self._open_segment(segment)
            try:
                await reader.start(self._next.entry)
            except BaseException:
                await reader.close()
                raise
            return reader

        self._segment = await retry(attempt, self._rng, timeout=self._patience)
        return self._segment

    async def _open_segment(self, segment: Segment) -> SegmentReader:
        return await open_segment(
            self._catalog,
            segment,
            self._record,
            password=self._password,
            keyring=self._keyring,
            follow=self._follow,
        )

    @property
    def _patience(self) -> float | None:
        return None if self._follow else RETRY_SECONDS

    async def _read_manifest(self) -> tuple[LogManifest, int]:
        while True:
            manifest, version = await retry(self._record.find, self._rng, timeout=self._patience)
            if manifest is not None and version is not None:
                if self._log_id not in (None, manifest.log_id):
                    raise LogReplacedError(self.name)
                self._log_id = manifest.log_id
                if manifest.retired:
                    raise NoSuchLogError(self.name)
                return manifest, version
            if self._log_id is not None or not (self._follow and self._wait_for_log):
                raise NoSuchLogError(self.name)
            await self._retry_wait(None)

    async def _retry_wait(self, version: int | None) -> None:
        await retry(lambda: self._record.wait(version), self._rng, timeout=self._patience)

    async def _resolve(self, manifest: LogManifest) -> None:
        """Turn the start that was asked for into a position, once the log is known."""
        start = self._start
        if start is None:
            return
        if start == BEGINNING:
            self._next = manifest.first_position
            return  # again, if it is trimmed before anything was read
        self._threshold = Threshold.of(start)
        if isinstance(start, Position):
            self._next = start
        elif isinstance(start, AtTransaction):
            self._next = await find_transaction(manifest, start.transaction, self._open_segment)
        elif isinstance(start, datetime):
            self._next = await find_time(manifest, to_ms(start), self._open_segment)
        else:
            self._next = await find_offset(manifest, start, self._open_segment)
        self._start = None

    async def _check_trimmed(self, manifest: LogManifest) -> None:
        """Raises `PositionTrimmedError` when records behind the position were removed."""
        if self._next >= manifest.trimmed_to:
            return
        if await self._is_behind_last_slot(manifest):
            self._next = manifest.trimmed_to
            return
        first = str(manifest.first_position)
        raise PositionTrimmedError(self.name, str(self._next), first)

    async def _is_behind_last_slot(self, manifest: LogManifest) -> bool:
        """True when only the slot says that the position is behind the last record removed."""
        here, point = self._next, manifest.trimmed_to
        segment = manifest.segment_from(here.segment)
        if segment is None or (here.segment, here.entry + 1, 0) != point:
            return False
        reader = await self._open_segment(segment)
        try:
            return (await reader.header(here.entry)).count <= here.slot
        finally:
            await reader.close()

    async def _check_gone(self, error: NoSuchLedgerError) -> None:
        """A ledger that is gone is fine if the log does not list it any more, or a file has it."""
        manifest, _ = await self._read_manifest()
        if isinstance(error, ColdFileMissingError):
            if any(each.cold and each.cold.uri == error.uri for each in manifest.segments):
                raise error
        elif manifest.lists(error.ledger):
            raise error

    async def _roll_ends(self, segment: Segment) -> bool:
        """Whether a segment that is open, but not the one that is written, gets sealed in time."""
        manifest, version = await self._read_manifest()
        later = manifest.segment_from(segment.number + 1)
        now = manifest.segment_from(segment.number)
        if now is None or now.end is not None or now.number != segment.number:
            return True
        if later is None:
            return False
        try:
            reader = await self._open_segment(later)
        except NoSuchLedgerError as error:
            await self._check_gone(error)  # nobody wrote it, and a take-over dropped it
            return True
        try:
            if await reader.last_confirmed() < 0:
                return False
        finally:
            await reader.close()
        try:
            async with time_limit(ROLL_SECONDS):
                await self._retry_wait(version)
        except TimeoutError:
            return False
        return True
