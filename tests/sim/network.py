"""A network that delays, loses, repeats and cuts, with a bookie at the far end.

`SimLink` is a `Bookie` to the client that holds it. Its requests travel as values; the work on the
other side runs as a task of the server's process, so it dies with that process, and it goes on when
the client stops waiting. What may happen to a request, may happen to its answer: an answer can be
lost after the work was done.

Runs and explicit LACs travel on a `Connection`, news on a `NewsConnection`, and the reads of some
bookies on a `ReadConnection`: first in, first out, between the two ends of production (streams.py).
Other requests are independent (`Exchange`).

Not here: which faults happen when (faults.py), what answers mean (watch.py).
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from quire.aio.answer import Answered
from quire.bookie import (
    READ_BYTES_MAX,
    Bookie,
    BookieAddress,
    BookieInfo,
    LedgerTail,
    Stride,
    refused,
)
from quire.entry import BookieId, EntryId, LedgerId
from quire.errors import BookieUnavailableError, QuireError
from quire.ledger.news_link import NewsLink
from quire.ledger.read_link import ReadLink
from quire.ledger.remote import RUN_READ_BYTES_MAX
from quire.ledger.run_stream import RunStream
from quire.ledger.subscription import Subscription
from quire.outline import Outline
from quire.storage.serving.limits import Reception, ServiceLimits
from quire.testing.sim.loop import SimLoop
from quire.testing.sim.process import Incarnation
from quire.wire import bookie_pb2 as pb
from quire.wire.adds import RunEncoder, encode_lac, encode_run
from tests.sim.streams import Connection, NewsConnection, ReadConnection, reception_of
from tests.sim.wire import carry_answer, carry_request

DEADLINE: Final = 3.0
"""Seconds after which a link gives an unanswered request up."""


def settle(reply: asyncio.Future[Any], outcome: Any) -> None:
    """Resolve a waiting client with an answer."""
    if reply.done():
        return
    if isinstance(outcome, QuireError):
        reply.set_exception(outcome)
    else:
        reply.set_result(outcome)


@dataclass
class Conditions:
    """The weather: probabilities per message, and seconds of delay."""

    delay_min: float = 0.0002
    delay_mean: float = 0.0005
    slow: float = 0.0
    """Probability that a message takes `slow_mean` instead."""
    slow_mean: float = 0.05
    loss: float = 0.0
    duplication: float = 0.0
    cancellation: float = 0.0
    """Probability that a server hears of a client that stopped waiting."""
    stepwise: float = 0.0
    """Probability that a server looks entries up one by one: a denial reaches one entry then."""


class Host:
    """A place where a bookie runs, from time to time."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.life: Incarnation | None = None
        self.bookie: Bookie | None = None
        self.streams: list[asyncio.Task[None]] = []
        """Of runs, that are being served."""
        self._reception: tuple[Incarnation, Reception] | None = None

    def reception(self, network: Network, bookie_id: BookieId) -> Reception:
        """Return what receives runs in this life."""
        assert self.life is not None
        assert self.bookie is not None
        if self._reception is None or self._reception[0] is not self.life:
            made = reception_of(network, self, self.life, self.bookie, bookie_id)
            self._reception = (self.life, made)
            self.streams = []
        return self._reception[1]

    async def end_streams(self) -> None:
        """Break off every stream of runs."""
        for stream in self.streams:
            stream.cancel()
        await asyncio.gather(*self.streams, return_exceptions=True)

    @property
    def is_up(self) -> bool:
        return self.bookie is not None and self.life is not None and self.life.alive


class Watch(Protocol):
    """Sees every request at the moment a bookie starts on it and when it answers."""

    def begin(self, host: str, life: Incarnation, method: str, args: dict[str, Any]) -> object: ...

    def end(self, token: Any, outcome: Any) -> None: ...


class _Blind:
    def begin(self, host: str, life: Incarnation, method: str, args: dict[str, Any]) -> object:
        return None

    def end(self, token: object, outcome: Any) -> None:
        return None


