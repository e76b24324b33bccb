"""The runs on their way to one bookie: a stream, from its first run to its break.

`submit` puts a run into the stream's queue at once and gives it a number; one task sends all queued
runs as one message when the message before has left, another answers the waiting adds by the
numbers that come back. There is no timer between them: a message has the runs that arrived while
the previous message was under way.

A stream breaks as a whole. When the connection is lost, or the oldest run got no answer in time,
every run without an answer fails with `BookieUnavailableError`. Nothing is sent twice here: whether
to send again is the decision of ledger code. Not here: how messages travel (wire/run_calls.py).
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import Final, NamedTuple

from quire.aio.answer import Answered, resolve, tell
from quire.entry import BookieId
from quire.errors import (
    BookieBusyError,
    BookieUnavailableError,
    ClientRefusedError,
    QuireError,
    UntrustedBookieError,
)
from quire.requests import SlowRequests, Trace, run_id
from quire.run import peek
from quire.wire import bookie_pb2 as pb
from quire.wire.adds import EncodedRun, encode_request
from quire.wire.codec import decode_failure
from quire.wire.hello import Refusal
from quire.wire.reads import NoMessageError
from quire.wire.run_calls import (
    RunCall,
    StreamOverError,
    StreamRefusedError,
    StreamUntrustedError,
)
from quire.wire.transport import BATCH_BYTES_MAX

QUEUED_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes of runs that may wait to be sent; beyond it an add is refused with `BookieBusyError`."""

NO_MESSAGE: Final = "its answer is not a message"


class _Waiting(Trace):
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


