"""The account of a stream: its runs that are queued, numbered, and not yet answered.

A run gets its number and a place in the queue at once; a message takes as many of the queue as it
may have; a reply settles runs by number. All of it happens in steps: no method waits, and the tasks
that do are those of run_stream.py. Runs, unlike messages, come by the thousands a second, so this
part may be compiled (docs/decisions/0068-compiled-wheels.md), which a coroutine may not be.

Not here: why a stream breaks, and what else ends with it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from quire.aio.answer import Answered, tell
from quire.entry import BookieId
from quire.errors import BookieBusyError, QuireError
from quire.requests import SlowRequests, Trace, run_id
from quire.run import peek
from quire.wire import bookie_pb2 as pb
from quire.wire.adds import EncodedRun, encode_request
from quire.wire.codec import decode_failure
from quire.wire.reads import NoMessageError


class WaitingRun(Trace):
    """An add between its call and its answer; it is `begun` when it is sent."""

    __slots__ = ("answered", "encoded")

    def __init__(self, answered: Answered, since: float, encoded: EncodedRun) -> None:
        super().__init__(since)
        self.answered = answered
        self.encoded = encoded


class StreamName(NamedTuple):
    """A stream in the log of slow requests, and that log."""

    stream: str
    """Its id, which the bookie knows too."""
    peer: str
    """The bookie's address."""
    slow: SlowRequests


class RunAccount:
    """The runs of one stream, from its first to its break."""

    def __init__(
        self,
        bookie: BookieId,
        timeout: float,
        overdue: Callable[[], None],
        name: StreamName | None,
        *,
        queued_max: int,
        message_max: int,
    ) -> None:
        """Begin without runs; needs a running loop.

        Args:
            bookie: the bookie they go to.
            timeout: the seconds within which a run is answered.
            overdue: called when the oldest run got no answer in time, until `lose`.
            name: names for the log of slow requests; without it, slow runs are not logged.
            queued_max: the bytes of runs that may wait to be sent.
            message_max: the bytes of runs in a message. A larger run has one of its own.
        """
        self._bookie = bookie
        self._timeout = timeout
        self._overdue: Callable[[], None] | None = overdue
        self._name = name
        self._queued_max = queued_max
        self._message_max = message_max
        self._loop = asyncio.get_running_loop()
        self.queue: deque[WaitingRun] = deque()
        """The runs that no message has taken."""
        self.queued = asyncio.Event()
        """Set when a run comes into an empty queue."""
        self._queued_bytes = 0
        self.waiting: dict[int, WaitingRun] = {}
        """The runs without an answer, by number."""
        self.last_sent = 0
        """The number of the last run that a message has taken."""
        self._last_submitted = 0
        self._last_settled = 0
        self._alarm: asyncio.TimerHandle | None = None
        self._drained: asyncio.Future[None] | None = None

    def send(self, encoded: EncodedRun, answered: Answered) -> None:
        """Queue a run after all others. `answered` is called in the step that learns the outcome,
        which a future would not be: answers of many ledgers cost the loop no turn.

        Raises `BookieBusyError` when too many bytes wait.
        """
        queue, queued = self.queue, self._queued_bytes + encoded.size
        if queue and queued > self._queued_max:
            raise BookieBusyError(self._bookie, f"{self._queued_bytes} bytes wait to be sent to it")
        self._last_submitted = number = self._last_submitted + 1
        self.waiting[number] = waiting = WaitingRun(answered, self._loop.time(), encoded)
        if not queue:
            self.queued.set()
        queue.append(waiting)
        self._queued_bytes = queued
        if self._alarm is None:
            self._alarm = self._loop.call_later(self._timeout, self._check_oldest)

    def next_message(self) -> list[bytes]:
        """Take runs off the queue, up to the size of a message; return its parts."""
        first, runs, total = self.last_sent + 1, list[EncodedRun](), 0
        queue, now = self.queue, self._loop.time()
        while queue:
            encoded = queue[0].encoded
            if total and total + encoded.size > self._message_max:
                break
            queue.popleft().begun = now
            runs.append(encoded)
            total += encoded.size
        self.last_sent += len(runs)
        self._queued_bytes -= total
        return encode_request(first, self._bookie if first == 1 else None, runs)

    def settle(self, reply: pb.AddReply) -> None:
        """Answer the runs that a reply settles.

        Raises `NoMessageError` for a reply that fits no runs under way.
        """
        waiting, last = self.waiting, reply.settled
        if last > self.last_sent:
            raise NoMessageError(f"it settles run {last}, which was not sent")
        self._tell_slow(last)
        for failed in reply.failures:
            if failed.number not in waiting or failed.number > last:
                raise NoMessageError(f"run {failed.number} fails, which it does not settle")
            tell(waiting.pop(failed.number).answered, decode_failure(failed.failure))
        # By number: to look for the first key of a dictionary passes all that were taken out.
        for number in range(self._last_settled + 1, last + 1):
            if (settled := waiting.pop(number, None)) is not None:
                tell(settled.answered, None)
        self._last_settled = max(self._last_settled, last)
        self._tell_drained()

    def lose(self, reason: str) -> list[WaitingRun]:
        """Take off all runs, when the stream breaks; `fail` answers the returned runs."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._overdue = None
        self._tell_slow(self._last_submitted, reason)
        lost, self.waiting = self.waiting, {}
        self.queue.clear()
        return list(lost.values())

    def fail(self, lost: list[WaitingRun], error: QuireError) -> None:
        """Answer the runs that were lost."""
        for waiting in lost:
            tell(waiting.answered, error)
        self._tell_drained()

    def drained(self) -> asyncio.Future[None] | None:
        """Return what ends when no run is under way any more; None if none is."""
        if not self.waiting:
            return None
        self._drained = self._loop.create_future()
        return self._drained

    def _tell_drained(self) -> None:
        if not self.waiting and self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def _tell_slow(self, last: int, failure: str = "") -> None:
        """Log the runs up to a number that took long. If the oldest did not, none did."""
        if self._name is None or not self.waiting:
            return
        stream, peer, slow = self._name
        now = self._loop.time()
        if now - self.waiting[next(iter(self.waiting))].arrived < slow.seconds:
            return
        for number, each in self.waiting.items():
            if number > last:
                return
            run = each.encoded.run
            ledger, entry = peek(run) or (None, None)
            about = {"ledger": ledger, "entry": entry, "bookie": self._bookie, "peer": peer}
            about["failure"] = failure
            kind = "add" if run else "write_lac"
            slow.tell(kind, each, now, run_id(stream, number), about)

    def _check_oldest(self) -> None:
        """Tell when the oldest run is overdue; one alarm serves all of them."""
        self._alarm = None
        if not self.waiting:
            return
        due = self.waiting[next(iter(self.waiting))].arrived + self._timeout
        if due > self._loop.time():
            self._alarm = self._loop.call_at(due, self._check_oldest)
        elif self._overdue is not None:
            self._overdue()
