"""One ledger whose entries are numbered by the application, and come in another order.

Everything else is as in `ledger_workload`. Entries are shuffled within a window, which may be wider
than what may be in flight. Sometimes one never comes: what is numbered behind it must be told so
when the writer ends, and may never be read. An id that was taken is given again now and then.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Collection
from typing import Final

from quire.entry import EntryId
from quire.errors import DuplicateEntryError, QuireError
from quire.ledger.numbered import NumberedWriter
from quire.ledger.quorum import Replication
from quire.ledger.writer import LedgerWriter
from tests.sim.clients import ClientMachine
from tests.sim.history import Append, Outcome, require
from tests.sim.ledger_workload import LedgerWorkload
from tests.sim.world import SimWorld

WINDOWS: Final = (1, 3, 10, 60)
"""Entries among which the order is drawn. More than may be in flight: 60."""


class NumberedWorkload(LedgerWorkload):
    """See the module."""

    def __init__(self, world: SimWorld, rng: random.Random, replication: Replication) -> None:
        super().__init__(world, rng, replication)
        traits = world.rng("numbers")
        self.order = shuffled(self.count, traits.choice(WINDOWS), traits)
        self.gap = traits.randrange(self.count) if traits.random() < 0.3 else self.count
        """The entry that never comes."""
        self.appends: list[Append] = []
        self.accepted: set[EntryId] = set()
        self.ending = asyncio.Event()

    async def _append_all(
        self, client: ClientMachine, writer: LedgerWriter, rng: random.Random
    ) -> None:
        self.numbered = numbered = NumberedWriter(writer, self.world.options)
        payloads = [self._payload(number, rng) for number in range(self.count)]
        offer = self.world.ledgers.offer
        self.appends = [offer(client.name, writer.ledger, payload) for payload in payloads]
        tasks: list[asyncio.Task[None]] = []
        for place, number in enumerate(self.order):
            if self.ending.is_set():
                break
            if place == self.count - 2:
                self.amnesia.prepare(self._ensemble())
            if number != self.gap:
                tasks.append(asyncio.create_task(self._give(numbered, number)))
                self.writing.append(tasks[-1])
            if rng.random() < 0.05:
                await self._give_again(numbered, rng)
            await self._pause(rng)
        # What is before the gap is answered in any case; behind it, only when the writer ends.
        given = [number for number in self.order if number != self.gap]
        answered = [task for number, task in zip(given, tasks, strict=False) if number < self.gap]
        await first_of(all_done(answered), self.ending.wait())
        await self._end_writer(client, numbered, rng)
        for task in tasks:
            await task
        self._never_sent()

    async def _give(self, numbered: NumberedWriter, number: EntryId) -> None:
        append = self.appends[number]
        try:
            future = await numbered.submit(number, append.payload)
        except QuireError as error:
            self._refused(append, error)
            self.ending.set()
            return
        self.accepted.add(number)
        await self._submitted(numbered.writer, append, future)
        if append.outcome is not Outcome.OK:
            self.ending.set()

    async def _give_again(self, numbered: NumberedWriter, rng: random.Random) -> None:
        if not numbered.expected:
            return
        number = rng.randrange(numbered.expected)  # sent: such an id is never free again
        try:
            await numbered.submit(number, b"again")
        except DuplicateEntryError:
            self.world.note_fault("id given again")
        except QuireError as error:  # it has ended
            self.world.say("writer", f"is not told that {number} is taken: {error!r}")
        else:
            require(False, "an id is taken once", f"{number} was taken twice")

    def _never_sent(self) -> None:
        """What is behind the first entry that was not accepted, nobody may ever read."""
        missing = [each for each in range(self.count) if each not in self.accepted]
        for append in self.appends[min(missing, default=self.count) :]:
            require(
                append.outcome is not Outcome.OK,
                "what is behind a gap is not confirmed",
                f"{append.payload[:8]!r} was confirmed; never given: {missing}",
            )
            append.outcome = Outcome.FAILED
        if missing:
            self.world.note_fault("entry that never came")


def shuffled(count: int, window: int, rng: random.Random) -> list[EntryId]:
    """Return 0 … count − 1, in disorder within windows."""
    order: list[EntryId] = []
    for start in range(0, count, window):
        part = list(range(start, min(start + window, count)))
        rng.shuffle(part)
        order += part
    return order


async def all_done(tasks: Collection[asyncio.Task[None]]) -> None:
    """Wait until tasks have ended; who gives up leaves them alone."""
    if tasks:
        await asyncio.wait(tasks)


async def first_of(*works: Awaitable[object]) -> None:
    """Return when one of several has ended; the others are given up."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
