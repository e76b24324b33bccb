"""One connection for subscriptions: a bookie sends the news of ledgers, against credit.

Each subscription has a place in its ledger, and a task: it waits until a LAC is above the last
told LAC, and sends the missing entries. The bookie is asked through its port, so what holds
for a question holds here (docs/protocol.md, section 5): a bookie in limbo answers *unknown*, and
nothing is fenced.

  - Without credit nothing is gathered and nothing waits to be sent. What happens meanwhile is one
    message, once there is credit: a slow client costs as much as a sleeping client.
  - Rights, and the key of a ledger whose reads need it, are looked at before all news: a lost right
    ends the subscription.
  - A fence or an error ends it, with a last message. The end of the connection ends all.
  - Each part of a message is charged to its peer (message_turns.py).
  - News are not runs: they deny nothing, and entries that are damaged or missing are left out.

Not here: how messages travel (run_listener.py), and the limits of all calls (limits.py).
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack, closing
from functools import partial
from typing import Any, Final, Protocol

from quire.aio.tasks import Tasks
from quire.bookie import LedgerTail
from quire.entry import LAC_HEADER, NO_ENTRY, EntryId, LedgerId
from quire.errors import (
    BookieBusyError,
    CorruptEntryError,
    InvalidRequestError,
    NoSuchEntryError,
    NoSuchLedgerError,
    WrongBookieError,
)
from quire.requests import REQUEST_ID, Trace, requesting, run_id
from quire.rights.calls import SUBSCRIBE
from quire.run import FRAME_BYTES_MAX, ScannedRun, pack_run, scan_run
from quire.storage.serving.change_waiter import tail_now, wait_change
from quire.storage.serving.limits import Reception
from quire.storage.serving.news_counts import NewsCounts
from quire.storage.serving.stream_account import NOWHERE, Origin
from quire.wire import bookie_pb2 as pb
from quire.wire.identity import ANONYMOUS, Identity
from quire.wire.news import (
    NEWS_BYTES_MAX,
    NEWS_COST,
    NewsAccount,
    OverdrawnError,
    cost_of,
    decode_news_request,
)
from quire.wire.reads import NoMessageError
from quire.wire.transport import EOF

_log = logging.getLogger(__name__)

QUIET_SECONDS_MIN: Final = 0.01
QUIET_SECONDS_MAX: Final = 600.0
"""Bounds of the time after which a client gets empty news."""


def decode_subscriptions(message: bytes) -> pb.NewsRequest:
    """Take a client's message apart. Raises `InvalidRequestError`."""
    try:
        return decode_news_request(message)
    except NoMessageError as error:
        raise InvalidRequestError(f"a message of {len(message)} bytes: {error}") from error


class NewsContext(Protocol):
    """The bookie's end of one connection."""

    async def read(self) -> Any:
        """Return the next `pb.NewsRequest`, `EOF` after the last."""
        ...

    async def write(self, message: pb.NewsReply, /) -> None:
        """Send a message, waiting for space."""
        ...

    def end(self) -> None:
        """End the connection at once: the client takes nothing."""
        ...


class Place:
    """Where a subscription is in its ledger. Pure, but for the event that says that there is
    credit.
    """

    __slots__ = ("_funded", "above", "account", "first", "key", "ledger", "packet", "quiet")

    def __init__(self, asked: pb.Subscribe) -> None:
        """Raises `OverdrawnError` for more credit than an account may hold."""
        self.ledger: Final[LedgerId] = asked.ledger
        self.key: Final[bytes] = asked.key
        """The ledger's key, if its reads need it."""
        self.above: EntryId = asked.above
        """The LAC that was told."""
        self.first: EntryId = max(asked.first, 0)
        """The entry to go on with."""
        self.packet: bytes | None = None
        """The explicit LAC that was told last."""
        self.quiet = min(max(asked.quiet_ms / 1000, QUIET_SECONDS_MIN), QUIET_SECONDS_MAX)
        self.account = NewsAccount(asked.bytes)
        self._funded = asyncio.Event()

    def grant(self, size: int, first: EntryId) -> None:
        """Take in credit, and that nothing below `first` is wanted. Raises `OverdrawnError`."""
        self.account.grant(size)
        self.first = max(self.first, first)
        self._funded.set()

    async def funded(self, counts: NewsCounts) -> None:
        """Return when there is credit."""
        if self.account.is_open:
            return
        with counts.without_credit():
            while not self.account.is_open:
                self._funded.clear()
                await self._funded.wait()

    @property
    def bytes_max(self) -> int:
        """Bytes of entries that the next message may have."""
        return max(1, min(self.account.left - NEWS_COST, NEWS_BYTES_MAX))

    def news(self, number: int, tail: LedgerTail, run: ScannedRun | None) -> pb.News:
        """Return the next message, and go on after it.

        A hint that nothing proves that was sent is told only when there is nothing left to send.
        Otherwise the proof may come next: the tail may be older than its hint, and a long stretch
        goes in pieces.

        Args:
            number: the number of the subscription.
            tail: the end of the ledger.
            run: entries from `first` on; None for nothing to send.
        """
        found = pb.News(subscription=number, fenced=bool(tail.fenced))
        told = self.above
        if run is not None:
            self.first = max(self.first, run.last + 1)
            found.run, told = bytes(run.data), max(told, run.lac)
        is_new = tail.lac_packet is not None and tail.lac_packet != self.packet
        if tail.lac_packet is not None and is_new:
            self.packet = found.lac_packet = tail.lac_packet
            told = max(told, lac_of(tail.lac_packet))
        found.hint = told if run is not None or is_new else max(told, tail.hint)
        self.above = max(self.above, found.hint)
        self.account.spend(cost_of(found))
        return found


