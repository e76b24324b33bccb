"""Reads at one bookie: the client's end of a connection for them.

All reads of a client at a bookie share one connection, and are answered in any order. It is made
for the first of them. A bookie that does not offer reads there, has no place for one more
connection, or cannot be reached there, is left alone for a while: its reads are calls over gRPC
meanwhile (remote.py). So are reads for which the connection is not made in a moment: a network may
drop what is sent to this port, and let gRPC pass.

A connection breaks as a whole: the reads on it end, and the next one makes another. A connection
that brings nothing for the whole time of a read is used no more: its other side may be gone without
a word. After new certificates it is used no more, either. Both go with their last answer, or with
its time. A connection without a read for a minute is ended, too: a bookie has places for so many.

A read has one limit of time, for its connection and its answer.

Not here: how messages travel (wire/run_calls.py), and what is in an answer (fetch.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from typing import Final

from quire.aio.once import Once
from quire.aio.tasks import Tasks
from quire.aio.timing import time_limit
from quire.entry import BookieId
from quire.errors import BookieUnavailableError, QuireError
from quire.ledger.news_link import CLOSED, LEFT_ALONE_SECONDS, error_of
from quire.wire import bookie_pb2 as pb
from quire.wire.framed_reads import REFUSAL, encode_give_up, encode_question, number_of
from quire.wire.reads import NoMessageError, decode_part
from quire.wire.run_calls import (
    ReadCall,
    StreamOverError,
    StreamRefusedError,
    StreamUntrustedError,
)

LONG_SHARE: Final = 0.9
"""This part of a read's time is all of it: a connection made for it took the rest."""

IDLE_SECONDS: Final = 60.0
"""A connection without a read for so long is ended."""

PATIENCE_SECONDS: Final = 0.5
"""How long reads wait for a connection: some ways to and fro between continents."""

PATIENCE_SHARE: Final = 0.25
"""They wait for this part of their time at most: the other way needs some of it."""

MUTE_MAX: Final = 2
"""After so many connections in a row that said hello and nothing else the port is left alone."""

UNREACHED_SECONDS: Final = 1.0
"""How long a port that could not be reached is left alone."""


class _Gathering:
    """One answer on its way, with the parts that have come."""

    __slots__ = ("answered", "parts", "received")

    def __init__(self, answered: asyncio.Future[bytes]) -> None:
        self.answered = answered
        self.parts: list[bytes | memoryview] = []
        self.received = 0

    def take(self, message: bytes, at: int, size_max: int) -> bool:
        """Take a part in; return whether it was the last. Raises `NoMessageError`."""
        try:
            size, data = decode_part(message, at)
        except QuireError as error:
            self._settle(error)
            return True
        self.received += len(data)
        if not data or self.received > size or size > size_max:
            raise NoMessageError(f"{self.received} of {size} bytes of a run")
        self.parts.append(data)
        if self.received < size:
            return False
        self._settle(b"".join(self.parts))
        return True

    def _settle(self, outcome: bytes | QuireError) -> None:
        if self.answered.done():
            return
        if isinstance(outcome, QuireError):
            self.answered.set_exception(outcome)
        else:
            self.answered.set_result(outcome)


