"""Running a scenario: one seed, or many.

A run is a function of the scenario, its seed, the code and the Python version. So a seed that
fails fails again, with the same events, and a debugger or a print may be added.
"""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from quire.testing.sim.ending import collect_quietly, undisturbed
from quire.testing.sim.inside import chance_and_time
from quire.testing.sim.loop import new_loop
from quire.testing.sim.policy import Policy
from quire.testing.sim.process import NODE
from quire.testing.sim.weather import Weather
from quire.testing.sim.world import World

Scenario: TypeAlias = Callable[[World], Awaitable[None]]
"""A coroutine function of a world: starts processes, lets faults come, checks its rules."""

BOOKIES: Final = 4


@dataclass(frozen=True, slots=True)
class SimRun:
    """The end of one seed's run."""

    seed: int
    error: BaseException | None
    """The first violation, or error; None: nothing was wrong."""
    trace: str
    """A hash over every step and event: equal for equal runs."""
    events: tuple[str, ...] = field(repr=False)
    """What happened, in order, with virtual times."""
    faults: Counter[str]
    seconds: float
    """Virtual ones."""
    steps: int

    @property
    def failed(self) -> bool:
        """Whether something was wrong."""
        return self.error is not None

    def story(self, last: int | None = None) -> str:
        """Return the events, or the last of them, and the error, as text of several lines."""
        shown = self.events if last is None else self.events[-last:]
        verdict = "ok" if self.error is None else f"failed: {self.error!r}"
        return "\n".join([*shown, f"seed {self.seed} {verdict}"])


def run(
    scenario: Scenario, seed: int = 0, *, bookies: int = BOOKIES, weather: Weather | None = None
) -> SimRun:
    """Run a scenario in the world of a seed.

    Args:
        scenario: a coroutine function of a `World`. It fails if it raises; if a process's program
            raises; if a task fails and no other task looks; if nothing can ever happen again.
        seed: the world's number.
        bookies: how many bookies the cluster has.
        weather: the faults; None draws them from the seed.

    Returns:
        The run, with the error of the scenario or the first violation.

    Raises:
        Nothing: errors of the scenario are in the result.

    Guarantees: equal seeds give equal runs, unless the scenario looks outside: at the order of
        a set of texts (set `PYTHONHASHSEED`), the identity of objects, files. Threads, sockets
        and processes fail with `SimEscape`.
    """
    name = f"{seed}"
    drawn = weather or Weather.draw(random.Random(f"{name}:weather"))
    policy = random.Random(f"{name}:policy").choice(list(Policy))
    loop = new_loop(random.Random(f"{name}:loop"), policy)
    error: BaseException | None = None
    world = World(loop, name, drawn, bookies)
    with undisturbed(loop):
        try:
            with chance_and_time(name, loop.time), _listening(world):
                loop.run_until_complete(_play(scenario, world))
                loop.check_unhandled()
        except Exception as failed:
            error = failed
        finally:
            world.cluster.close()
        trace, steps, seconds = loop.trace.digest(), loop.steps, loop.time()
    ended = SimRun(seed, error, trace, tuple(world.events), world.faults, seconds, steps)
    del world, loop
    collect_quietly()
    return ended


async def _play(scenario: Scenario, world: World) -> None:
    await scenario(world)


class _Events(logging.Handler):
    """Puts what quire logs into the world's events."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.INFO)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        node = NODE.get(self._world.loop.root)
        text = f"{self._world.now():10.4f}  {node.name:14}  logs: {record.getMessage()}"
        self._world.events.append(text)


@contextmanager
def _listening(world: World) -> Iterator[None]:
    """Let quire's log go to the world's events in the block."""
    logger = logging.getLogger("quire")
    handler = _Events(world)
    level, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate


def explore(
    scenario: Scenario, seeds: Iterable[int] = range(100), *, bookies: int = BOOKIES
) -> SimRun | None:
    """Run a scenario in many worlds, until one fails.

        def test_the_bank() -> None:
            found = explore(scenario, range(200))
            assert found is None, found.story()

    Args:
        scenario: as in `run`.
        seeds: the worlds' numbers.
        bookies: how many bookies the cluster has.

    Returns:
        The first run that failed, None if none did.

    Raises:
        Nothing: errors of the scenario are in the result.
    """
    for seed in seeds:
        found = run(scenario, seed, bookies=bookies)
        if found.failed:
            return found
    return None
