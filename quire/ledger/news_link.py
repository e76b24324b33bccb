"""Subscriptions at one bookie: the client's end of a connection for news.

All subscriptions of a client at a bookie share one connection. It is made for the first of them. A
bookie that does not offer subscriptions, or has no place for one more connection, is left alone for
a while, and the client asks it instead (`tail`).

A connection breaks as a whole: each subscription on it ends, and its user subscribes again from
where it is. A connection that brings no news in time, not even empty ones, is broken here:
its other side may be gone without a word. A connection without a subscription for a minute
is ended, too: a bookie has places for so many.

Not here: how messages travel (wire/run_calls.py), and the proofs in news (`tail`, `pushed`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from copy import copy
from typing import Final

from quire.aio.once import Once
from quire.aio.tasks import Tasks
from quire.aio.timing import time_limit
from quire.entry import BookieId, EntryId, LedgerId
from quire.errors import (
    BookieUnavailableError,
    ClientRefusedError,
    QuireError,
    UntrustedBookieError,
)
from quire.ledger.run_stream import NO_MESSAGE
from quire.ledger.subscription import PushedNews
from quire.requests import run_id
from quire.wire import bookie_pb2 as pb
from quire.wire.codec import decode_failure
from quire.wire.news import PARTS_MAX, NewsAccount, OverdrawnError, cost_of
from quire.wire.reads import NoMessageError
from quire.wire.run_calls import (
    NewsCall,
    StreamOverError,
    StreamRefusedError,
    StreamUntrustedError,
)

_log = logging.getLogger(__name__)

CREDIT_BYTES: Final = 256 * 1024
"""Bytes of a subscription on their way and unread: a burst of 200 entries of 1 KiB, and more
than a fast connection holds in a millisecond.
"""

QUIET_MS_MAX: Final = 2**32 - 1
"""What the field of the message holds. Bookies take a shorter time in its place."""

LEFT_ALONE_SECONDS: Final = 30.0
"""How long a bookie without subscriptions, or without a place for one, is asked instead."""

IDLE_SECONDS: Final = 60.0
"""A connection without a subscription for so long is ended."""

CLOSED: Final = "its stub was closed"
FENCED: Final = "the subscription ended with a fence"


class PushedTail:
    """One subscription. Implements `Subscription`."""

    def __init__(self, stream: NewsFeed, number: int, seconds: float) -> None:
        self._stream = stream
        self._number = number
        self._seconds = seconds
        self._account = NewsAccount(CREDIT_BYTES)
        self._inbox = deque[tuple[PushedNews, int]]()
        """News that were not taken, and their cost."""
        self._arrival: asyncio.Future[None] | None = None
        self._over: QuireError | None = None
        self._taken = 0
        """Bytes that were taken and not given back."""

    @property
    def is_over(self) -> bool:
        """See `Subscription.is_over`."""
        return self._over is not None and not self._inbox

    async def next(self) -> PushedNews:
        """See `Subscription.next`."""
        try:
            async with time_limit(self._seconds):
                while not self._inbox:
                    if self._over is not None:
                        raise copy(self._over)
                    self._arrival = asyncio.get_running_loop().create_future()
                    await self._arrival
        except TimeoutError:
            reason = f"no news within {self._seconds:g} s, not even empty ones"
            error = BookieUnavailableError(self._stream.bookie, reason)
            self._stream.fail(error)
            raise error from None
        news, cost = self._inbox.popleft()
        self._taken += cost
        return news

    def give_back(self, first: EntryId) -> None:
        """See `Subscription.give_back`. Credit goes back in halves, so that it seldom takes a
        message of its own.
        """
        if self._over is None and self._taken >= CREDIT_BYTES // 2:
            self._account.grant(self._taken)
            self._stream.send_credit(
                pb.Credit(subscription=self._number, bytes=self._taken, first=max(first, 0))
            )
            self._taken = 0

    def close(self) -> None:
        """See `Subscription.close`."""
        if self._over is None:
            self._stream.unsubscribe(self._number)
            self.end(BookieUnavailableError(self._stream.bookie, "the subscription was closed"))

    def put(self, news: pb.News) -> bool:
        """Take in news; return whether they are the last. Raises `OverdrawnError`."""
        if news.HasField("failure"):  # it ends the subscription, and needs no credit
            self.end(decode_failure(news.failure))
            return True
        cost = cost_of(news)
        self._account.spend(cost)
        packet = news.lac_packet if news.HasField("lac_packet") else None
        self._inbox.append((PushedNews(news.run, packet, news.hint, news.fenced), cost))
        self._wake()
        if news.fenced:
            self.end(BookieUnavailableError(self._stream.bookie, FENCED))
        return news.fenced

    def end(self, error: QuireError) -> None:
        """No more news will come. The first reason given stays."""
        if self._over is None:
            self._over = error
        self._wake()

    def _wake(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)


class NewsFeed:
    """One connection, from its first subscription to its break."""

    def __init__(
        self, call: NewsCall, bookie: BookieId, is_outdated: Callable[[NewsCall], bool]
    ) -> None:
        self.bookie = bookie
        self.broken: QuireError | None = None
        self._call = call
        self._is_outdated = is_outdated
        self._is_met = False
        self._last = 0
        self._tails: dict[int, PushedTail] = {}
        self._outbox = deque[pb.Subscribe | pb.Credit | int]()
        self._queued = asyncio.Event()
        self._tasks = Tasks()
        self._tasks.start(self._send(), f"subscriptions at bookie {bookie}")
        self._tasks.start(self._receive(), f"news of bookie {bookie}")
        self._look_for_use(-1)

    def subscribe(
        self,
        ledger: LedgerId,
        above: EntryId,
        first: EntryId,
        quiet: float,
        timeout: float,
        key: bytes = b"",
    ) -> PushedTail:
        """Begin a subscription, without waiting."""
        self._last += 1
        found = PushedTail(self, self._last, quiet + timeout)
        if self.broken is not None:
            found.end(self.broken)
            return found
        self._tails[self._last] = found
        request = run_id(self._call.stream, self._last)
        text = "subscription %s at bookie %s: ledger %d, entry %d and the next"
        _log.debug(text, request, self.bookie, ledger, first, extra={"request": request})
        self._queue(
            pb.Subscribe(
                subscription=self._last,
                ledger=ledger,
                above=above,
                first=first,
                bytes=CREDIT_BYTES,
                quiet_ms=min(round(quiet * 1000), QUIET_MS_MAX),
                key=key,
            )
        )
        return found

    def send_credit(self, credit: pb.Credit) -> None:
        """Give credit back."""
        self._queue(credit)

    def unsubscribe(self, number: int) -> None:
        """End a subscription. News on their way are dropped."""
        if self._tails.pop(number, None) is not None:
            self._queue(number)

    def fail(self, error: QuireError) -> None:
        """End the connection and all subscriptions. The first reason given stays."""
        if self.broken is not None:
            return
        self.broken = error
        self._idle.cancel()
        tails, self._tails = self._tails, {}
        if tails:
            text = "%d subscriptions at bookie %s end (%s…): %s"
            request = run_id(self._call.stream, min(tails))
            about = {"request": request}
            _log.debug(text, len(tails), self.bookie, request, error, extra=about)
        for tail in tails.values():
            tail.end(error)
        self._outbox.clear()
        self._call.cancel()
        self._tasks.cancel_others()

    def _look_for_use(self, last: int) -> None:
        """End the connection if it had no subscription at the last look, and none since.

        `last` is the number of the last subscription at the last look; -1 when one was open.
        """
        if self._last == last and not self._tails:
            self._fail(CLOSED)
        elif self.broken is None:
            loop = asyncio.get_running_loop()
            last = -1 if self._tails else self._last
            self._idle = loop.call_later(IDLE_SECONDS, self._look_for_use, last)

    async def close(self) -> None:
        """End the connection; return when its tasks have ended."""
        self.fail(BookieUnavailableError(self.bookie, CLOSED))
        await self._tasks.stop()

    def _queue(self, part: pb.Subscribe | pb.Credit | int) -> None:
        if self.broken is None:
            self._outbox.append(part)
            self._queued.set()

    async def _send(self) -> None:
        try:
            while True:
                await self._queued.wait()
                self._queued.clear()
                while self._outbox:
                    await self._call.write(self._next_message())
        except StreamOverError:
            pass  # reading it tells why

    def _next_message(self) -> bytes:
        """Take parts off the queue, in order: a message has each kind in one place of its own."""
        message = pb.NewsRequest(bookie=None if self._is_met else self.bookie)
        self._is_met = True
        for _ in range(min(len(self._outbox), PARTS_MAX)):
            part = self._outbox.popleft()
            if isinstance(part, pb.Subscribe):
                message.subscribe.append(part)
            elif isinstance(part, pb.Credit):
                message.credit.append(part)
            else:
                message.unsubscribe.append(part)
        return message.SerializeToString()

    async def _receive(self) -> None:
        try:
            while (reply := await self._call.read()) is not None:
                if reply.HasField("refusal"):
                    self.fail(decode_failure(reply.refusal))
                    return
                for news in reply.news:
                    self._take(news)
                if self._is_outdated(self._call):
                    self._fail("its certificate, or the client's, was renewed")
                    return
            self._fail("it closed the connection")
        except (NoMessageError, StreamOverError) as error:
            self.fail(error_of(self.bookie, error))
        finally:
            self._fail("the connection was closed")

    def _take(self, news: pb.News) -> None:
        tail = self._tails.get(news.subscription)
        if tail is None:
            if not 0 < news.subscription <= self._last:
                raise NoMessageError(
                    f"news of subscription {news.subscription}, which does not exist"
                )
            return  # it was ended meanwhile
        try:
            if tail.put(news):
                del self._tails[news.subscription]
        except OverdrawnError as error:
            raise NoMessageError(str(error)) from error

    def _fail(self, reason: str) -> None:
        self.fail(BookieUnavailableError(self.bookie, reason))


def error_of(bookie: BookieId, error: StreamOverError | NoMessageError) -> QuireError:
    """Return the error that users of a connection get at its end."""
    match error:
        case NoMessageError():
            return BookieUnavailableError(bookie, f"{NO_MESSAGE}: {error}")
        case StreamRefusedError():
            return ClientRefusedError(bookie, error.refusal.reason)
        case StreamUntrustedError():
            return UntrustedBookieError(bookie, str(error))
    return BookieUnavailableError(bookie, str(error))


class _FeedAttempt:
    """An attempt to make a connection, until its outcome is known."""

    def __init__(self, call: NewsCall) -> None:
        self.call = call
        self.is_over = Once()
        self.outcome: NewsFeed | QuireError | None = None
        """None: the bookie has to be asked instead."""


class NewsLink:
    """The subscriptions of one link.

    `open_call` opens a connection, or returns None where the bookie has no port for it.
    `is_outdated` tells whether a connection has to be replaced. `key_of` returns the key of a
    ledger whose reads need it, empty for other ledgers.
    """

    def __init__(
        self,
        bookie: BookieId,
        open_call: Callable[[], NewsCall | None],
        timeout: float,
        is_outdated: Callable[[NewsCall], bool] = lambda _: False,
        key_of: Callable[[LedgerId], bytes] = lambda _: b"",
    ) -> None:
        self._bookie = bookie
        self._key_of = key_of
        self._open_call = open_call
        self._timeout = timeout
        self._is_outdated = is_outdated
        self._stream: NewsFeed | None = None
        self._opening: _FeedAttempt | None = None
        self._tasks = Tasks()
        self._is_closed = False
        self._left_alone_until = float("-inf")

    async def subscribe(
        self, ledger: LedgerId, above: EntryId, first: EntryId, quiet: float
    ) -> PushedTail | None:
        """See `Subscribable.subscribe`."""
        stream = self._stream
        if stream is None or stream.broken is not None:
            stream = await self._another()
        if stream is None:
            return None
        key = self._key_of(ledger)
        return stream.subscribe(ledger, above, first, quiet, self._timeout, key)

    async def _another(self) -> NewsFeed | None:
        """Return a new connection; None if the bookie has to be asked instead.

        All that need it at a time wait for one attempt: at a silent bookie, each would wait for all
        before it.
        """
        if self._is_closed:
            raise self._unavailable(CLOSED)
        opening = self._opening or self._begin_to_open()
        if opening is None:
            return None
        await opening.is_over.wait()
        if isinstance(opening.outcome, QuireError):
            raise copy(opening.outcome) from opening.outcome.__cause__
        return opening.outcome

    def _begin_to_open(self) -> _FeedAttempt | None:
        call = None if _now() < self._left_alone_until else self._open_call()
        if call is None:
            return None
        self._opening = opening = _FeedAttempt(call)
        self._tasks.start(self._open(opening), f"a connection for news of bookie {self._bookie}")
        return opening

    async def _open(self, opening: _FeedAttempt) -> None:
        """Make a connection, in place of a broken one."""
        outcome = None
        try:
            if self._stream is not None:
                await self._stream.close()
            outcome = await self._meet(opening.call)
        finally:
            self._settle(opening, outcome)

    def _settle(self, opening: _FeedAttempt, outcome: NewsFeed | QuireError | None) -> None:
        """An attempt is over. The first outcome stays."""
        if opening.is_over.has_happened:
            return
        opening.outcome = outcome
        if isinstance(outcome, NewsFeed):
            self._stream = outcome
        else:
            opening.call.cancel()
        self._opening = None
        opening.is_over.happen()

    async def _meet(self, call: NewsCall) -> NewsFeed | QuireError | None:
        try:
            async with time_limit(self._timeout):
                is_offered = await call.is_offered()
        except TimeoutError:
            return self._unavailable(f"no hello within {self._timeout:g} s")
        except StreamRefusedError as error:
            if not error.refusal.is_passing:
                return self._denial(error)
            is_offered = False
        except (NoMessageError, StreamOverError) as error:
            return self._denial(error)
        if is_offered:
            return NewsFeed(call, self._bookie, self._is_outdated)
        self._left_alone_until = _now() + LEFT_ALONE_SECONDS
        return None

    def _denial(self, error: NoMessageError | StreamOverError) -> QuireError:
        denial = error_of(self._bookie, error)
        denial.__cause__ = error
        return denial

    def _unavailable(self, reason: str) -> BookieUnavailableError:
        return BookieUnavailableError(self._bookie, reason)

    async def close(self) -> None:
        """End the connection, or the attempt to make it."""
        self._is_closed = True
        if self._opening is not None:
            self._settle(self._opening, self._unavailable(CLOSED))
        await self._tasks.stop()
        if self._stream is not None:
            await self._stream.close()


def _now() -> float:
    return asyncio.get_running_loop().time()
