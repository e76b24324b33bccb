"""Running one seed: mix, world, workload, verdict.

A run is a function of (seed, workload, the code, the Python version): nothing else enters. It is
`ok`, `void` (too little happened to prove anything) or `failed`, with the error.
"""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from quire.entry import LedgerId
from quire.testing.sim.ending import undisturbed
from quire.testing.sim.loop import SimLoop, new_loop
from quire.testing.sim.process import NODE
from tests.sim.auditors import healed
from tests.sim.deletion_workload import DeletionWorkload
from tests.sim.election_workload import ElectionWorkload
from tests.sim.exile_workload import ExileWorkload
from tests.sim.faults import FaultMix, draw_mix
from tests.sim.gap_workload import GapWorkload
from tests.sim.healing_workload import HealingWorkload, draw_healing_workload
from tests.sim.history import Violation
from tests.sim.ledger_workload import ACKS_MIN, LedgerWorkload, draw_ledger_workload
from tests.sim.log_workload import LogWorkload, draw_log_workload
from tests.sim.numbered_workload import NumberedWorkload
from tests.sim.pages_workload import PagesWorkload, draw_pages_workload
from tests.sim.restored_workload import RestoredWorkload
from tests.sim.service_workload import ServiceWorkload
from tests.sim.world import SimWorld
from tests.spec.events import Event, Shape

SCRUB: Final = "quire.storage.maintenance.scrub"
"""Who may log damage as an error, of a disk that was hurt."""

_WITH_HEALERS: Final[dict[str, tuple[Any, Any]]] = {
    "ledger": (LedgerWorkload, draw_ledger_workload),
    "numbered": (NumberedWorkload, draw_ledger_workload),
    "log": (LogWorkload, draw_log_workload),
    "election": (ElectionWorkload, draw_log_workload),
    "deletion": (DeletionWorkload, draw_log_workload),
    "service": (ServiceWorkload, draw_log_workload),
    "exile": (ExileWorkload, draw_ledger_workload),
    "restored": (RestoredWorkload, draw_ledger_workload),
    "gap": (GapWorkload, draw_log_workload),
    "pages": (PagesWorkload, draw_pages_workload),
}
"""Each runs in a cluster that heals itself, too: `healed ledger` is `ledger` there."""

WORKLOADS: Final[dict[str, tuple[Any, Any]]] = {
    **_WITH_HEALERS,
    "healing": (HealingWorkload, draw_healing_workload),
    **{f"healed {name}": (healed(build), draw) for name, (build, draw) in _WITH_HEALERS.items()},
}

LOG_EVERY: Final = 5
"""Of so many seeds of a campaign one is of a log: it takes about four times as long as one of a
ledger, so half of the time goes to each."""

NUMBERED: Final = 7
DELETED: Final = 10
LOST: Final = 40
EXILED: Final = 9
PAGED: Final = 13
HEALED: Final = 3
HEALED_EVERY: Final = 3
"""Of so many seeds of a workload that healers may accompany, one has them."""


def workload_of(seed: int) -> str:
    """The workload that a seed of a campaign runs.

    Four of five seeds are of a ledger; of those that end in 7, every second one numbers its entries
    itself; those that end in 3 are in turn of lost bookies and of manifests with small pages; those
    that end in 9 are in turn of writers in exile and of a store that is put back.
    Every fifth is of a log: those that end in 0 with rival leaders, every fourth of them with
    deletions and every eighth with lost records; those that end in 5 in turn with an election and
    with a service. Every third seed is in a cluster that heals itself, where the workload can be.
    """
    name = _plain_workload_of(seed)
    healed_name = f"healed {name}"
    return healed_name if seed % HEALED_EVERY == 2 and healed_name in WORKLOADS else name


def _plain_workload_of(seed: int) -> str:
    if seed % LOG_EVERY:
        if seed % (2 * LOG_EVERY) == EXILED:
            return "exile" if seed % (4 * LOG_EVERY) == EXILED else "restored"
        if seed % (4 * LOG_EVERY) == PAGED:
            return "pages"
        if seed % (4 * LOG_EVERY) == HEALED:
            return "healing"
        return "numbered" if seed % (4 * LOG_EVERY) == NUMBERED else "ledger"
    if seed % (2 * LOG_EVERY) == 0:
        if seed % (16 * LOG_EVERY) == LOST:
            return "gap"
        return "deletion" if seed % (8 * LOG_EVERY) == DELETED else "log"
    return "election" if seed % (4 * LOG_EVERY) == LOG_EVERY else "service"


