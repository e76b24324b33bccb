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
process. Not here: the queue and the steps of a batch (queue.py), the bytes (record.py), the files
(segments.py), what records mean (node.py), bounds (memory_limiter.py).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, TypeVar

from quire.aio.answer import settle, tell
from quire.errors import ReadOnlyBookieError
from quire.storage.disk.blocks import BLOCK_BYTES
from quire.storage.journal.options import StorageOptions
from quire.storage.journal.queue import QueuedRecord, RecordQueue, encode_batch, tell_durable
from quire.storage.journal.record import RecordKind
from quire.storage.journal.replay import JournalPosition
from quire.storage.journal.segments import JournalSegment, Segments

SubjectT = TypeVar("SubjectT")

FULL: Final = "its disk is full"

RECENT_BATCHES: Final = 1024
"""Batches of the percentile: a second of a busy journal, and 8 KiB of memory."""


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
        self.queue: Final = RecordQueue[SubjectT](bookie)
        segments.on_ready = self.queue.arrived.set
        self._busy_since: float | None = None
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
        self.counts.waiting = len(self.queue.records)
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
        """Queue a record; the future is done when it is durable and applied. As `RecordQueue.put`.

        Cancelling the future abandons the wait, not the record.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.queue.put(kind, body, subject, partial(settle, done), can_wait)
        return done

    async def _run(self) -> None:
        queue = self.queue
        batch: list[QueuedRecord[SubjectT]] = []
        try:
            while queue.records or not queue.is_closing:
                if not queue.records:
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
            queue.fail(error, batch)
            if isinstance(error, asyncio.CancelledError):
                raise
            self._on_fatal(error)

    async def _wait(self) -> None:
        """Wait for records; when none come and the last batch has no witness yet, ask for one."""
        self.queue.arrived.clear()
        if not self._is_witnessed and self._alarm is None:
            self._watch_idleness(self._durable)
        await self.queue.arrived.wait()

    def _watch_idleness(self, durable: int) -> None:
        """Look again later whether anything came after a record; one timer serves all batches."""
        later = asyncio.get_running_loop().call_later
        self._alarm = later(self._options.witness_seconds, self._look_for_idleness, durable)

    def _look_for_idleness(self, durable: int) -> None:
        self._alarm = None
        if self.queue.is_closing or self._is_witnessed or self.queue.failure is not None:
            return
        if durable == self._durable and not self.queue.records and self._busy_since is None:
            self._on_idle()
        else:
            self._watch_idleness(self._durable)

    def _take_batch(self) -> list[QueuedRecord[SubjectT]]:
        """Take from the queue what fits into the segment; nothing when a new one is needed."""
        if self._segments.is_starved:
            self._turn_away()
            self.queue.let_fences_go_ahead()
        room = self._options.segment_bytes - self._offset
        return self.queue.take_batch(room, self._room_for_runs(room), self._options.batch_bytes_max)

    def _room_for_runs(self, room: int) -> int:
        """Return how much of the space in the segment runs may take now."""
        if self._segments.is_ready:
            return room
        return 0 if self._segments.is_starved else room - self._options.last_bytes

    async def _wait_for_segment(self) -> None:
        """Wait until the next segment is there, or something comes that may need none."""
        if self._waits_since is None:
            self._waits_since = asyncio.get_running_loop().time()
        self.queue.arrived.clear()
        await self.queue.arrived.wait()

    async def _roll(self) -> None:
        segment = await self._segments.take()
        old, self._segment, self._offset = self._segment, segment, BLOCK_BYTES
        await old.file.close()

    def _turn_away(self) -> None:
        """Refuse records that wait for a segment without disk space, and need not wait."""
        for queued in self.queue.take_what_cannot_wait():
            self._on_refused(queued.subject)
            tell(queued.answered, ReadOnlyBookieError(self._bookie, FULL))
        self.queue.arrived.set()

    async def _commit(self, batch: list[QueuedRecord[SubjectT]]) -> None:
        data, end = encode_batch(batch, self._segment.header.identity, self._durable, self._offset)
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
        self._is_witnessed = all(queued.kind is RecordKind.MARK for queued in batch)
        self._apply([queued.subject for queued in batch])
        tell_durable(batch, begun, durable)

    async def close(self) -> None:
        """Refuse new records, make those queued durable, and stop."""
        self.queue.is_closing = True
        self.queue.arrived.set()
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