class RunStream:
    """One stream of adds, from its first run to its break. Never mended: a new one takes its
    place.

    A stream `after` another, which gets no more runs, sends its first run once all runs of the
    other are settled: the order stays, whatever connections they take. If the other loses runs,
    this one breaks too, as if they were one.
    """

    def __init__(
        self,
        call: RunCall,
        bookie: BookieId,
        timeout: float,
        after: RunStream | None = None,
        name: StreamName | None = None,
    ) -> None:
        """Without a name, slow runs are not logged."""
        self.broken: QuireError | None = None
        self._name = name
        self._after = after
        self._has_lost = False
        """Whether it broke with runs under way."""
        self._drained: asyncio.Future[None] | None = None
        self._call = call
        self._bookie = bookie
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._queue: deque[_Waiting] = deque()
        self._queued_bytes = 0
        self._queued = asyncio.Event()
        self._last_sent = 0
        self._last_submitted = 0
        self._last_settled = 0
        self._waiting: dict[int, _Waiting] = {}
        self._alarm: asyncio.TimerHandle | None = None
        self._sending = asyncio.create_task(self._send())
        self._receiving = asyncio.create_task(self._receive())

    @property
    def ended(self) -> bool:
        return self._sending.done() and self._receiving.done()

    @property
    def end(self) -> float | None:
        """When the bookie's certificate ends, as the connection was told."""
        return self._call.end

    def submit(self, encoded: EncodedRun) -> asyncio.Future[None]:
        """Queue a run after all others; the future resolves when it is durable, or fails. The
        future of an explicit LAC resolves when the bookie has noted it.
        """
        future: asyncio.Future[None] = self._loop.create_future()
        self.send(encoded, partial(resolve, future))
        return future

    def send(self, encoded: EncodedRun, answered: Answered) -> None:
        """Queue a run after all others. `answered` is called in the step that learns the outcome,
        which a future would not be: answers of many ledgers cost the loop no turn.

        Raises `BookieBusyError` when too many bytes wait.
        """
        queue, queued = self._queue, self._queued_bytes + encoded.size
        if queue and queued > QUEUED_BYTES_MAX:
            raise BookieBusyError(self._bookie, f"{self._queued_bytes} bytes wait to be sent to it")
        self._last_submitted = number = self._last_submitted + 1
        self._waiting[number] = waiting = _Waiting(answered, self._loop.time(), encoded)
        if not queue:
            self._queued.set()
        queue.append(waiting)
        self._queued_bytes = queued
        if self._alarm is None:
            self._alarm = self._loop.call_later(self._timeout, self._check_oldest)

    async def _settled(self) -> None:
        """Return when no run is under way."""
        while self._waiting:
            self._drained = self._loop.create_future()
            await self._drained

    async def _follow(self, before: RunStream) -> None:
        """Wait for the end of the stream before this one."""
        await before._settled()
        if before._has_lost and before.broken is not None:
            self._break(before.broken)
            return
        await before.close()

    async def _send(self) -> None:
        before, self._after = self._after, None
        if before is not None:
            await self._follow(before)
        try:
            while True:
                await self._queued.wait()
                self._queued.clear()
                while self._queue:
                    await self._call.write(*self._next_message())
        except StreamOverError:
            pass  # reading it tells why

    def _next_message(self) -> list[bytes]:
        """Take runs off the queue, up to the size of a message; return its parts."""
        first, runs, total = self._last_sent + 1, list[EncodedRun](), 0
        queue, now = self._queue, self._loop.time()
        while queue:
            encoded = queue[0].encoded
            if total and total + encoded.size > BATCH_BYTES_MAX:
                break
            queue.popleft().begun = now
            runs.append(encoded)
            total += encoded.size
        self._last_sent += len(runs)
        self._queued_bytes -= total
        return encode_request(first, self._bookie if first == 1 else None, runs)

    async def _receive(self) -> None:
        reason = "it closed the connection"
        try:
            while (reply := await self._call.read()) is not None:
                if reply.HasField("refusal"):
                    self._break(decode_failure(reply.refusal))
                    return
                self._settle(reply)
        except StreamRefusedError as error:
            self._break(_refused(self._bookie, error.refusal))
        except StreamUntrustedError as error:
            self._break(UntrustedBookieError(self._bookie, str(error)))
        except NoMessageError as error:
            reason = f"{NO_MESSAGE}: {error}"
        except StreamOverError as error:
            reason = str(error)
        except asyncio.CancelledError:
            reason = "the connection was closed"
            raise
        finally:
            self._break(BookieUnavailableError(self._bookie, reason))

    def _settle(self, reply: pb.AddReply) -> None:
        waiting = self._waiting
        if reply.settled > self._last_sent:
            raise NoMessageError(f"it settles run {reply.settled}, which was not sent")
        self._tell_slow(reply.settled)
        for failed in reply.failures:
            if failed.number not in waiting or failed.number > reply.settled:
                raise NoMessageError(f"run {failed.number} fails, which it does not settle")
            tell(waiting.pop(failed.number).answered, decode_failure(failed.failure))
        # By number: to look for the first key of a dictionary passes all that were taken out.
        for number in range(self._last_settled + 1, reply.settled + 1):
            if (settled := waiting.pop(number, None)) is not None:
                tell(settled.answered, None)
        self._last_settled = max(self._last_settled, reply.settled)
        self._tell_drained()

    def _tell_slow(self, last: int, failure: str = "") -> None:
        """Log the runs up to a number that took long. If the oldest did not, none did."""
        if self._name is None or not self._waiting:
            return
        stream, peer, slow = self._name
        now = self._loop.time()
        if now - self._waiting[next(iter(self._waiting))].arrived < slow.seconds:
            return
        for number, each in self._waiting.items():
            if number > last:
                return
            run = each.encoded.run
            ledger, entry = peek(run) or (None, None)
            about = {"ledger": ledger, "entry": entry, "bookie": self._bookie, "peer": peer}
            about["failure"] = failure
            kind = "add" if run else "write_lac"
            slow.tell(kind, each, now, run_id(stream, number), about)

    def _tell_drained(self) -> None:
        if not self._waiting and self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def _check_oldest(self) -> None:
        """Break the stream when its oldest run is overdue; one alarm serves all of them."""
        self._alarm = None
        if not self._waiting:
            return
        due = self._waiting[next(iter(self._waiting))].arrived + self._timeout
        if due <= self._loop.time():
            self._break(
                BookieUnavailableError(self._bookie, f"no answer within {self._timeout:g} s")
            )
        else:
            self._alarm = self._loop.call_at(due, self._check_oldest)

    def _break(self, error: QuireError) -> None:
        """Fail whatever waits and end both tasks. The first reason given stays."""
        if self.broken is not None:
            return
        self.broken = error
        if self._alarm is not None:
            self._alarm.cancel()
        self._tell_slow(self._last_submitted, str(error))
        lost, self._waiting = self._waiting, {}
        self._has_lost = bool(lost)
        self._queue.clear()
        self._call.cancel()
        self._sending.cancel()
        for waiting in lost.values():
            tell(waiting.answered, error)
        self._tell_drained()

    async def close(self) -> None:
        """Break the stream and return when its tasks have ended."""
        self._break(BookieUnavailableError(self._bookie, "its stub was closed"))
        self._receiving.cancel()
        await asyncio.gather(self._sending, self._receiving, return_exceptions=True)


def _refused(bookie: BookieId, refusal: Refusal) -> QuireError:
    """Return the error of a client that a bookie does not serve.

    A refusal that will pass is a busy bookie. Any other ends the writer: the other bookies would
    refuse this program too, and a change of the ensemble would help nothing.
    """
    if refusal.is_passing:
        return BookieBusyError(bookie, refusal.reason)
    return ClientRefusedError(bookie, refusal.reason)
