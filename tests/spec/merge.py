"""Are the events of several processes, each in its own order, a behaviour of the specification?

No clock says how events of different processes follow each other, and none is asked. A guard of the
judge (trace.py) concerns one process alone or asks whether another one did something already. What
was done stays done, so a guard that holds goes on to hold whatever else is taken. Therefore an
event that may be taken can be taken at once, and the merge never has to go back. If it is stuck, no
order of the events is a behaviour. It takes as many rounds as the processes wait for each other.

One thing is weaker than an order of all events: what has no cause in another event may stand too
early. A denial counts if its bookie gave it to any recovery.

Not here: what events are like in files (files.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tests.spec.events import Event, Shape
from tests.spec.trace import Behaviour, RefusedError, highest


class Line(NamedTuple):
    """An event, and where it stands."""

    place: str
    """File and line, for people."""
    event: Event


class Waiting(NamedTuple):
    """The first event of a process that no action of the specification explains."""

    process: str
    line: Line
    reason: str

    def __str__(self) -> str:
        return f"{self.line.place} ({self.process}): {self.line.event}: {self.reason}"


def merge(shape: Shape, streams: Mapping[str, Sequence[Line]]) -> list[Waiting]:
    """Return what each process that is stuck waits for; nothing when all events are explained."""
    state = Behaviour(shape, highest(line.event for lines in streams.values() for line in lines))
    taken = dict.fromkeys(sorted(streams), 0)
    waiting: list[Waiting] = []
    is_moving = True
    while is_moving:
        is_moving = False
        waiting = []
        for process, number in taken.items():
            lines = streams[process]
            count, stuck = _take(state, process, lines[number:])
            taken[process] = number + count
            is_moving = is_moving or count > 0
            if stuck is not None:
                waiting.append(stuck)
    return waiting


def _take(state: Behaviour, process: str, lines: Sequence[Line]) -> tuple[int, Waiting | None]:
    """Take what can be taken of a process; return how much, and what is next."""
    for number, line in enumerate(lines):
        try:
            state.take(line.event)
        except RefusedError as error:
            return number, Waiting(process, line, str(error))
    return len(lines), None
