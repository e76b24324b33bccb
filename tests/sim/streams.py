"""The connections on which runs, news and reads travel: in order, until they break.

At both ends is production's code: a `RunStream` of the client and an `AddStream` of the bookie, a
`NewsFeed` and a `NewsStream`, or a `ReadFeed` and a `ReadStream`. What is simulated is what lies
between them (`RunCall`, `NewsCall`, `ReadCall`, and the contexts of the bookie): bytes that arrive
in the order they were sent, each way.

When a connection breaks the client hears of it at once; a random beginning of what was under way
still reaches the server, which had it in its buffers, and then that hears of it too. A new
connection may overtake the old one's rest.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from quire.aio.answer import Answered
from quire.bookie import READ_BYTES_MAX, Bookie, LedgerTail, Stride
from quire.entry import EntryId, LedgerId
from quire.errors import BookieUnavailableError
from quire.storage.serving.add_stream import AddStream
from quire.storage.serving.limits import Reception, ServiceLimits
from quire.storage.serving.offered_run import OfferedRun
from quire.storage.serving.read_stream import ReadStream, decode_reads
from quire.storage.serving.run_taker import RunTaker
from quire.storage.serving.subscriptions import NewsStream, decode_subscriptions
from quire.testing.sim.process import Incarnation
from quire.wire import bookie_pb2 as pb
from quire.wire.adds import decode_reply
from quire.wire.news import cost_of, decode_news_reply
from quire.wire.run_calls import StreamOverError
from quire.wire.transport import EOF
from tests.sim.history import Violation

if TYPE_CHECKING:
    from tests.sim.network import Host, Network, SimLink

OVER: Final = None
"""What a lane carries behind the last message."""


class _Lane:
    """One direction: first in, first out. `take` gets what arrives; a cut only holds it up."""

    def __init__(
        self, network: Network, source: str, target: str, take: Callable[[Any], None]
    ) -> None:
        self._network = network
        self._source = source
        self._target = target
        self._take = take
        self._travelling: deque[Any] = deque()
        self._last_arrival = 0.0
        self._rest: int | None = None
        """How many of what is under way still arrive, once the connection is broken."""

    def send(self, message: Any) -> None:
        self._travelling.append(message)
        now = self._network.loop.time()
        self._last_arrival = max(self._last_arrival, now + self._network.delay())
        self._network.later(self._last_arrival - now, self._arrive)

    def break_off(self, *, is_heard: bool) -> None:
        """Lose what is under way, but for a beginning of it; nothing at all if nobody hears."""
        rng = self._network.rng
        self._rest = rng.randint(0, len(self._travelling)) if is_heard else 0
        if is_heard:
            self.send(OVER)

    def _arrive(self) -> None:
        if self._rest is None and self._network.is_cut(self._source, self._target):
            self._network.later(self._network.retry_delay(), self._arrive)
            return
        message = self._travelling.popleft()
        if self._rest is not None and message is not OVER:
            self._rest -= 1
            if self._rest < 0:
                return
            self._network.counters["late message of a stream"] += 1
        self._take(message)


class Connection:
    """One connection for runs from a client to one life of a server. The client's end of it:
    implements `RunCall`.
    """

    def __init__(self, link: SimLink) -> None:
        self._link = link
        self._network = network = link.network
        self._life = link.host.life
        self._broken: str | None = None
        self._replies: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._requests: asyncio.Queue[bytes] = asyncio.Queue()
        self._serving: asyncio.Task[None] | None = None
        client, server = link.client.name, link.host.name
        self._there = _Lane(network, client, server, self._at_server)
        self._back = _Lane(network, server, client, self._replies.put_nowait)

    async def write(self, *parts: bytes) -> None:
        """See `RunCall.write`."""
        message = b"".join(parts)
        if self._broken is not None:
            raise StreamOverError(self._broken)
        self._there.send(message)
        self._weather("stream broken")

    async def read(self) -> pb.AddReply | None:
        """See `RunCall.read`."""
        message = await self.message()
        return None if message is None else decode_reply(message)

    async def message(self) -> bytes | None:
        message = await self._replies.get()
        if message is OVER and self._broken is not None:
            raise StreamOverError(self._broken)
        return message

    @property
    def end(self) -> None:
        """See `RunCall.end`."""

    def cancel(self) -> None:
        """See `RunCall.cancel`."""
        self.break_off("closed by the client")

    def break_off(self, reason: str) -> None:
        """End the connection at once."""
        if self._broken is None:
            self._broken = reason
            self._there.break_off(is_heard=True)
            self._back.break_off(is_heard=False)
            self._replies.put_nowait(OVER)

    def _weather(self, counter: str) -> None:
        if self._network.chance(self._network.conditions.loss):
            self._network.counters[counter] += 1
            self._network.later(self._network.delay(), self.break_off, "connection reset")

    def _at_server(self, message: bytes | None) -> None:
        host = self._link.host
        if not host.is_up or host.life is not self._life:
            self._network.later(self._network.delay(), self.break_off, "connection reset")
        elif message is OVER:
            if self._serving is not None and not self._serving.done():
                self._network.counters["stream given up"] += 1
                self._serving.cancel()
        else:
            self._requests.put_nowait(message)
            if self._serving is None:
                assert self._life is not None
                reception = host.reception(self._network, self._link.bookie)
                self._serving = self._life.spawn(self._serve(reception), name="stream")
                host.streams.append(self._serving)

    async def _serve(self, reception: Reception) -> None:
        """Be the bookie's end; a task of the server, cancelled when it hears of the break."""
        await AddStream(reception, _ServerEnd(self)).serve()
        self._back.send(OVER)

    async def next_request(self) -> Any:
        return pb.AddRequest.FromString(await self.request())

    async def request(self) -> bytes:
        return await self._requests.get()

    def answer(self, reply: pb.AddReply | pb.NewsReply) -> None:
        """Send an answer."""
        self.send_back(reply.SerializeToString())

    def send_back(self, message: bytes) -> None:
        """Send a message of the server. To a client that is gone, of which the server has not heard
        yet, it is sent in vain.
        """
        if self._broken is None:
            self._back.send(message)
            self._weather("answer lost")


