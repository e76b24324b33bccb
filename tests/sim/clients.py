"""The machines of those who use bookies: a process with production's roster and catalog over
simulated links, which does its work and disconnects.

It may be killed, paused, or told to stop in order, as a signal does: then its work is cancelled
wherever it is, and the process must end soon and leave nothing running.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine
from typing import Any, Final, TypeAlias, TypeVar

from quire.errors import InvalidRequestError, QuireError
from quire.ledger.catalog import LedgerCatalog
from quire.ledger.roster import BookieRoster
from quire.ledger.stored_records import StoredRecords
from quire.testing.sim.process import Incarnation
from tests.sim.history import Violation
from tests.sim.machines import Machine, World
from tests.sim.store import SimStore
from tests.support.stretching import as_it_is

T = TypeVar("T")

RETRY_SECONDS: Final = 0.1
END_SECONDS_MAX: Final = 60.0
"""A client that is told to stop has ended by then: all it may wait for has a limit of its own."""
IMPATIENT_SHARE: Final = 0.5
"""How many of those that are told to stop are told once more."""
LEFT_SECONDS_MAX: Final = 1.0
"""What it cancelled on its way out has ended by then, too."""
RULE = "whoever is told to stop stops"


class ClientMachine(Machine):
    """A process that uses ledgers and logs."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.store: SimStore | None = None
        self.roster: BookieRoster | None = None
        self._catalog: LedgerCatalog | None = None
        self._main: asyncio.Task[Any] | None = None
        self.is_stopping = False
        self.off = 0.0
        """Seconds by which its wall clock is wrong."""
        self.jumps = 0
        """How often its wall clock has jumped."""
        self.trouble: Exception | None = None
        """The last error that did not end its work."""

    @property
    def catalog(self) -> LedgerCatalog:
        assert self._catalog is not None, f"{self.name} is not started"
        return self._catalog

    def clock(self) -> float:
        """The wall clock of its machine."""
        return self.world.clock() + self.off

    def start(self) -> Incarnation:
        """Start the process with nothing in it yet."""
        life = self.begin_life()
        self.store = self.world.store(life)
        network = self.world.network
        self.roster = BookieRoster(self.store, lambda address: network.connect(life, address))
        rng = self.world.rng(f"{self.name}:{self.lives}")
        self._catalog = LedgerCatalog(
            StoredRecords(self.store, rng),
            self.roster,
            rng=rng,
            clock=self.clock,
            options=self.world.options,
            observer=self.world.conformance.observer(self.name),
            stretching=as_it_is,
        )
        return life

    def run(self, work: Work[T]) -> asyncio.Task[T]:
        """Start a process that connects, does its work and disconnects."""
        life = self.start()

        async def main() -> T:
            assert self.store is not None
            assert self.roster is not None
            await self.insist(self.roster.start)
            try:
                return await work(self)
            finally:
                try:
                    await self.roster.close()
                finally:
                    await self.store.close()

        self._main = task = life.spawn(main(), name=f"{self.name} main")
        self.is_stopping = False
        task.add_done_callback(lambda _: self._is_over(life), context=self.world.loop.root.context)
        return task

    def stop(self) -> None:
        """Tell the process to stop, as a signal does: its work is cancelled, wherever it is. It
        must end soon, and leave nothing running.
        """
        life, task = self.life, self._main
        if life is None or task is None or task.done() or self.is_stopping:
            return
        self.is_stopping = True
        task.cancel()
        self._must_end(life, task, END_SECONDS_MAX)
        rng = self.world.rng(f"{life}:stop")
        if rng.random() < IMPATIENT_SHARE:
            self.world.network.later(rng.expovariate(20.0), self._hurry, life, task)

    def _hurry(self, life: Incarnation, task: asyncio.Task[Any]) -> None:
        """Tell it once more, as a time limit does: what it does to end in order is cut short."""
        if self.life is life and not task.done():
            self.world.network.counters["client told to stop twice"] += 1
            task.cancel()

    def _must_end(self, life: Incarnation, task: asyncio.Task[Any], seconds: float) -> None:
        """Fail unless a life that was told to stop has ended by then; being paused excuses it."""

        def look() -> None:
            if self.paused:
                self._must_end(life, task, seconds)
            elif self.life is life and not task.done():
                text = f"{life} was told to stop, and goes on"
                self.world.loop.fail(Violation(RULE, text))

        self.world.network.later(seconds, look)

    def _is_over(self, life: Incarnation) -> None:
        if self.life is life and self.is_stopping:
            self.world.network.counters["client ended in order"] += 1
            self.world.network.later(LEFT_SECONDS_MAX, self._leave, life, self.pauses)

    def _leave(self, life: Incarnation, pauses: int) -> None:
        """The process that was told to stop is gone, unless it was paused meanwhile."""
        if self.life is not life:
            return
        if self.paused or self.pauses > pauses:
            self.world.network.later(LEFT_SECONDS_MAX, self._leave, life, self.pauses)
            return
        if left := self.world.loop.pending(life):
            self.world.loop.fail(Violation(RULE, f"{life} leaves {left} running"))
        self.end_life()

    async def insist(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Repeat a call until no error of quire ends it. That it is wrong it is never told."""
        while True:
            try:
                return await call()
            except InvalidRequestError as error:
                text = f"{self.name} is told: {error}"
                raise Violation("no call is found invalid", text) from error
            except QuireError as error:
                self.trouble = error
                await asyncio.sleep(RETRY_SECONDS)


Work: TypeAlias = Callable[[ClientMachine], Coroutine[Any, Any, T]]
"""What a client does from when it is connected until it disconnects."""


async def join(client: ClientMachine, task: asyncio.Task[Any]) -> None:
    """Wait until a client's work is done or the client is dead; raise what the work raised."""
    if client.is_running and not task.done():
        over = asyncio.Event()
        task.add_done_callback(lambda _: over.set())
        client.mourners.append(over)
        await over.wait()
    await outcome(client, task)


async def all_ended(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Wait until tasks have ended, as they do when what they wait for is closed; raise what was
    wrong. Some may have been cancelled with whoever waited for them.
    """
    if tasks:
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel()
            raise
    for task in tasks:
        if not task.cancelled():
            task.result()


async def outcome(client: ClientMachine, task: asyncio.Task[Any]) -> None:
    """Raise what a client's work raised, if it ended; when it was told to stop, see it gone."""
    if task.done() and not task.cancelled():
        await task
    while client.is_running and client.is_stopping:
        gone = asyncio.Event()
        client.mourners.append(gone)
        await gone.wait()
