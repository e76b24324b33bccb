"""Histories of simulated logs, for the judges: production code, virtual time.

A run of the `log` or `election` workload is a history: its leaders' appends, what every reader was
given, the linearizable ends that the analyst asked for, and two passes over the whole log after its
last leader closed it. The end of the last pass counts as a linearizable end.

The simulator's clients note positions. Offsets come from the readers, which are given both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from quire.log.records.position import Position
from tests.judges.history import Kind, Operation, Outcome, value_of
from tests.sim import history as sim
from tests.sim.run import Result, run_seed
from tests.sim.world import SimWorld

WORKLOADS: Final = ("log", "election")


@dataclass(frozen=True, slots=True)
class Simulated:
    """One run and its history, which is empty when the run did not come to its last readers."""

    result: Result
    history: list[Operation]

    @property
    def name(self) -> str:
        """What to call it."""
        return f"{self.result.workload}-{self.result.seed}"


def simulate(seed: int, workload: str) -> Simulated:
    """Run a seed and return its history."""
    histories: list[sim.LogHistory] = []

    def look(world: SimWorld) -> None:
        histories.append(world.log)

    result = run_seed(seed, workload, look=look)
    history = list(operations(histories[0])) if histories and histories[0].scans else []
    return Simulated(result, history)


def operations(history: sim.LogHistory) -> Iterator[Operation]:
    """Yield what the clients of a run did and saw."""
    passes = [*history.readings, *history.scans]
    offsets = {seen.position: seen.offset for each in passes for seen in each.records}
    for number, append in enumerate(history.appends):
        yield _append(number, append, offsets)
    for number, reading in enumerate(passes):
        yield from _reads(f"{reading.reader}#{number}", reading)
    for number, end in enumerate(history.ends):
        yield _end(f"{end.reader} end", number, end)
    last = history.scans[-1]
    if last.records:
        returned = history.now()
        end = sim.LogEnd("last", last.began, returned, last.records[-1].offset + 1)
        yield _end("last end", 0, end)
    if history.trimmed_to is not None:
        yield _trim(history.trimmed_to, {**_told(history), **offsets}, history.now())


def _told(history: sim.LogHistory) -> dict[Position, int]:
    """Return the offsets that leaders were told. A record may be trimmed before a reader meets
    it.
    """
    return {
        position: append.offset + at
        for append in history.appends
        if append.outcome is sim.Outcome.OK and append.offset is not None
        for at, position in enumerate(append.positions)
    }


_OUTCOMES: Final = {
    sim.Outcome.OK: Outcome.OK,
    sim.Outcome.FAILED: Outcome.FAILED,
    sim.Outcome.PENDING: Outcome.UNKNOWN,
    sim.Outcome.UNKNOWN: Outcome.UNKNOWN,
}


def _append(number: int, append: sim.LogAppend, offsets: dict[Position, int]) -> Operation:
    is_ok = append.outcome is sim.Outcome.OK
    offset = append.offset
    if is_ok and offset is None:  # adopted: its leader was told nothing
        offset = offsets.get(append.positions[0])
    return Operation(
        process=append.leader,
        number=number,
        kind=Kind.APPEND,
        called=append.called,
        returned=append.returned if is_ok else None,
        outcome=_OUTCOMES[append.outcome],
        values=tuple(value_of(payload) for payload in append.payloads),
        offset=offset if is_ok else None,
        expected=append.expected_offset,
        place=tuple(append.positions[0]) if is_ok else None,
    )


def _reads(process: str, reading: sim.LogReading) -> Iterator[Operation]:
    """Yield a read for each record; a pass that was told of a trim goes on under another name."""
    called, gaps = reading.began, 0
    for number, (seen, time) in enumerate(zip(reading.records, reading.times, strict=True)):
        gaps += number in reading.gap_before
        yield Operation(
            process=f"{process}.{gaps}" if gaps else process,
            number=number,
            kind=Kind.READ,
            called=called,
            returned=time,
            outcome=Outcome.OK,
            values=(value_of(seen.payload),),
            offset=seen.offset,
        )
        called = time


def _end(process: str, number: int, end: sim.LogEnd) -> Operation:
    return Operation(
        process=process,
        number=number,
        kind=Kind.END,
        called=end.called,
        returned=end.returned,
        outcome=Outcome.OK,
        offset=end.offset,
    )


def _trim(before: Position, offsets: dict[Position, int], now: int) -> Operation:
    """Return the trim; where the offset at its position is not known, of a little more."""
    later = [offset for position, offset in offsets.items() if position >= before]
    highest = max(offsets.values(), default=-1)
    return Operation(
        process="owner",
        number=0,
        kind=Kind.TRIM,
        called=now,
        returned=now,
        outcome=Outcome.OK,
        offset=min(later, default=highest + 1),
    )