class OfferedConnection(Connection):
    """One connection for a use that the bookie has to offer."""

    def __init__(self, link: SimLink, offers: Callable[[str], bool]) -> None:
        super().__init__(link)
        self._offers = offers

    async def is_offered(self) -> bool:
        """See `OfferedCall.is_offered`. Hellos are exchanged first."""
        network, link = self._network, self._link
        await asyncio.sleep(network.delay() + network.delay())
        if not link.host.is_up or network.is_cut(link.client.name, link.host.name):
            raise StreamOverError("connection refused")
        return self._offers(link.host.name)


class ReadConnection(OfferedConnection):
    """One connection for reads. The client's end of it: implements `ReadCall`."""

    def __init__(self, link: SimLink) -> None:
        super().__init__(link, link.network.frames_reads)

    async def read(self) -> Any:
        """See `ReadCall.read`."""
        return await self.message()

    async def _serve(self, reception: Reception) -> None:
        await ReadStream(reception, _ServerEnd(self)).serve()
        self._back.send(OVER)

    async def next_request(self) -> Any:
        question = decode_reads(await self.request())
        asked = "read in a frame" if question.request is not None else "read given up"
        self._network.counters[asked] += 1
        return question


class NewsConnection(OfferedConnection):
    """One connection for subscriptions. The client's end of it: implements `NewsCall`.

    It keeps the account of each subscription a third time, beside the two ends.
    """

    stream = ""

    def __init__(self, link: SimLink) -> None:
        super().__init__(link, link.network.pushes)
        self._accounts: dict[int, int] = {}

    async def read(self) -> Any:
        """See `NewsCall.read`."""
        message = await self.message()
        return None if message is None else decode_news_reply(message)

    async def _serve(self, reception: Reception) -> None:
        await NewsStream(reception, _ServerEnd(self)).serve()
        self._back.send(OVER)

    async def next_request(self) -> Any:
        request = decode_subscriptions(await self.request())
        for asked in request.subscribe:
            self._accounts[asked.subscription] = asked.bytes
        for credit in request.credit:
            self._accounts[credit.subscription] += credit.bytes
        return request

    def answer(self, reply: pb.AddReply | pb.NewsReply) -> None:
        """Look at the account, and send."""
        assert isinstance(reply, pb.NewsReply)
        for news in reply.news:
            if not news.HasField("failure"):
                self._network.counters["news"] += 1
                self._spend(news)
        super().answer(reply)

    def _spend(self, news: pb.News) -> None:
        left = self._accounts[news.subscription]
        if left <= 0:
            text = f"{self._link.host.name} sends {cost_of(news)} bytes of news, with {left} left"
            self._network.loop.fail(Violation("U3 a bookie keeps within its credit", text))
        self._accounts[news.subscription] = left - cost_of(news)


