"""A world for an application: its processes, a cluster, faults, and rules.

    async def scenario(world: World) -> None:
        for number in range(3):
            world.start(f"replica-{number}", replica)     # async def replica(machine): ...
        world.begin_faults()
        await asyncio.sleep(10)                            # virtual seconds
        await world.heal()
        await world.until(lambda: all_agree(), "all replicas agree")

A process runs production's client, unchanged, on virtual time. It is killed between two of its
steps: no `finally` of it runs. It is started again a moment later, with nothing but its machine's
`disk`. It is paused past its session, and cut off from the store and from bookies.

Entries and metadata live as long as the world, as in `MemoryCluster`. Disks, clocks that are
wrong, and garbage collection are not simulated: quire's own simulator has those.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

from quire.aio.timing import time_limit
from quire.testing.cluster import MemoryCluster
from quire.testing.sim.inside import CLOCK_START
from quire.testing.sim.lines import STORE, DistantBookie, DistantTree, End, Lines
from quire.testing.sim.loop import SimLoop
from quire.testing.sim.process import Incarnation
from quire.testing.sim.weather import Trouble, Weather

NAME: Final = "sim"
"""The name of a world's cluster; one world at a time is run."""

RESTART_SECONDS: Final = 0.5
"""A process that was killed is started again after so long, on average."""

LOOK_SECONDS: Final = 0.05
"""How often `World.until` looks."""

UNTIL_SECONDS: Final = 120.0
"""How long `World.until` waits by default: virtual seconds."""


CALL_SECONDS: Final = 5.0
"""How long `SimMachine.call` waits by default."""

Handler: TypeAlias = Callable[[Any], Awaitable[Any]]
"""Answers a request of another process."""


Program: TypeAlias = "Callable[[SimMachine], Awaitable[None]]"
"""The program of a process: a coroutine function of its machine."""


class SimViolation(AssertionError):  # noqa: N818
    """Something that must hold did not."""


class DistantCluster(MemoryCluster):
    """The cluster of a world: every client is at the end of lines."""

    def __init__(self, bookies: int, lines: Lines) -> None:
        self._lines = lines
        super().__init__(bookies, name=NAME)

    def _new_tree(self) -> DistantTree:
        return DistantTree(self.name, self._lines)

    def _new_bookie(self, number: int) -> DistantBookie:
        return DistantBookie(f"{self.name}-bookie-{number}", number, self._lines)

    def expire(self, process: str) -> bool:
        """End the sessions of a process; return whether it had one."""
        assert isinstance(self._switched, DistantTree)
        return self._switched.expire(process)


async def _answer(handler: Handler, request: Any, answer: asyncio.Future[Any]) -> None:
    try:
        found = await handler(request)
    except Exception as error:
        if not answer.done():
            answer.set_exception(error)
            answer.exception()  # the caller may have gone
    else:
        if not answer.done():
            answer.set_result(found)