@dataclass
class Network:
    """Hosts, and what may happen between any two names."""

    loop: SimLoop
    rng: random.Random
    conditions: Conditions = field(default_factory=Conditions)
    hosts: dict[str, Host] = field(default_factory=dict)
    watch: Watch = field(default_factory=_Blind)
    counters: Counter[str] = field(default_factory=Counter)
    cut: set[tuple[str, str]] = field(default_factory=set)
    """One-way cuts: (from, to). Only ever asked for membership."""
    links: list[SimLink] = field(default_factory=list)
    limits: ServiceLimits = field(default_factory=ServiceLimits)
    """Of every server."""
    pushes: Callable[[str], bool] = lambda _: True
    """Whether the bookie of a host serves subscriptions."""
    frames_reads: Callable[[str], bool] = lambda _: True
    """Whether it takes reads in plain frames."""
    log: Callable[[str, str], None] | None = None
    """Told (who, what) of every message when a trace is wanted."""

    def host(self, name: str) -> Host:
        return self.hosts.setdefault(name, Host(name))

    def connect(self, client: Incarnation, address: BookieAddress) -> SimLink:
        """Return a client's link to the bookie at an address (the host's name)."""
        link = SimLink(self, client, address.bookie, self.host(address.address))
        self.links.append(link)
        return link

    def chance(self, probability: float) -> bool:
        return probability > 0 and self.rng.random() < probability

    def delay(self) -> float:
        weather = self.conditions
        if self.chance(weather.slow):
            self.counters["slow message"] += 1
            return weather.delay_min + self.rng.expovariate(1 / weather.slow_mean)
        return weather.delay_min + self.rng.expovariate(1 / weather.delay_mean)

    def is_cut(self, source: str, target: str) -> bool:
        if (source, target) in self.cut:
            self.counters["message at a cut"] += 1
            return True
        return False

    def later(self, delay: float, callback: Callable[..., object], *args: Any) -> Any:
        """Let something happen that belongs to no process."""
        return self.loop.call_later(delay, callback, *args, context=self.loop.root.context)

    def break_streams(self, host: str) -> None:
        """Reset every connection for runs, news or reads to a host."""
        for link in self.links:
            if link.host.name == host:
                link.reset("connection reset")

    def retry_delay(self) -> float:
        return 0.002 + 0.2 * self.rng.random() ** 2

    async def serve(self, host: Host, method: str, args: dict[str, Any]) -> Any:
        """Do a request's work; runs as a task of the server. Errors are answers."""
        bookie, life = host.bookie, host.life
        assert life is not None
        if bookie is None:  # it came in before the bookie began to end in order
            return BookieUnavailableError(host.name, "it is shutting down")
        token = self.watch.begin(host.name, life, method, args)
        outcome: Any
        try:
            if method == "read" and self.chance(self.conditions.stepwise):
                self.counters["read one by one"] += 1
                await bookie.read(**{**args, "last": args["first"]})
            outcome = await getattr(bookie, method)(**args)
        except (QuireError, OSError) as error:
            outcome = error
        self.answered(host, method, args, token, outcome)
        return outcome

    def answered(
        self, host: Host, method: str, args: dict[str, Any], token: object, outcome: Any
    ) -> None:
        """Tell who watches how a request ended."""
        if isinstance(outcome, OSError):
            self.counters["answer: internal error"] += 1
        self.watch.end(token, outcome)
        if self.log is not None:
            self.log(repr(host.life), f"answers {describe(method, args)}: {_short(outcome)}")


class Exchange:
    """One request and its answer, in no order with any other."""

    def __init__(self, link: SimLink, method: str, args: dict[str, Any]) -> None:
        self.network = network = link.network
        self.link = link
        self.method = method
        self.args = carry_request(method, link.bookie, args)
        self.reply: asyncio.Future[Any] = network.loop.create_future()
        self._work: asyncio.Task[Any] | None = None
        self._deadline: Any = None

    async def run(self, deadline: float) -> Any:
        network = self.network
        self._deadline = network.later(deadline, self._fail, "no answer in time")
        if network.chance(network.conditions.loss):
            network.counters["request lost"] += 1
        else:
            network.later(network.delay(), self._arrive, True)
        if network.chance(network.conditions.duplication):
            network.counters["request repeated"] += 1
            network.later(network.delay() * 3, self._arrive, False)
        try:
            return await self.reply
        finally:
            self._deadline.cancel()
            if not self.reply.done() or self.reply.cancelled():
                self._abandon()

    def _abandon(self) -> None:
        chance = 1.0 if self.method == "wait_tail" else self.network.conditions.cancellation
        if self.network.chance(chance):
            self.network.later(self.network.delay(), self._stop_work)

    def _stop_work(self) -> None:
        if self._work is not None and not self._work.done():
            self.network.counters["request cancelled"] += 1
            self._work.cancel()

    def _arrive(self, answered: bool) -> None:
        network, link = self.network, self.link
        if self.reply.done() and answered:
            return
        if network.is_cut(link.client.name, link.host.name):
            if answered:
                network.later(network.retry_delay(), self._arrive, answered)
        elif not link.host.is_up:
            if answered:
                network.later(network.delay(), self._fail, "connection refused")
        else:
            self._start(answered)

    def _start(self, answered: bool) -> None:
        host = self.link.host
        assert host.life is not None
        work = host.life.spawn(
            self.network.serve(host, self.method, self.args), name=f"serve {self.method}"
        )
        if answered:
            self._work = work
            work.add_done_callback(self._served, context=self.network.loop.root.context)

    def _served(self, work: asyncio.Task[Any]) -> None:
        network = self.network
        if work.cancelled():
            return
        if network.chance(network.conditions.loss):
            network.counters["answer lost"] += 1
            work.exception()
            return
        outcome = carry_answer(self.method, self.link.bookie, work.result())
        network.later(network.delay(), self._answer, outcome)

    def _answer(self, outcome: Any) -> None:
        if self.reply.done():
            return
        if self.network.is_cut(self.link.host.name, self.link.client.name):
            self.network.later(self.network.retry_delay(), self._answer, outcome)
        else:
            settle(self.reply, outcome)

    def _fail(self, reason: str) -> None:
        settle(self.reply, BookieUnavailableError(self.link.bookie, reason))