class ReadFeed:
    """One connection, from its first read to its break."""

    def __init__(self, call: ReadCall, bookie: BookieId, size_max: int, seconds: float) -> None:
        """Answers are of `size_max` bytes at most, and a read takes `seconds` at most."""
        self.call = call
        self.broken: QuireError | None = None
        self._bookie = bookie
        self._size_max = size_max
        self._seconds = seconds
        self._last = 0
        self._gathering: dict[int, _Gathering] = {}
        self._writing = asyncio.Lock()
        self._heard_at = _now()
        """Time of the last message of the bookie; its hello was one."""
        self.is_retired = False
        """Whether it goes with its last answer: the next read uses another connection."""
        self.is_mute = True
        """Whether the bookie has said nothing but hello."""
        self._tasks = Tasks()
        self._tasks.start(self._receive(), f"reads at bookie {bookie}")
        self._look_for_use(-1)

    async def read(self, request: pb.ReadRequest, request_id: str, ends: float) -> bytes:
        """Return the run that the bookie answers until a time of the loop.

        Raises:
            QuireError: the bookie's, and `BookieUnavailableError` for a connection that breaks, or
                when no answer came in time.

        Cancellation: the bookie hears that the answer is wanted no more.
        """
        self._last = number = self._last + 1
        loop, is_asked = asyncio.get_running_loop(), False
        begun = loop.time()
        found = self._gathering[number] = _Gathering(loop.create_future())
        try:
            if self.broken is not None:
                raise copy(self.broken)
            question = encode_question(number, request_id, request.SerializeToString())
            async with time_limit(max(0.0, ends - begun)):
                async with self._writing:
                    await self.call.write(*question)
                is_asked = True
                return await found.answered
        except TimeoutError:
            error = self._unavailable(f"no answer within {self._seconds:g} s")
            self._look_for_silence(begun, is_asked, error)
            raise error from None
        except StreamOverError as error:
            if self.broken is not None:  # the reason is known better
                raise copy(self.broken) from error
            raise error_of(self._bookie, error) from error
        finally:
            if not found.answered.cancel() and not found.answered.cancelled():
                found.answered.exception()  # looked at: the caller may be gone
            is_open = self._gathering.pop(number, None) is not None and self.broken is None
            if is_asked and is_open:
                self._tasks.start(self._give_up(number), f"a read given up at {self._bookie}")
            self._end_if_last()

    def _look_for_silence(self, begun: float, is_asked: bool, error: QuireError) -> None:
        """The time of a read is over: use the connection no more if it was as long without a word,
        or end it if nothing leaves.
        """
        now, long = _now(), LONG_SHARE * self._seconds
        if not is_asked and now - begun >= long:
            self.fail(error)
        elif now - self._heard_at >= long:
            self.retire()

    def _look_for_use(self, last: int) -> None:
        """End the connection if no read has come since the last look."""
        if self._last == last and not self._gathering:
            self._fail(CLOSED)
        elif self.broken is None:
            loop = asyncio.get_running_loop()
            self._idle = loop.call_later(IDLE_SECONDS, self._look_for_use, self._last)

    async def _give_up(self, number: int) -> None:
        try:
            async with self._writing:
                await self.call.write(encode_give_up(number))
        except StreamOverError:
            pass  # there is nothing left to give up

    async def _receive(self) -> None:
        try:
            while (message := await self.call.read()) is not None:
                self._heard_at = _now()
                self.is_mute = False
                self._take(message)
            self._fail("it closed the connection")
        except (NoMessageError, StreamOverError) as error:
            self.fail(error_of(self._bookie, error))
        except QuireError as error:
            self.fail(error)
        finally:
            self._fail("the connection was closed")

    def _take(self, message: bytes) -> None:
        number, at = number_of(message)
        if number == REFUSAL:
            decode_part(message, at)  # raises the reason
            raise NoMessageError("a refusal without a reason")
        found = self._gathering.get(number)
        if found is None:
            if number > self._last:
                raise NoMessageError(f"an answer to read {number}, which was not asked")
            return  # it was given up meanwhile
        if found.take(message, at, self._size_max):
            del self._gathering[number]

    @property
    def is_usable(self) -> bool:
        """Whether the next read may use it."""
        return self.broken is None and not self.is_retired

    def retire(self) -> None:
        """End the connection with its last answer."""
        self.is_retired = True
        self._end_if_last()

    def _end_if_last(self) -> None:
        if self.is_retired and not self._gathering:
            self._fail(CLOSED)

    def fail(self, error: QuireError) -> None:
        """End the connection and all reads. The first reason given stays."""
        if self.broken is not None:
            return
        self.broken = error
        self._idle.cancel()
        gathering, self._gathering = self._gathering, {}
        for found in gathering.values():
            if not found.answered.done():
                found.answered.set_exception(copy(error))
        self.call.cancel()
        self._tasks.cancel_others()

    def _fail(self, reason: str) -> None:
        self.fail(self._unavailable(reason))

    def _unavailable(self, reason: str) -> BookieUnavailableError:
        return BookieUnavailableError(self._bookie, reason)

    def end(self) -> None:
        """End the connection; `close` waits for its tasks."""
        self._fail(CLOSED)

    async def close(self) -> None:
        """End the connection; return when its tasks have ended."""
        self.end()
        await self._tasks.stop()


class _Attempt:
    """An attempt to make a connection, until its outcome is known."""

    def __init__(self, call: ReadCall, patient_until: float) -> None:
        self.call = call
        self.patient_until = patient_until
        self.is_over = Once()
        self.outcome: ReadFeed | QuireError | None = None
        """None: the bookie has to be asked in another way."""