class SimMachine:
    """A machine with one process at a time. Made by `World.start`."""

    def __init__(
        self, world: World, name: str, main: Program, restart_on: tuple[type[Exception], ...]
    ) -> None:
        self.world = world
        self.name = name
        self.disk: dict[str, Any] = {}
        """The values that outlive the machine's processes. Each assignment is one step: it has
        happened or not. Only values that are never changed in place belong here.
        """
        self.lives = 0
        """How many processes it has had."""
        self.is_done = False
        """Whether `main` has returned."""
        self._main = main
        self._restart_on = restart_on
        self._life: Incarnation | None = None
        self.random = world.chance(name)
        """Chance of its own: one more draw here shifts nothing elsewhere."""
        self._handler: Handler | None = None

    def __repr__(self) -> str:
        return f"{self.name}#{self.lives}"

    @property
    def is_running(self) -> bool:
        """Whether its process runs. A paused one does."""
        return self._life is not None

    @property
    def is_paused(self) -> bool:
        """Whether its process is stopped, as by SIGSTOP."""
        return self._life is not None and self._life.paused

    def serve(self, handler: Handler) -> None:
        """Answer other processes from now on, as long as this process lives.

        Args:
            handler: a coroutine function of a request; the caller gets its result or its error.
        """
        self._handler = handler

    async def call(self, name: str, request: Any, seconds: float = CALL_SECONDS) -> Any:
        """Send a request to another machine's process, and return its answer.

        Args:
            name: the machine.
            request: any value. The other process must not change it in place.
            seconds: how long to wait for the answer.

        Returns:
            The handler's result.

        Raises:
            ConnectionRefusedError: no process answers there: nothing happened.
            TimeoutError: no answer came. The request may have taken effect, or may do so yet.
            Exception: the handler's error.
        """
        async with time_limit(seconds):
            lines, other = self.world.lines, self.world.machine(name)
            if not await lines.message(name):
                raise ConnectionRefusedError(f"{name} did not take the call")
            life, handler = other._life, other._handler
            if life is None or handler is None:
                raise ConnectionRefusedError(f"{name} does not listen")
            answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            life.spawn(_answer(handler, request, answer), name=f"answers {self.name}")
            await asyncio.wait([answer])
            if not await lines.message(name):
                raise TimeoutError(f"the answer of {name} was lost")
            return answer.result()

    def start(self) -> None:
        """Start the process, unless it runs or has ended by itself."""
        if self._life is None and not self.is_done:
            self.lives += 1
            self._life = life = Incarnation(self.world.loop, self.name, self.lives)
            self.world.note(self.name, f"starts, life {self.lives}")
            life.spawn(self._run(life), name=f"{self.name} main")

    async def _run(self, life: Incarnation) -> None:
        try:
            await self._main(self)
        except self._restart_on as error:
            self.world.note(self.name, f"ends, and is started again: {error!r}")
            self.world.later(0.0, self.crash)
            return
        except Exception as error:
            failure = SimViolation(f"{life} ended with {error!r}")
            failure.__cause__ = error
            self.world.loop.fail(failure)
            return
        if self._life is life:
            self.is_done, self._life = True, None
            self.world.note(self.name, "has ended")

    def kill(self) -> None:
        """End the process as SIGKILL does. It is not started again unless `start` is called."""
        if self._life is not None:
            self.world.note(self.name, "is killed")
            self.world.loop.kill(self._life)
            self._life = self._handler = None

    def crash(self) -> None:
        """Kill the process; a supervisor starts the next one a moment later."""
        self.kill()
        self.world.later(self.random.expovariate(1 / RESTART_SECONDS), self.start)

    def pause(self) -> None:
        """Stop the process as SIGSTOP does: its sessions may end meanwhile."""
        if self._life is not None and not self._life.paused:
            self.world.note(self.name, "is paused")
            self.world.loop.pause(self._life)

    def resume(self) -> None:
        """Let a paused process go on."""
        if self._life is not None and self._life.paused:
            self.world.note(self.name, "goes on")
            self.world.loop.resume(self._life)