@dataclass
class Result:
    """What became of one seed."""

    seed: int
    workload: str
    verdict: str = "ok"
    error: BaseException | None = None
    refusal: Violation | None = None
    """Why a trace is not a behaviour of the specification, also if a checker spoke first."""
    trace: str = ""
    steps: int = 0
    virtual_seconds: float = 0.0
    acks: int = 0
    counters: Counter[str] = field(default_factory=Counter)
    mix: dict[str, Any] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    traces: dict[LedgerId, tuple[Shape, list[Event]]] = field(default_factory=dict)
    """What the specification was asked about, where events were wanted."""

    @property
    def failed(self) -> bool:
        return self.verdict == "failed"


class _Log:
    """The event log of one run: who did what, when."""

    def __init__(self, loop: SimLoop, events: list[str]) -> None:
        self._loop = loop
        self._events = events

    def __call__(self, who: str, what: str) -> None:
        self._events.append(f"{self._loop.time():10.4f}  {who:14}  {what}")


def run_seed(
    seed: int,
    workload: str = "ledger",
    *,
    events: bool = False,
    adjust: Callable[[FaultMix], None] | None = None,
    look: Callable[[SimWorld], None] | None = None,
) -> Result:
    """Run one seed. `adjust` may change the mix that was drawn (tests, ablations). `look` is shown
    the world when the run is over.
    """
    result = Result(seed, workload)
    name = f"{workload}:{seed}"
    mix = draw_mix(random.Random(f"{name}:mix"))
    if adjust is not None:
        adjust(mix)
    result.mix = mix.describe()
    loop = new_loop(random.Random(f"{name}:loop"), mix.policy)
    with undisturbed(loop):
        try:
            log = _Log(loop, result.events) if events else None
            with _listening(loop, log):
                loop.run_until_complete(_play(loop, name, mix, result, log, look))
                loop.check_unhandled()
            if result.refusal is not None:
                raise result.refusal
        except Exception as error:
            result.verdict, result.error = "failed", error
        finally:
            result.trace = loop.trace.digest()
            result.steps = loop.steps
            result.virtual_seconds = loop.time()
    return result


class _Alarm(logging.Handler):
    """What production code logs as an error is a failure here; the rest goes to the event log."""

    def __init__(self, loop: SimLoop, log: _Log | None) -> None:
        super().__init__(logging.DEBUG if log is not None else logging.ERROR)
        self._loop = loop
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        node = NODE.get(self._loop.root)
        reports_damage = record.name == SCRUB and node.name in self._loop.ailing
        if record.levelno >= logging.ERROR and not reports_damage:
            failure = Violation("nothing is logged as an error", record.getMessage())
            if record.exc_info:
                failure.__cause__ = record.exc_info[1]
            self._loop.fail(failure)
        if self._log is not None:
            self._log(repr(node), f"logs: {record.getMessage()}")


@contextmanager
def _listening(loop: SimLoop, log: _Log | None) -> Iterator[None]:
    """Attach an alarm to production's loggers for one run."""
    logger, alarm = logging.getLogger("quire"), _Alarm(loop, log)
    level, propagate = logger.level, logger.propagate
    logger.addHandler(alarm)
    logger.setLevel(alarm.level)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(alarm)
        logger.setLevel(level)
        logger.propagate = propagate


async def _play(
    loop: SimLoop,
    name: str,
    mix: FaultMix,
    result: Result,
    log: _Log | None,
    look: Callable[[SimWorld], None] | None,
) -> None:
    rng = random.Random(f"{name}:workload")
    build, draw = WORKLOADS[result.workload]
    replication, bookies = draw(rng)
    world = SimWorld(loop, name, mix, bookies)
    world.network.log = log
    work = build(world, rng, replication)
    try:
        with world.knobs:
            await work.run()
    finally:
        result.acks = work.acks
        result.counters = world.events()
        result.refusal = world.conformance.refusal() or world.log_conformance.refusal()
        if log is not None:
            result.traces = world.conformance.traces()
        if look is not None:
            look(world)
    if work.acks < ACKS_MIN:
        result.verdict = "void"