def lac_of(packet: bytes) -> EntryId:
    """Return the LAC that a packet says; nothing is verified."""
    return int(LAC_HEADER.unpack_from(packet)[1]) if len(packet) >= LAC_HEADER.size else NO_ENTRY


class _NotSentError(Exception):
    """News could not be sent: the other side has left, and no subscription is to blame."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(str(reason))
        self.reason = reason


class NewsStream:
    """One connection, from its first message to its end."""

    runs_in_flight: Final = 0
    """A service that ends does not wait for subscriptions."""

    def __init__(
        self,
        reception: Reception,
        context: NewsContext,
        identity: Identity = ANONYMOUS,
        origin: Origin = NOWHERE,
    ) -> None:
        self._reception = reception
        self._context = context
        self._identity = identity
        self._origin = origin
        self._last = 0
        """The highest number that was subscribed with."""
        self._places: dict[int, tuple[Place, asyncio.Task[None]]] = {}
        self._tasks = Tasks(self._broken)
        self._writing = asyncio.Lock()
        self._untaken = reception.untaken(origin.owner, context.end)
        self._is_met = False
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def serve(self) -> None:
        """Serve until the client ends the connection, or breaks its rules.

        Raises the errors of the context.
        """
        untaken = closing(self._untaken)
        with self._reception.streaming(self), self._reception.news.client(), untaken:
            receiving = asyncio.ensure_future(self._receive())
            try:
                await asyncio.wait([receiving, self._over], return_when="FIRST_COMPLETED")
                for each in (receiving, self._over):
                    if each.done():
                        await each
            except (InvalidRequestError, WrongBookieError) as error:
                async with self._writing:
                    refusal = self._reception.failure(error)
                    await self._context.write(pb.NewsReply(refusal=refusal))
            finally:
                for each in (receiving, self._over):
                    each.cancel()
                await asyncio.gather(receiving, self._over, return_exceptions=True)
                await self._tasks.stop()

    def _broken(self, error: Exception) -> None:
        """Something could not be sent: the connection is over."""
        if not self._over.done():
            self._over.set_exception(error)

    async def _receive(self) -> None:
        while (request := await self._context.read()) is not EOF:
            if not self._is_met:
                self._reception.expect(request.bookie)
                self._is_met = True
            try:
                await self._take(request)
            except OverdrawnError as error:
                raise InvalidRequestError(str(error)) from error

    async def _take(self, request: pb.NewsRequest) -> None:
        if not (request.subscribe or request.credit or request.unsubscribe):
            raise InvalidRequestError("a message without parts")
        charge = partial(self._reception.messages.wait, self._origin.owner)
        for asked in request.subscribe:
            await charge()
            await self._subscribe(asked)
            await asyncio.sleep(0)  # thousands begin, or are refused, without a wait
        for credit in request.credit:
            await charge()
            found = self._places.get(credit.subscription)
            if found is not None:  # it may have ended meanwhile
                found[0].grant(credit.bytes, credit.first)
        for number in request.unsubscribe:
            await charge()
            found = self._places.pop(number, None)
            if found is not None:
                found[1].cancel()

    async def _subscribe(self, asked: pb.Subscribe) -> None:
        """Start a subscription. Without a place for it, a refusal is sent before more is read: a
        client that takes no refusal asks no further.
        """
        number = asked.subscription
        if number <= self._last:
            raise InvalidRequestError(f"subscription {number} after {self._last}: numbers grow")
        self._last = number
        place = Place(asked)
        held = ExitStack()
        try:
            held.enter_context(self._reception.place("WaitTail", self._origin.owner))
        except BookieBusyError as error:
            refusal = self._reception.failure(error)
        else:
            work = self._tasks.start(self._follow(number, place), f"news of ledger {asked.ledger}")
            work.add_done_callback(lambda _: held.close())
            self._places[number] = place, work
            return
        try:
            await self._send(pb.News(subscription=number, failure=refusal))
        except _NotSentError as error:
            raise error.reason from None

    async def _follow(self, number: int, place: Place) -> None:
        """Send the news of one subscription until it ends, as one request of its client."""
        reception, origin, ledger = self._reception, self._origin, place.ledger
        with requesting(run_id(origin.stream, number)) as request, reception.news.subscription():
            about = {"request": request, "peer": origin.peer}
            _log.debug("subscription %s of ledger %d begins", request, ledger, extra=about)
            try:
                await self._send_all(number, place)
            finally:
                _log.debug("subscription %s of ledger %d ends", request, ledger, extra=about)

    async def _send_all(self, number: int, place: Place) -> None:
        try:
            refusal = await self._tell_all(number, place)
            if refusal is not None:
                await self._send(pb.News(subscription=number, failure=refusal))
        except _NotSentError as error:
            self._broken(error.reason)
        finally:
            self._places.pop(number, None)

    async def _tell_all(self, number: int, place: Place) -> pb.Failure | None:
        """Send news until their end; return the reason if that is an error. The error itself must
        be gone before the reason is sent: its frames hold the gathered entries.
        """
        reception = self._reception
        try:
            reception.refuse_when_draining()
            await self._permit(place)
            with reception.uses.waiting(place.ledger, self._origin.peer):
                while not await self._tell(number, place):
                    reception.refuse_when_draining()
        except _NotSentError:
            raise
        except Exception as error:
            return reception.failure(error)
        return None

    async def _permit(self, place: Place) -> None:
        await self._reception.permit(self._identity, SUBSCRIBE.action, place.ledger)
        self._reception.check_reader(self._identity, place)

    async def _tell(self, number: int, place: Place) -> bool:
        """Send news once; return whether they are the last. If that takes long since they were
        there, it is logged.
        """
        reception, origin, untaken = self._reception, self._origin, self._untaken
        await place.funded(reception.news)
        await wait_change(reception.bookie, place.ledger, place.above, place.quiet)
        trace, first = Trace(reception.now()), place.first
        await reception.gathering.wait(origin.owner, FRAME_BYTES_MAX)
        try:
            news, count = await self._gather(number, place)
            cost = cost_of(news)
            untaken.add(cost)
        finally:
            reception.gathering.give_back(origin.owner, FRAME_BYTES_MAX)
        try:
            await self._permit(place)  # after all waiting
            trace.worked = reception.now()
            await self._send(news)
            untaken.progressed()
        finally:
            untaken.remove(cost)
        reception.news.sent(count, len(news.run))
        about = {"bookie": reception.bookie_id, "ledger": place.ledger, "entry": first}
        about["peer"] = origin.peer
        reception.slow.tell("news", trace, reception.now(), REQUEST_ID.get(), about)
        return news.fenced

    async def _gather(self, number: int, place: Place) -> tuple[pb.News, int]:
        """Return the next news, and the number of entries in them."""
        tail = await tail_now(self._reception.bookie, place.ledger)
        run = None if tail.frame is None else scan_run(pack_run([tail.frame]))
        if run is not None and run.last < place.first:
            run = None
        elif run is not None and run.last > place.first:
            run = await self._read(place, run.last)
        return place.news(number, tail, run), 0 if run is None else run.count

    async def _read(self, place: Place, last: EntryId) -> ScannedRun | None:
        """Return entries from the place on; None where the client has to read the rest, because
        it is damaged here.
        """
        first, bookie = place.first, self._reception.bookie
        try:
            found = await bookie.read(place.ledger, first, last, bytes_max=place.bytes_max)
        except (CorruptEntryError, NoSuchEntryError, NoSuchLedgerError):
            place.first = last + 1
            return None
        return scan_run(found)

    async def _send(self, news: pb.News) -> None:
        async with self._writing:
            try:
                await self._context.write(pb.NewsReply(news=[news]))
            except Exception as error:
                raise _NotSentError(error) from error
