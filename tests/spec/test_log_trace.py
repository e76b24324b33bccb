"""Sound steps of a log are behaviours of the specification; of a wrong one the rule is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from quire.log.manifest.manifest import EMPTY, LogManifest, SegmentEnd
from quire.log.records.position import Position
from quire.metastore.cluster import epoch_floor
from tests.spec.events import Event, Kind
from tests.spec.log_trace import Label, LogJudge

PATH = "/quire/logs/log"
NOBODY = LogManifest("log", "a", 0)
END = SegmentEnd(1, 1, 2, 20, 0)
ENDS = {1: END}

Step = Callable[[LogJudge], None]


def created(ledger: int, epoch: int, segment: int, log: str = "a") -> Step:
    return lambda judge: judge.created(ledger, Label(log, epoch, segment))


def part(ledger: int) -> Step:
    return lambda judge: judge.created(ledger, None)


def became(manifest: LogManifest | None) -> Step:
    return lambda judge: judge.changed(PATH, manifest)


def told(ledger: int, kind: Kind, last: int = -1) -> Step:
    return lambda judge: judge.told(ledger, Event(kind, "b0", 0, last))


def came(ledger: int) -> Step:
    return lambda judge: judge.came(ledger)


def answered(segment: int, entry: int) -> Step:
    return lambda judge: judge.answered("a", Position(segment, entry, 0))


def refused(steps: list[Step]) -> str | None:
    judge = LogJudge()
    for step in steps:
        step(judge)
    return judge.refusal


ONE = NOBODY.take_over({}, 1, 0)
"""Epoch 1 writes segment 1, ledger 1."""
TWO = ONE.append_segment(2, 0)
"""It has a successor, ledger 2."""
SEALED = TWO.seal_segment(1, END)
"""Segment 1 is over."""
TAKEN = ONE.take_over(ENDS, 3, 0)
"""Epoch 2 took segment 1 over and writes segment 2, ledger 3."""

FAR = epoch_floor(7) + 1
RESTORED = ONE.take_over(ENDS, 3, 0, epoch_floor(7))
"""The same in a metadata store that was put back."""

FIRST = [created(1, 1, 1), became(ONE), told(1, Kind.ADDED, 1), told(1, Kind.CONFIRMED, 1)]
ROLLED = [*FIRST, created(2, 1, 2), became(TWO), told(2, Kind.ADDED, 0)]
CLOSED = told(1, Kind.CLOSED, 1)
FOLLOWED = [*FIRST, CLOSED, created(3, 2, 2), became(TAKEN)]
TRIMMED = [*ROLLED, CLOSED, became(SEALED), became(SEALED.trim(Position(2, 0, 0)))]
RETIRED = TWO.retire({1: EMPTY, 2: EMPTY})
DELETED = [
    *ROLLED,
    CLOSED,
    told(2, Kind.CLOSED, 0),
    became(RETIRED),
    told(1, Kind.DELETED),
    told(2, Kind.DELETED),
]
ADOPTED = ONE.ingest(ENDS, [(4, END)], None, 0)
SOUND: dict[str, list[Step]] = {
    "a roll": [*ROLLED, told(2, Kind.CONFIRMED, 0), CLOSED, became(SEALED), answered(2, 0)],
    "a takeover": [*FOLLOWED, answered(1, 1)],
    "a takeover after a restore": [*FIRST, CLOSED, created(3, FAR, 2), became(RESTORED)],
    "a late ack": [*FIRST[:3], CLOSED, created(3, 2, 2), became(TAKEN), FIRST[3]],
    "a trim": [*TRIMMED, told(1, Kind.DELETED), became(SEALED.trim(Position(2, 0, 0)).forget([1]))],
    "a deletion": [*DELETED, became(RETIRED.forget([1, 2])), became(None)],
    "another log of the name": [
        *DELETED,
        became(None),
        created(5, 1, 1, "b"),
        became(replace(NOBODY, log_id="b").take_over({}, 5, 0)),
    ],
    "an ingest": [*FIRST, part(4), told(4, Kind.CLOSED, 1), CLOSED, became(ADOPTED)],
    "a sweep": [*FIRST, created(9, 1, 2), told(9, Kind.DELETED)],
    "a mended ledger": [
        *ROLLED[:3],
        CLOSED,
        created(2, 1, 2),
        became(ONE.seal_segment(1, END).append_segment(2, 0)),
        told(2, Kind.ADDED, 0),
        told(1, Kind.ADDED, 1),
    ],
}


@pytest.mark.parametrize("steps", SOUND.values(), ids=SOUND)
def test_sound_steps_are_accepted(steps: list[Step]) -> None:
    assert refused(steps) is None


WRONG: dict[str, tuple[list[Step], str]] = {
    "written before it is listed": ([created(1, 1, 1), told(1, Kind.ADDED, 0)], "C1"),
    "written ahead of the drain": (
        [*ROLLED[:3], created(2, 1, 2), became(TWO), told(2, Kind.ADDED, 0)],
        "C6",
    ),
    "sent ahead of the drain": ([*ROLLED[:3], created(2, 1, 2), became(TWO), came(2)], "C6"),
    "sent before it is listed": ([created(1, 1, 1), came(1)], "C1"),
    "held after the switch": (
        [*FIRST, created(2, 1, 2), became(TWO), came(2), told(1, Kind.ADDED, 2)],
        "C6",
    ),
    "written after the switch": ([*ROLLED, told(1, Kind.ADDED, 2)], "C6"),
    "sealed while it is open": ([*ROLLED, became(SEALED)], "C3"),
    "sealed at another end": ([*ROLLED, told(1, Kind.CLOSED, 2), became(SEALED)], "C3"),
    "dropped while it is open": (
        [*FIRST, created(3, 2, 2), became(ONE.take_over({1: EMPTY}, 3, 0))],
        "C3",
    ),
    "taken over and left open": (
        [*FIRST, created(3, 2, 2), became(replace(ONE.append_segment(3, 0), epoch=2))],
        "C4",
    ),
    "rolled by a deposed leader": (
        [*FOLLOWED, created(2, 1, 3), became(TAKEN.append_segment(2, 0))],
        "C4",
    ),
    "an epoch twice": ([*FIRST, CLOSED, became(replace(ONE, epoch=3))], "epochs go up by one"),
    "acknowledged beyond the end": (
        [*FIRST[:3], told(1, Kind.CLOSED, 0), FIRST[3]],
        "H8",
    ),
    "acknowledged after the deletion": (
        [*TRIMMED, told(1, Kind.DELETED), told(1, Kind.CONFIRMED, 2)],
        "H8",
    ),
    "deleted while it is listed": ([*FIRST, CLOSED, told(1, Kind.DELETED)], "C1"),
    "listed after it was deleted": (
        [*FIRST, CLOSED, created(3, 2, 2), told(3, Kind.DELETED), became(TAKEN)],
        "C1",
    ),
    "deleted while it is open": (
        [*FIRST, became(ONE.retire({1: EMPTY})), told(1, Kind.DELETED)],
        "C3",
    ),
    "gone from the middle": (
        [*FOLLOWED, became(replace(TAKEN, rows=TAKEN.segments[1:], doomed=(1,)))],
        "KEPT",
    ),
    "forgotten before it is deleted": (
        [*TRIMMED, became(SEALED.trim(Position(2, 0, 0)).forget([1]))],
        "DeleteDoomed",
    ),
    "a record before its ledgers": ([*DELETED[:-1], became(None)], "D2"),
    "a record that was not retired": ([*FIRST, became(None)], "EraseRecord"),
    "another log in its place": (
        [*FIRST, created(5, 1, 1, "b"), became(replace(NOBODY, log_id="b").take_over({}, 5, 0))],
        "another log",
    ),
    "a part that is open": ([*FIRST, part(4), CLOSED, became(ADOPTED)], "C3"),
    "an answer of nothing": ([*FIRST[:3], answered(1, 1)], "Ack"),
    "an answer from nowhere": ([*FIRST, answered(7, 0)], "Ack"),
    "a trim that goes back": (
        [*TRIMMED, became(replace(SEALED.trim(Position(2, 0, 0)), trimmed_to=Position(1, 0, 0)))],
        "Trim",
    ),
}


@pytest.mark.parametrize(("steps", "rule"), WRONG.values(), ids=WRONG)
def test_one_wrong_step_is_refused(steps: list[Step], rule: str) -> None:
    refusal = refused(steps)
    assert refusal is not None
    assert rule in refusal


def test_what_follows_a_refusal_is_not_judged() -> None:
    steps = [*FIRST, answered(7, 0)]
    assert refused([*steps, told(1, Kind.DELETED)]) == refused(steps)
