"""What writers were told and what readers read, held against each other. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

SHOWN_MAX: Final = 5
"""Violations of one kind that are told; the others are counted."""


class Read(NamedTuple):
    """A record as a reader had it."""

    offset: int
    payload: str


@dataclass
class Written:
    """What one writer sent, and what it was told.

    The payloads of the writer `http` are `http-0`, `http-1` and so on.
    """

    acked: dict[int, int] = field(default_factory=dict)
    """The offset of each number that was acknowledged."""
    failed: list[str] = field(default_factory=list)
    """What the writer gave up, in its own words."""
    doubles: list[str] = field(default_factory=list)
    """Numbers that were acknowledged twice, with both offsets."""

    def heard(self, line: str) -> None:
        """Take a line of the writer's program: `acked NUMBER OFFSET`, or another as a failure."""
        words = line.split()
        if len(words) != 3 or words[0] != "acked":
            self.failed.append(line)
            return
        number, offset = int(words[1]), int(words[2])
        before = self.acked.setdefault(number, offset)
        if before != offset:
            self.doubles.append(f"{number} was acknowledged at {before} and at {offset}")


def check(
    written: Mapping[str, Written], readings: Mapping[str, Sequence[Read]], end: int
) -> list[str]:
    """Return what is wrong with a log.

    Args:
        written: by the name of the writer. Each writer ended in order, so all that it sent is
            acknowledged.
        readings: the whole log, by the name of the reader.
        end: the offset after the last record.

    Returns:
        A line for each violation; none if the log kept every promise.
    """
    wrong: list[str] = []
    for name, writer in written.items():
        wrong += [f"{name} failed: {line}" for line in writer.failed[:SHOWN_MAX]]
        wrong += [f"{name}: {line}" for line in writer.doubles[:SHOWN_MAX]]
        if sorted(writer.acked) != list(range(len(writer.acked))):
            wrong.append(f"{name} was told of numbers with gaps between them")
    if not readings:
        return [*wrong, "nothing read the log"]
    first, *others = readings
    history = readings[first]
    for name in others:
        wrong += _differences(first, history, name, readings[name])
    if [each.offset for each in history] != list(range(end)):
        wrong.append(f"{first} did not read the offsets from 0 to {end}, each once")
    return wrong + _of_writers(written, history)


def _differences(
    first: str, history: Sequence[Read], name: str, other: Sequence[Read]
) -> list[str]:
    if list(history) == list(other):
        return []
    pairs = zip(history, other, strict=False)
    at = next((index for index, (one, two) in enumerate(pairs) if one != two), None)
    if at is None:
        return [f"{name} read {len(other)} records, {first} {len(history)}"]
    return [f"{name} read {tuple(other[at])} where {first} read {tuple(history[at])}"]


def _of_writers(written: Mapping[str, Written], history: Sequence[Read]) -> list[str]:
    places: dict[str, list[int]] = {}
    order: dict[str, list[int]] = {name: [] for name in written}
    strange: list[str] = []
    for record in history:
        name, _, number = record.payload.partition("-")
        if name not in written or not number.isdigit():
            strange.append(f"{record.payload!r} at {record.offset} is of no writer")
            continue
        places.setdefault(record.payload, []).append(record.offset)
        order[name].append(int(number))
    wrong = _shown(strange)
    twice = [
        f"{payload} is in the log {len(found)} times: at {found}"
        for payload, found in places.items()
        if len(found) > 1
    ]
    wrong += _shown(twice)
    for name, writer in written.items():
        lost = [
            f"{name}-{number}, acknowledged at {offset}, is at {places.get(f'{name}-{number}')}"
            for number, offset in writer.acked.items()
            if offset not in places.get(f"{name}-{number}", ())
        ]
        wrong += _shown(lost)
        unsaid = [
            f"{name}-{number} is in the log and was never acknowledged"
            for number in order[name]
            if number not in writer.acked
        ]
        wrong += _shown(unsaid)
        if order[name] != sorted(order[name]):
            wrong.append(f"the records of {name} are not in the order in which it sent them")
    return wrong


def _shown(lines: list[str]) -> list[str]:
    more = len(lines) - SHOWN_MAX
    return [*lines[:SHOWN_MAX], f"and {more} more of this kind"] if more > 0 else lines