class SimLink:
    """A client's view of one bookie across the network. Implements `Bookie`."""

    def __init__(self, network: Network, client: Incarnation, bookie: BookieId, host: Host) -> None:
        self.network = network
        self.client = client
        self.bookie = bookie
        self.host = host
        self._connection: Connection | None = None
        self._stream: RunStream | None = None
        self._news = NewsLink(bookie, self._open_news, DEADLINE)
        self._news_connection: NewsConnection | None = None
        self._reads = ReadLink(bookie, self._open_reads, DEADLINE, RUN_READ_BYTES_MAX)
        self._read_connection: ReadConnection | None = None

    def add(
        self,
        ledger: LedgerId,
        key: bytes,
        run: bytes,
        *,
        recovery: bool = False,
        deferred: bool = False,
    ) -> asyncio.Future[None]:
        try:
            return self._open_stream().submit(
                encode_run(ledger=ledger, key=key, run=run, recovery=recovery, deferred=deferred)
            )
        except QuireError as error:
            return refused(error)

    def send(self, encoder: RunEncoder, run: bytes, answered: Answered) -> None:
        self._open_stream().send(encoder.encode(run), answered)

    def _open_stream(self) -> RunStream:
        if self._stream is None or self._stream.broken is not None:
            self._connection = Connection(self)
            self._stream = RunStream(self._connection, self.bookie, DEADLINE)
        return self._stream

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
        args: dict[str, Any] = {"ledger": ledger, "first": first, "last": last}
        args |= {"fence_key": fence_key, "bytes_max": bytes_max}
        framed = await self._reads.read(pb.ReadRequest(bookie=self.bookie, **args), "")
        run: bytes = await self._ask("read", **args) if framed is None else framed
        return run

    def _open_reads(self) -> ReadConnection:
        self._read_connection = ReadConnection(self)
        return self._read_connection

    async def read_tail(self, ledger: LedgerId, *, fence_key: bytes | None = None) -> LedgerTail:
        tail: LedgerTail = await self._ask("read_tail", ledger=ledger, fence_key=fence_key)
        return tail

    async def wait_tail(self, ledger: LedgerId, above: EntryId, timeout: float) -> LedgerTail:
        args = {"ledger": ledger, "above": above, "timeout": timeout}
        tail: LedgerTail = await Exchange(self, "wait_tail", args).run(timeout + DEADLINE)
        return tail

    async def subscribe(
        self, ledger: LedgerId, above: EntryId, first: EntryId, quiet: float
    ) -> Subscription | None:
        return await self._news.subscribe(ledger, above, first, quiet)

    def _open_news(self) -> NewsConnection:
        self._news_connection = NewsConnection(self)
        return self._news_connection

    async def write_lac(self, ledger: LedgerId, key: bytes, packet: bytes) -> None:
        await self._open_stream().submit(encode_lac(ledger, key, packet))

    async def sync(
        self, ledger: LedgerId, key: bytes, first: EntryId, last: EntryId
    ) -> list[tuple[EntryId, EntryId]]:
        ranges: list[tuple[EntryId, EntryId]] = await self._ask(
            "sync", ledger=ledger, key=key, first=first, last=last
        )
        return ranges

    async def list_entries(
        self, ledger: LedgerId, first: EntryId = 0
    ) -> list[tuple[EntryId, EntryId]]:
        ranges: list[tuple[EntryId, EntryId]] = await self._ask(
            "list_entries", ledger=ledger, first=first
        )
        return ranges

    async def list_ledgers(self, first: LedgerId = 0) -> list[tuple[LedgerId, LedgerId]]:
        ranges: list[tuple[LedgerId, LedgerId]] = await self._ask("list_ledgers", first=first)
        return ranges

    async def outlines(self, ledgers: Sequence[LedgerId]) -> list[Outline | None]:
        outlines: list[Outline | None] = await self._ask("outlines", ledgers=list(ledgers))
        return outlines

    async def info(self) -> BookieInfo:
        info: BookieInfo = await self._ask("info")
        return info

    async def close(self) -> None:
        if self._stream is not None:
            await self._stream.close()
        await self._news.close()
        await self._reads.close()

    def reset(self, reason: str) -> None:
        """Break the connections for runs, news and reads, if there are some."""
        for connection in (self._connection, self._news_connection, self._read_connection):
            if connection is not None:
                connection.break_off(reason)

    async def _ask(self, method: str, **args: Any) -> Any:
        return await Exchange(self, method, args).run(DEADLINE)


def describe(method: str, args: dict[str, Any]) -> str:
    """A request in a few words, for people."""
    words = [
        f"{key}={_short(value)}" for key, value in args.items() if key not in ("key", "bytes_max")
    ]
    return f"{method}({', '.join(words)})"


def _short(value: Any) -> str:
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, LedgerTail):
        return f"tail hint={value.hint} fenced={value.fenced} frame={_short(value.frame)}"
    return repr(value)