class _ServerEnd:
    """Implements `RunContext`, `NewsContext` and `ReadContext`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def read(self) -> Any:
        """See `RunContext.read`. A connection that is over ends the task instead: never `EOF`."""
        request = await self._connection.next_request()
        assert request is not EOF
        return request

    async def write(self, message: pb.AddReply | pb.NewsReply, /) -> None:
        """See `RunContext.write`."""
        self._connection.answer(message)

    async def send(self, *parts: bytes) -> None:
        """See `ReadContext.send`."""
        self._connection.send_back(b"".join(parts))

    def end(self) -> None:
        """See `ReadContext.end`."""
        self._connection.break_off("connection reset")


class WatchedBookie:
    """What streams ask of one life of a bookie, seen by the network's watch as it begins and
    ends.
    """

    def __init__(self, network: Network, host: Host, life: Incarnation, bookie: Bookie) -> None:
        self._network = network
        self._host = host
        self._life = life
        self._bookie = bookie
        self._taker = bookie if isinstance(bookie, RunTaker) else None

    def take(self, offers: Sequence[OfferedRun], first: int) -> int:
        """See `RunTaker.take`. A run that is not taken is seen when `add` begins on it."""
        if self._taker is None:
            return first
        end = self._taker.take(offers, first)
        self._network.counters["runs taken in one step"] += end - first > 1
        for each in offers[first:end]:
            self._network.counters["run taken in one step"] += 1
            args = {"ledger": each.ledger, "key": each.key, "run": each.run}
            args |= {"recovery": each.recovery, "deferred": False}
            token = self._network.watch.begin(self._host.name, self._life, "add", args)
            each.answered = partial(self._taken, args, token, each.answered)
        return end

    def _taken(
        self, args: dict[str, Any], token: object, answered: Answered, error: Exception | None
    ) -> None:
        self._network.answered(self._host, "add", args, token, error)
        answered(error)

    def add(
        self,
        ledger: LedgerId,
        key: bytes,
        run: bytes,
        *,
        recovery: bool = False,
        deferred: bool = False,
    ) -> asyncio.Future[None]:
        """See `Bookie.add`."""
        args = {"ledger": ledger, "key": key, "run": run, "recovery": recovery}
        args["deferred"] = deferred
        token = self._network.watch.begin(self._host.name, self._life, "add", args)
        adding = asyncio.ensure_future(
            self._bookie.add(ledger, key, run, recovery=recovery, deferred=deferred)
        )
        adding.add_done_callback(partial(self._added, token, args))
        return adding

    async def write_lac(self, ledger: LedgerId, key: bytes, packet: bytes) -> None:
        """See `Bookie.write_lac`."""
        args = {"ledger": ledger, "key": key, "packet": packet}
        await self._asked("write_lac", args)

    async def read(
        self,
        ledger: LedgerId,
        first: EntryId,
        last: EntryId,
        *,
        fence_key: bytes | None = None,
        bytes_max: int = READ_BYTES_MAX,
        stride: Stride | None = None,
    ) -> bytes:
        """See `Bookie.read`."""
        args: dict[str, Any] = {"ledger": ledger, "first": first, "last": last}
        args |= {"fence_key": fence_key, "bytes_max": bytes_max}
        run: bytes = await self._asked("read", args)
        return run

    async def wait_tail(self, ledger: LedgerId, above: EntryId, timeout: float) -> LedgerTail:
        """See `Bookie.wait_tail`."""
        args = {"ledger": ledger, "above": above, "timeout": timeout}
        tail: LedgerTail = await self._asked("wait_tail", args)
        return tail

    async def wait_change(self, ledger: LedgerId, above: EntryId, timeout: float) -> None:
        """See `ChangeWaiter.wait_change`."""
        await self._asked("wait_change", {"ledger": ledger, "above": above, "timeout": timeout})

    async def _asked(self, method: str, args: dict[str, Any]) -> Any:
        outcome = await self._network.serve(self._host, method, args)
        if isinstance(outcome, OSError):
            raise BookieUnavailableError(self._host.name, "internal error") from outcome
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _added(self, token: object, args: dict[str, Any], adding: asyncio.Future[None]) -> None:
        if adding.cancelled():
            self._network.counters["add cancelled"] += 1
        else:
            self._network.answered(self._host, "add", args, token, adding.exception())


def draw_limits(rng: random.Random) -> ServiceLimits:
    """Draw how much of a stream may be under way at a bookie: mostly so little that it waits."""
    usual = ServiceLimits()
    return ServiceLimits(
        runs_per_stream=rng.choice([1, 2, 5, usual.runs_per_stream]),
        bytes_per_stream=rng.choice([1, 1000, usual.bytes_per_stream]),
    )


def draw_offers(rng: random.Random) -> Callable[[str], bool]:
    """Draw which bookies offer a use of connections. Others are of before, and are asked."""
    share = rng.choice([0.0, 0.5, 1.0, 1.0, 1.0])
    drawn: dict[str, bool] = {}

    def offers(name: str) -> bool:
        return drawn.setdefault(name, rng.random() < share)

    return offers


def reception_of(
    network: Network, host: Host, life: Incarnation, bookie: Bookie, bookie_id: str
) -> Reception:
    """Return what receives the runs of one life of a server."""
    watched: Any = WatchedBookie(network, host, life, bookie)
    return Reception(watched, bookie_id, network.limits)
