"""The ordered stream on which adds travel: in order, until it breaks.

The port promises that adds made in order are carried out in order. So messages arrive in the order
they were sent, the server starts each before it looks at the next, and answers keep their order
too. When the stream breaks, every outstanding add fails at once, and a random beginning of what was
under way still arrives: the server had it in its buffers. A new stream may overtake it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from quire.errors import BookieUnavailableError, QuireError
from tests.sim.wire import carry_answer

if TYPE_CHECKING:
    from tests.sim.network import SimLink

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


@dataclass(eq=False)
class _Add:
    args: dict[str, Any]
    reply: asyncio.Future[None]
    deadline: Any = None


class Connection:
    """One stream of adds from a client to one life of a server."""

    def __init__(self, link: SimLink) -> None:
        self.link = link
        self.network = link.network
        self.life = link.host.life
        self.broken = False
        self._outstanding: list[_Add] = []
        self._travelling: deque[_Add] = deque()
        self._arrived: deque[_Add] = deque()
        self._answers: deque[tuple[_Add, Any]] = deque()
        self._starting = False
        self._late = 0
        self._last_arrival = 0.0
        self._last_answer = 0.0
        self._work: list[asyncio.Task[Any]] = []

    async def add(self, args: dict[str, Any]) -> None:
        """Send an add; everything up to here happens before the caller's next step."""
        network = self.network
        add = _Add(args, network.loop.create_future())
        add.deadline = network.later(DEADLINE, self._expire, add)
        self._outstanding.append(add)
        self._travelling.append(add)
        now = network.loop.time()
        self._last_arrival = max(self._last_arrival, now + network.delay())
        network.later(self._last_arrival - now, self._arrive)
        if network.chance(network.conditions.loss):
            network.counters["stream broken"] += 1
            network.later(network.delay(), self.break_off, "connection reset")
        try:
            await add.reply
        finally:
            add.deadline.cancel()
            if add in self._outstanding:
                self._outstanding.remove(add)

    def _expire(self, add: _Add) -> None:
        if not add.reply.done():
            self.break_off("no answer in time")

    def break_off(self, reason: str) -> None:
        """Fail everything outstanding; part of what is under way still arrives."""
        if self.broken:
            return
        self.broken = True
        self._late = self.network.rng.randint(0, len(self._travelling))
        for add in self._outstanding:
            if not add.reply.done():
                add.reply.set_exception(BookieUnavailableError(self.link.bookie, reason))
        for work in self._work:
            if not work.done() and self.network.chance(self.network.conditions.cancellation):
                self.network.counters["add cancelled"] += 1
                work.cancel()

    def _arrive(self) -> None:
        """Something reaches the server: the oldest message under way."""
        network, link = self.network, self.link
        if self.broken:
            self._late -= 1
            if self._late < 0 or not link.host.is_up or link.host.life is not self.life:
                return
            network.counters["late add"] += 1
        elif network.is_cut(link.client.name, link.host.name):
            network.later(network.retry_delay(), self._arrive)
            return
        elif not link.host.is_up or link.host.life is not self.life:
            network.later(network.delay(), self.break_off, "connection reset")
            return
        self._arrived.append(self._travelling.popleft())
        if not self._starting:
            self._starting = True
            assert self.life is not None
            self.life.spawn(self._start_arrived(), name="stream of adds")

    async def _start_arrived(self) -> None:
        """Start each add before the next; runs as a task of the server."""
        assert self.life is not None
        while self._arrived:
            add = self._arrived.popleft()
            started: asyncio.Future[None] = self.network.loop.create_future()
            work = self.life.spawn(self._serve(add, started), name="serve add")
            self._work = [each for each in self._work if not each.done()] + [work]
            told = partial(self._served, add)
            work.add_done_callback(told, context=self.network.loop.root.context)
            await started
        self._starting = False

    async def _serve(self, add: _Add, started: asyncio.Future[None]) -> Any:
        started.set_result(None)
        return await self.network.serve(self.link.host, "add", add.args)

    def _served(self, add: _Add, work: asyncio.Task[Any]) -> None:
        if work.cancelled() or self.broken:
            return
        network = self.network
        now = network.loop.time()
        self._answers.append((add, carry_answer("add", self.link.bookie, work.result())))
        self._last_answer = max(self._last_answer, now + network.delay())
        network.later(self._last_answer - now, self._answer)
        if network.chance(network.conditions.loss):
            network.counters["answer lost"] += 1
            self.break_off("connection reset")

    def _answer(self) -> None:
        if self.broken:
            return
        if self.network.is_cut(self.link.host.name, self.link.client.name):
            self.network.later(self.network.retry_delay(), self._answer)
            return
        add, outcome = self._answers.popleft()
        settle(add.reply, outcome)