class ReadLink:
    """The reads of one link.

    `open_call` opens a connection, or returns None where the bookie has no port for it.
    `is_outdated` tells whether a connection has to be replaced. Answers are of `size_max` bytes at
    most.
    """

    def __init__(
        self,
        bookie: BookieId,
        open_call: Callable[[], ReadCall | None],
        timeout: float,
        size_max: int,
        is_outdated: Callable[[ReadCall], bool] = lambda _: False,
    ) -> None:
        self._bookie = bookie
        self._open_call = open_call
        self._timeout = timeout
        self._size_max = size_max
        self._is_outdated = is_outdated
        self._feed: ReadFeed | None = None
        self._before: list[ReadFeed] = []
        """Feeds that were replaced, and may still be ending."""
        self._opening: _Attempt | None = None
        self._tasks = Tasks()
        self._is_closed = False
        self._mute = 0
        """Connections in a row that said hello and nothing else."""
        self._left_alone_until = float("-inf")

    async def read(self, request: pb.ReadRequest, request_id: str) -> bytes | None:
        """Return the run that the bookie answers; None if it has to be asked in another way.

        Raises as `ReadFeed.read`, and `ClientRefusedError` and `UntrustedBookieError`.
        """
        feed, ends = self._feed, _now() + self._timeout
        if feed is None or not feed.is_usable or self._is_outdated(feed.call):
            feed = await self._another(feed)
            if feed is None:
                return None
        return await feed.read(request, request_id, ends)

    async def _another(self, before: ReadFeed | None) -> ReadFeed | None:
        """Return a connection in place of another; None if the bookie is asked in another way."""
        if self._is_closed:
            raise self._unavailable(CLOSED)
        opening = self._opening
        if opening is None:
            if before is not None:
                self._replace(before)
            opening = self._begin_to_open()
            if opening is None:
                return None
        with suppress(TimeoutError):
            async with time_limit(max(0.0, opening.patient_until - _now())):
                await opening.is_over.wait()
        outcome = opening.outcome
        if isinstance(outcome, QuireError):
            raise copy(outcome) from outcome.__cause__
        return outcome if outcome is not None and outcome.is_usable else None

    def _replace(self, feed: ReadFeed) -> None:
        """Use a connection no more. The port is left alone if it says no more than hello."""
        self._mute = self._mute + 1 if feed.is_mute and not feed.is_usable else 0
        if self._mute >= MUTE_MAX:
            self._leave_alone(LEFT_ALONE_SECONDS)
        self._feed = None
        feed.retire()
        self._before = [*(each for each in self._before if each.broken is None), feed]

    def _begin_to_open(self) -> _Attempt | None:
        call = None if _now() < self._left_alone_until else self._open_call()
        if call is None:
            return None
        patience = min(PATIENCE_SECONDS, PATIENCE_SHARE * self._timeout)
        self._opening = opening = _Attempt(call, _now() + patience)
        self._tasks.start(self._open(opening), f"a connection for reads at {self._bookie}")
        return opening

    async def _open(self, opening: _Attempt) -> None:
        """Open a connection; reads wait for the outcome, or not any more."""
        outcome = None
        try:
            async with time_limit(self._timeout):
                outcome = await self._meet(opening.call)
        except TimeoutError:
            pass  # it took longer than the patience
        finally:
            self._settle(opening, outcome)

    def _settle(self, opening: _Attempt, outcome: ReadFeed | QuireError | None) -> None:
        """An attempt is over. The first outcome stays. A port that took longer than the patience to
        say no is left alone, whatever it said: else each read would wait for it again.
        """
        if opening.is_over.has_happened:
            return
        opening.outcome = outcome
        if isinstance(outcome, ReadFeed):
            self._feed = outcome
        else:
            opening.call.cancel()
            if _now() >= opening.patient_until:
                self._leave_alone(LEFT_ALONE_SECONDS)
        self._opening = None
        opening.is_over.happen()

    async def _meet(self, call: ReadCall) -> ReadFeed | QuireError | None:
        try:
            if await call.is_offered():
                return ReadFeed(call, self._bookie, self._size_max, self._timeout)
        except StreamRefusedError as error:
            if not error.refusal.is_passing:
                return self._denial(error)
        except (NoMessageError, StreamUntrustedError) as error:
            return self._denial(error)
        except StreamOverError:
            self._leave_alone(UNREACHED_SECONDS)
            return None
        self._leave_alone(LEFT_ALONE_SECONDS)
        return None

    def _denial(self, error: NoMessageError | StreamOverError) -> QuireError:
        denial = error_of(self._bookie, error)
        denial.__cause__ = error
        return denial

    def _leave_alone(self, seconds: float) -> None:
        self._left_alone_until = _now() + seconds

    def _unavailable(self, reason: str) -> BookieUnavailableError:
        return BookieUnavailableError(self._bookie, reason)

    async def close(self) -> None:
        """End the connection, or the attempt to make it. Cancellation: they have ended, but for
        their tasks.
        """
        self._is_closed = True
        if self._opening is not None:
            self._settle(self._opening, self._unavailable(CLOSED))
        feeds = [*self._before, *([self._feed] if self._feed else [])]
        for feed in feeds:
            feed.end()
        await self._tasks.stop()
        for feed in feeds:
            await feed.close()


def _now() -> float:
    return asyncio.get_running_loop().time()
