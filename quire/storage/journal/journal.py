"""The journal: appended records become durable in order, in groups, and are then applied.

A *batch* is all records that arrived while the batch before was being written, without a timer. It
is one write and one sync; then every record of it is applied, in order and in one step, and its
waiters are woken. The next batch is cut one turn of the event loop later: records that these
waiters append in answer go into it, and do not become another batch with another sync. So at any
moment the applied records are exactly those up to `position().sequence`: a flush can start anywhere
between two awaits, a read sees durable entries only, and half a batch is never visible.

While the next segment is missing the end of the present segment takes no runs, and once the disk
was found full its whole rest takes none: it is for fences. They go ahead of recovery runs that wait
for space; ordinary runs are refused before that, so an accepted run never comes after a fence.

When the journal falls idle a record of its own follows (`on_idle`), because only a later batch can
prove that the last one was durable (record.py).

One task does all this. If it fails, for whatever reason, every waiter is told, nothing is tried
again (after a failed sync the kernel may call lost pages clean) and `on_fatal` must end the
process. Not here: the bytes (record.py), the files (segments.py), what records mean (node.py),
bounds (memory_limiter.py).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, NamedTuple, TypeVar

from quire.aio.answer import Answered, settle, tell
from quire.errors import BookieUnavailableError, ReadOnlyBookieError
from quire.requests import TRACE, Trace
from quire.storage.disk.blocks import BLOCK_BYTES, align
from quire.storage.journal.options import StorageOptions
from quire.storage.journal.record import (
    LAST_OF_BATCH,
    RECORD_HEADER_BYTES,
    RecordKind,
    encode_record,
)
from quire.storage.journal.replay import JournalPosition
from quire.storage.journal.segments import JournalSegment, Segments

SubjectT = TypeVar("SubjectT")

FULL: Final = "its disk is full"

RECENT_BATCHES: Final = 1024
"""Batches of the percentile: a second of a busy journal, and 8 KiB of memory."""

_ZEROS: Final = bytes(BLOCK_BYTES)


class _Pending(NamedTuple, Generic[SubjectT]):
    """A record that is not durable yet."""

    kind: RecordKind
    body: bytes
    subject: SubjectT
    answered: Answered
    can_wait: bool
    """Whether it stays in the queue when the disk is full."""
    trace: Trace | None
    """The trace of its request, if a log of slow requests wants it."""


@dataclass(slots=True)
class JournalCounts:
    """The journal's counters since the start: `microseconds` is the time of all batches, from the
    write to the end of its sync. Each append waits for one, so their mean tells a slow disk.

    The last two tell of now: records that wait for a batch, and the time that 99 of 100 of the last
    `RECENT_BATCHES` batches kept.
    """

    batches: int = 0
    microseconds: int = 0
    entries: int = 0
    bytes: int = 0
    waiting: int = 0
    p99_microseconds: int = 0


def _seconds_since(moment: float | None) -> float:
    return 0.0 if moment is None else asyncio.get_running_loop().time() - moment


class Journal(Generic[SubjectT]):
    """Group commit over segments. `apply` gets the subjects of a durable batch, in order."""

    def __init__(
        self,
        segments: Segments,
        options: StorageOptions,
        *,
        bookie: str,
        apply: Callable[[list[SubjectT]], None],
        on_fatal: Callable[[BaseException], None],
        on_idle: Callable[[], None],
        on_refused: Callable[[SubjectT], None],
    ) -> None:
        self._segments = segments
        self._on_refused = on_refused
        self._waits_since: float | None = None
        segments.on_starved = self._turn_away
        self._on_idle = on_idle
        self._is_witnessed = True
        self._options = options
        self._bookie = bookie
        self._apply = apply
        self._on_fatal = on_fatal
        self.counts: Final = JournalCounts()
        self._recent: deque[float] = deque(maxlen=RECENT_BATCHES)
        self._queue: deque[_Pending[SubjectT]] = deque()
        self._arrived = asyncio.Event()
        segments.on_ready = self._arrived.set
        self._is_closing = False
        self._busy_since: float | None = None
        self._failure: BaseException | None = None
        self._task: asyncio.Task[None] | None = None
        self._alarm: asyncio.TimerHandle | None = None

    def start(self, segment: JournalSegment, sequence: int) -> None:
        """Begin to commit into an empty segment, after the record `sequence`."""
        self._segment = segment
        self._offset = BLOCK_BYTES
        self._durable = sequence
        self._segments.prepare(segment.header.identity)
        self._task = asyncio.create_task(self._run())

    def position(self) -> JournalPosition:
        """Return where the first record begins that is not durable and applied."""
        return JournalPosition(self._segment.header.number, self._offset, self._durable)

    def busy_seconds(self) -> float:
        """Return for how long the disk has kept the present batch."""
        return _seconds_since(self._busy_since)

    def counts_now(self) -> JournalCounts:
        """Return the counts, those of now included."""
        self.counts.waiting = len(self._queue)
        ordered = sorted(self._recent)
        if ordered:
            slow = ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
            self.counts.p99_microseconds = round(1e6 * slow)
        return self.counts

    def has_waited(self, seconds: float) -> bool:
        """Return whether the disk has kept the present batch for longer than some seconds, or the
        journal has waited as long for another segment. Asked for each run.
        """
        busy, waits = self._busy_since, self._waits_since
        if busy is None and waits is None:
            return False
        long_ago = asyncio.get_running_loop().time() - seconds
        if busy is not None and busy < long_ago:
            return True
        return waits is not None and waits < long_ago and not self._segments.is_ready

    @property
    def takes_fences(self) -> bool:
        """Whether a fence has space without another segment."""
        return self._options.segment_bytes - self._offset >= BLOCK_BYTES

    def append(
        self, kind: RecordKind, body: bytes, subject: SubjectT, *, can_wait: bool = True
    ) -> asyncio.Future[None]:
        """Queue a record; the future is done when it is durable and applied. As `put`.

        Cancelling the future abandons the wait, not the record.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.put(kind, body, subject, partial(settle, done), can_wait=can_wait)
        return done

    def put(
        self,
        kind: RecordKind,
        body: bytes,
        subject: SubjectT,
        answered: Answered,
        *,
        can_wait: bool = True,
        trace: Trace | None = None,
    ) -> None:
        """Queue a record; `answered` is called in the step that finds it durable and applied.

        A record that cannot wait is refused, with `ReadOnlyBookieError` and a call of `on_refused`,
        when it is still in the queue while the disk is too full for another segment. A fence
        need not wait while `takes_fences`. Raises `BookieUnavailableError`, with which `answered`
        is called as well, when the journal failed or is closed.
        """
        if self._is_closing or self._failure is not None:
            raise self._unavailable()
        if trace is None:
            trace = TRACE.get()
        if trace is not None and not trace.accepted:
            trace.accepted = asyncio.get_running_loop().time()
        self._queue.append(_Pending(kind, body, subject, answered, can_wait, trace))
        self._arrived.set()

    def _unavailable(self) -> BookieUnavailableError:
        reason = (
            "it is closing" if self._failure is None else f"its journal failed: {self._failure}"
        )
        return BookieUnavailableError(self._bookie, reason)

    async def _run(self) -> None:
        batch: list[_Pending[SubjectT]] = []
        try:
            while self._queue or not self._is_closing:
                if not self._queue:
                    await self._wait()
                    continue
                batch = self._take_batch()
                if self._segments.is_ready:
                    self._waits_since = None
                elif not batch:
                    await self._wait_for_segment()
                    continue
                self._busy_since = asyncio.get_running_loop().time()
                await (self._commit(batch) if batch else self._roll())
                self._busy_since = None
                await asyncio.sleep(0)  # answered callers may append
        except BaseException as error:
            self._fail(error, batch)
            if isinstance(error, asyncio.CancelledError):
                raise
            self._on_fatal(error)

    async def _wait(self) -> None:
        """Wait for records; when none come and the last batch has no witness yet, ask for one."""
        self._arrived.clear()
        if not self._is_witnessed and self._alarm is None:
            self._watch_idleness(self._durable)
        await self._arrived.wait()

    def _watch_idleness(self, durable: int) -> None:
        """Look again later whether anything came after a record; one timer serves all batches."""
        later = asyncio.get_running_loop().call_later
        self._alarm = later(self._options.witness_seconds, self._look_for_idleness, durable)

    def _look_for_idleness(self, durable: int) -> None:
        self._alarm = None
        if self._is_closing or self._is_witnessed or self._failure is not None:
            return
        if durable == self._durable and not self._queue and self._busy_since is None:
            self._on_idle()
        else:
            self._watch_idleness(self._durable)

    def _take_batch(self) -> list[_Pending[SubjectT]]:
        """Take from the queue what fits into the segment; nothing when a new one is needed."""
        if self._segments.is_starved:
            self._turn_away()
            self._let_fences_go_ahead()
        room = self._options.segment_bytes - self._offset
        room_for_runs = self._room_for_runs(room)
        batch: list[_Pending[SubjectT]] = []
        size = 0
        while self._queue:
            pending = self._queue[0]
            size += RECORD_HEADER_BYTES + len(pending.body)
            is_run = pending.kind is RecordKind.RUN
            if size > (room_for_runs if is_run else room):
                break
            if batch and size > self._options.batch_bytes_max:
                break
            batch.append(self._queue.popleft())
        return batch

    def _room_for_runs(self, room: int) -> int:
        """Return how much of the space in the segment runs may take now."""
        if self._segments.is_ready:
            return room
        return 0 if self._segments.is_starved else room - self._options.last_bytes

    def _let_fences_go_ahead(self) -> None:
        """Put fences before records that wait for space: these are of recoveries, in any order.

        (A key that a fence overtakes is in the fence too.)
        """
        fences = [pending for pending in self._queue if pending.kind is RecordKind.FENCE]
        if fences:
            others = (each for each in self._queue if each.kind is not RecordKind.FENCE)
            self._queue = deque((*fences, *others))

    async def _wait_for_segment(self) -> None:
        """Wait until the next segment is there, or something comes that may need none."""
        if self._waits_since is None:
            self._waits_since = asyncio.get_running_loop().time()
        self._arrived.clear()
        await self._arrived.wait()

    async def _roll(self) -> None:
        segment = await self._segments.take()
        old, self._segment, self._offset = self._segment, segment, BLOCK_BYTES
        await old.file.close()

    def _turn_away(self) -> None:
        """Refuse records that wait for a segment without disk space, and need not wait."""
        refused = [pending for pending in self._queue if not pending.can_wait]
        self._queue = deque(pending for pending in self._queue if pending.can_wait)
        for pending in refused:
            self._on_refused(pending.subject)
            tell(pending.answered, ReadOnlyBookieError(self._bookie, FULL))
        self._arrived.set()

    async def _commit(self, batch: list[_Pending[SubjectT]]) -> None:
        data, end = self._encode(batch)
        assert not self._offset % BLOCK_BYTES, f"offset {self._offset} starts no block"
        assert end <= self._options.segment_bytes, f"the batch ends at {end}, after its segment"
        now = asyncio.get_running_loop().time
        begun = now()
        await self._segment.file.write(self._offset, data, sync=True)
        durable = now()
        self.counts.batches += 1
        self.counts.microseconds += round(1e6 * (durable - begun))
        self.counts.bytes += end - self._offset
        self._recent.append(durable - begun)
        self._offset = end
        self._durable += len(batch)
        self._is_witnessed = all(pending.kind is RecordKind.MARK for pending in batch)
        self._apply([pending.subject for pending in batch])
        for pending in batch:
            if pending.trace is not None:
                pending.trace.begun, pending.trace.durable = begun, durable
            tell(pending.answered, None)

    def _encode(self, batch: list[_Pending[SubjectT]]) -> tuple[list[bytes], int]:
        """Return the buffers of a batch, padded to whole blocks, and where the next one begins."""
        data: list[bytes] = []
        identity = self._segment.header.identity
        size = 0
        for number, pending in enumerate(batch, 1):
            flags = LAST_OF_BATCH if number == len(batch) else 0
            header = encode_record(
                pending.kind, pending.body, self._durable + number, self._durable, identity, flags
            )
            data += (header, pending.body)
            size += len(header) + len(pending.body)
        end = align(self._offset + size)
        data.append(_ZEROS[: end - self._offset - size])
        return data, end

    def _fail(self, error: BaseException, batch: list[_Pending[SubjectT]]) -> None:
        self._failure = error
        waiting = [*batch, *self._queue]
        self._queue.clear()
        for pending in waiting:
            tell(pending.answered, self._unavailable())

    async def close(self) -> None:
        """Refuse new records, make those queued durable, and stop."""
        self._is_closing = True
        self._arrived.set()
        self._forget_alarm()
        if self._task is not None:
            await self._task
            await self._segments.close()
            await self._segment.file.close()

    async def abort(self) -> None:
        """Stop as a crash would: queued records are lost."""
        self._forget_alarm()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            await self._segments.close()
            await self._segment.file.close()

    def _forget_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