class World:
    """See the module. `run` (run.py) makes one for each seed."""

    def __init__(self, loop: SimLoop, seed: str, weather: Weather, bookies: int) -> None:
        self.loop = loop
        self.weather = weather
        self.faults: Counter[str] = Counter()
        """How often each fault came."""
        self.events: list[str] = []
        """What happened, with the virtual time of each event."""
        self.machines: list[SimMachine] = []
        self._seed = seed
        self.random = self.chance("scenario")
        """The scenario's chance."""
        self.lines = Lines(self.chance("lines"), weather)
        self.cluster = DistantCluster(bookies, self.lines)
        self._injector: asyncio.Task[None] | None = None
        self._fault_chance = self.chance("faults")

    @property
    def store_uri(self) -> str:
        """The URI for `quire.connect`."""
        return self.cluster.store_uri

    def chance(self, name: str) -> random.Random:
        """Return a generator of its own for a name: equal for equal seeds."""
        return random.Random(f"{self._seed}:{name}")

    def now(self) -> float:
        """Return the virtual seconds since the run began."""
        return self.loop.time()

    def wall_clock(self) -> float:
        """Return the time that `time.time()` has."""
        return CLOCK_START + self.now()

    def start(
        self, name: str, main: Program, *, restart_on: tuple[type[Exception], ...] = ()
    ) -> SimMachine:
        """Start a process on a machine of its own.

        Args:
            name: the machine's name.
            main: the program: a coroutine function of its machine. It connects by
                `quire.connect(machine.world.store_uri)`. Whenever it was killed, it is called
                again.
            restart_on: errors that may end the program: its supervisor starts it again. After
                any other error the run has failed.

        Returns:
            The machine.
        """
        assert all(each.name != name for each in self.machines), f"machine {name} exists"
        machine = SimMachine(self, name, main, restart_on)
        self.machines.append(machine)
        machine.start()
        return machine

    def machine(self, name: str) -> SimMachine:
        """Return a machine by its name."""
        return next(each for each in self.machines if each.name == name)

    def note(self, name: str, what: str) -> None:
        """Write an event down: it is shown when the run fails, and is part of its trace."""
        self.events.append(f"{self.now():10.4f}  {name:14}  {what}")
        self.loop.note(f"{name} {what}")

    def fail(self, reason: str) -> None:
        """End the run: something that must hold did not."""
        self.loop.fail(SimViolation(reason))

    def require(self, condition: object, reason: str) -> None:
        """End the run unless a condition is true."""
        if not condition:
            raise_in(self.loop, reason)

    async def until(
        self, condition: Callable[[], object], reason: str, seconds: float = UNTIL_SECONDS
    ) -> None:
        """Wait until a condition is true; the run has failed if it does not become true.

        Args:
            condition: a function without arguments, which is asked every 50 ms of virtual time.
            reason: the awaited state, for the error.
            seconds: how long to wait.
        """
        end = self.now() + seconds
        while not condition():
            if self.now() > end:
                raise SimViolation(f"not within {seconds:g} s: {reason}")
            await asyncio.sleep(LOOK_SECONDS)

    def later(self, seconds: float, action: Callable[[], object]) -> None:
        """Do something after some virtual seconds, whatever becomes of the processes."""
        self.loop.call_later(seconds, action, context=self.loop.root.context)

    # Faults.

    def begin_faults(self) -> None:
        """Let faults come from now on, as the weather has it, until `heal`."""
        assert self._injector is None, "faults come already"
        self._injector = self.loop.root.spawn(self._inject(), name="faults")

    async def heal(self) -> None:
        """End all faults: every process runs, every bookie serves, every line is whole."""
        if self._injector is not None:
            self._injector.cancel()
            await asyncio.wait([self._injector])
            self._injector = None
        self.note("world", "heals")
        self.lines.mend_all()
        self.cluster.heal()
        for machine in self.machines:
            machine.resume()
            machine.start()

    async def _inject(self) -> None:
        chance = self._fault_chance
        while (found := self.weather.next_trouble(chance)) is not None:
            seconds, kind = found
            await asyncio.sleep(seconds)
            if self._strike(kind, chance):
                self.faults[kind] += 1

    def _strike(self, kind: Trouble, chance: random.Random) -> bool:
        """Let a fault come; return whether it found a victim."""
        if kind in (Trouble.BOOKIE_DOWN, Trouble.BOOKIE_SILENT):
            self._strike_bookie(kind, chance)
            return True
        running = [each for each in self.machines if each.is_running and not each.is_paused]
        if not running:
            return False
        victim, seconds = chance.choice(running), self.weather.seconds(chance)
        if kind is Trouble.CRASH:
            victim.crash()
        elif kind is Trouble.PAUSE:
            victim.pause()
            self.later(seconds, victim.resume)
        elif kind is Trouble.EXPIRE:
            self.note(victim.name, "loses its session")
            return self.cluster.expire(victim.name)
        else:
            end, what = self._draw_end(kind, chance)
            self.note(victim.name, f"is cut off from {what} for {seconds:.2f} s")
            self.lines.cut(victim.name, end)
            self.later(seconds, lambda: self.lines.mend(victim.name, end))
        return True

    def _draw_end(self, kind: Trouble, chance: random.Random) -> tuple[End, str]:
        if kind is Trouble.CUT_STORE:
            return STORE, "the store"
        if kind is Trouble.CUT_PROCESS:
            name = chance.choice(self.machines).name
            return name, name
        bookie = chance.randrange(self.cluster.bookies)
        return bookie, f"bookie {bookie}"

    def _strike_bookie(self, kind: Trouble, chance: random.Random) -> None:
        bookie, seconds = chance.randrange(self.cluster.bookies), self.weather.seconds(chance)
        is_down = kind is Trouble.BOOKIE_DOWN
        self.note(f"bookie {bookie}", f"is {'killed' if is_down else 'paused'} for {seconds:.2f} s")
        if is_down:
            self.cluster.kill(bookie)
            self.later(seconds, lambda: self.cluster.restart(bookie))
        else:
            self.cluster.pause(bookie)
            self.later(seconds, lambda: self.cluster.resume(bookie))


def raise_in(loop: SimLoop, reason: str) -> None:
    """Fail the run, and stop the step that found it."""
    failure = SimViolation(reason)
    loop.fail(failure)
    raise failure
