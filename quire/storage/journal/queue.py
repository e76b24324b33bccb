"""The records that wait for a journal's batch, and the batch they become: no step here waits.

Each record passes through here twice: when it is queued, and in the batch that makes it durable.
Here is neither a task nor a coroutine, so the module can be compiled (compiling.py). Not here:
when a batch is cut and written (journal.py), the bytes of a record (record.py).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final, Generic, TypeVar

from quire.aio.answer import Answered, tell
from quire.errors import BookieUnavailableError
from quire.requests import TRACE, Trace
from quire.storage.disk.blocks import BLOCK_BYTES, align
from quire.storage.journal.record import (
    LAST_OF_BATCH,
    RECORD_HEADER_BYTES,
    RecordKind,
    encode_record,
)

SubjectT = TypeVar("SubjectT")

_ZEROS: Final = bytes(BLOCK_BYTES)


class QueuedRecord(Generic[SubjectT]):
    """A record that is not durable yet."""

    __slots__ = ("answered", "body", "can_wait", "kind", "subject", "trace")

    def __init__(
        self,
        kind: RecordKind,
        body: bytes,
        subject: SubjectT,
        answered: Answered,
        can_wait: bool,
        trace: Trace | None,
    ) -> None:
        self.kind = kind
        self.body = body
        self.subject = subject
        self.answered = answered
        self.can_wait = can_wait
        """Whether it stays in the queue when the disk is full."""
        self.trace = trace
        """The trace of its request, if a log of slow requests wants it."""


class RecordQueue(Generic[SubjectT]):
    """The queue of one journal, on one loop."""

    def __init__(self, bookie: str) -> None:
        self._bookie = bookie
        self._now = asyncio.get_running_loop().time
        self.records: deque[QueuedRecord[SubjectT]] = deque()
        self.arrived: Final = asyncio.Event()
        """Set with each record; the journal clears it before it waits."""
        self.is_closing = False
        self.failure: BaseException | None = None

    def put(
        self,
        kind: RecordKind,
        body: bytes,
        subject: SubjectT,
        answered: Answered,
        can_wait: bool = True,
        trace: Trace | None = None,
    ) -> None:
        """Queue a record; `answered` is called in the step that finds it durable and applied.

        A record that cannot wait is refused by the journal, with `ReadOnlyBookieError`, when it is
        still in the queue while the disk is too full for another segment. Raises
        `BookieUnavailableError` when the journal failed or is closed.
        """
        if self.is_closing or self.failure is not None:
            raise self._unavailable()
        if trace is None:
            trace = TRACE.get()
        if trace is not None and not trace.accepted:
            trace.accepted = self._now()
        self.records.append(QueuedRecord(kind, body, subject, answered, can_wait, trace))
        self.arrived.set()

    def _unavailable(self) -> BookieUnavailableError:
        reason = "it is closing" if self.failure is None else f"its journal failed: {self.failure}"
        return BookieUnavailableError(self._bookie, reason)

    def take_batch(
        self, room: int, room_for_runs: int, bytes_max: int
    ) -> list[QueuedRecord[SubjectT]]:
        """Take from the queue what fits into the segment; nothing when a new one is needed.

        Args:
            room: bytes that are left in the segment.
            room_for_runs: bytes of them that runs may take.
            bytes_max: bytes of a batch; a larger record is a batch of its own.
        """
        records = self.records
        batch: list[QueuedRecord[SubjectT]] = []
        size = 0
        while records:
            queued = records[0]
            size += RECORD_HEADER_BYTES + len(queued.body)
            is_run = queued.kind is RecordKind.RUN
            if size > (room_for_runs if is_run else room):
                break
            if batch and size > bytes_max:
                break
            batch.append(records.popleft())
        return batch

    def let_fences_go_ahead(self) -> None:
        """Put fences before records that wait for space: these are of recoveries, in any order.

        (A key that a fence overtakes is in the fence too.)
        """
        fences = [queued for queued in self.records if queued.kind is RecordKind.FENCE]
        if fences:
            others = [each for each in self.records if each.kind is not RecordKind.FENCE]
            self.records = deque([*fences, *others])

    def take_what_cannot_wait(self) -> list[QueuedRecord[SubjectT]]:
        """Take the records that do not stay when the disk is full."""
        refused = [queued for queued in self.records if not queued.can_wait]
        self.records = deque([queued for queued in self.records if queued.can_wait])
        return refused

    def fail(self, error: BaseException, batch: list[QueuedRecord[SubjectT]]) -> None:
        """Refuse everything from now on, the records of a batch and those queued as well."""
        self.failure = error
        waiting = [*batch, *self.records]
        self.records.clear()
        for queued in waiting:
            tell(queued.answered, self._unavailable())


def encode_batch(
    batch: Sequence[QueuedRecord[SubjectT]], identity: int, durable: int, offset: int
) -> tuple[list[bytes], int]:
    """Return the buffers of a batch, padded to whole blocks, and where the next one begins.

    Args:
        batch: the records, in order.
        identity: the identity of the segment.
        durable: the number of the last record before the batch.
        offset: where the batch begins in the segment, in bytes.
    """
    data: list[bytes] = []
    size = 0
    for number, queued in enumerate(batch, 1):
        flags = LAST_OF_BATCH if number == len(batch) else 0
        header = encode_record(queued.kind, queued.body, durable + number, durable, identity, flags)
        data += (header, queued.body)
        size += len(header) + len(queued.body)
    end = align(offset + size)
    data.append(_ZEROS[: end - offset - size])
    return data, end


def tell_durable(batch: Sequence[QueuedRecord[SubjectT]], begun: float, durable: float) -> None:
    """Tell that the records of a batch are durable and applied, and note the moments at which its
    write began and ended.
    """
    for queued in batch:
        trace = queued.trace
        if trace is not None:
            trace.begun, trace.durable = begun, durable
        tell(queued.answered, None)
