"""A settled history is linearizable if and only if the history is: shown by exhaustive search.

The search below is the definition: it tries every order. It serves small histories only; the
judges search the settled form.
"""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from tests.judges.history import Kind, Operation, Outcome
from tests.judges.planted import HONEST, PLANTED, Scene
from tests.judges.settle import settle

Log = tuple[str, ...]


def apply(log: Log, operation: Operation, base: int) -> Log | None:
    """Return the log after an operation, None when it cannot happen now. `base` came before."""
    count, offset = base + len(log), operation.offset
    if operation.kind is Kind.APPEND:
        wrong = {offset, operation.expected} - {count, None}
        return None if wrong else log + operation.values
    assert offset is not None
    if operation.kind is Kind.END:
        return log if count == offset else None
    return log if log[offset - base : operation.after - base] == operation.values else None


def is_linearizable(operations: list[Operation], base: int = 0) -> bool:
    """Try every order that the times allow. An operation without a return may never happen."""
    seen: set[tuple[frozenset[int], Log]] = set()

    def search(left: frozenset[int], log: Log) -> bool:
        if all(operations[index].returned is None for index in left):
            return True
        if (left, log) in seen:
            return False
        seen.add((left, log))
        limit = min(operations[each].returned or 10**9 for each in left)
        for index in sorted(left):
            if operations[index].called <= limit:
                after = apply(log, operations[index], base)
                if after is not None and search(left - {index}, after):
                    return True
        return False

    return search(frozenset(range(len(operations))), ())


def is_linearizable_settled(history: list[Operation], block_records: int) -> bool:
    settled = settle(history, block_records)
    return not settled.wrong and all(
        is_linearizable(block.operations, block.base) for block in settled.blocks
    )


def claims(history: list[Operation]) -> list[Operation]:
    """Leave out what claims nothing: failed appends."""
    return [each for each in history if each.outcome is not Outcome.FAILED]


def draw(rng: random.Random) -> list[Operation]:
    """Return a history of a log that works, with overlapping operations, then spoil it maybe."""
    log: list[str] = []
    history: list[Operation] = []
    for number in range(rng.choice([3, 5, 7])):
        point = 10 * (number + 1)
        called, returned = point - rng.choice([1, 4, 15]), point + rng.choice([1, 4, 15])
        common: dict[str, Any] = {
            "process": f"p{number}",
            "number": 0,
            "called": called,
            "returned": returned,
        }
        kind = rng.choice([Kind.APPEND, Kind.APPEND, Kind.END, Kind.READ])
        values = tuple(f"v{number}.{slot}" for slot in range(rng.choice([1, 1, 2])))
        offset: int | None = len(log)
        outcome = Outcome.OK
        if kind is Kind.APPEND:
            if rng.random() < 0.3:
                outcome, offset = Outcome.UNKNOWN, None
                common["returned"] = None
            if outcome is Outcome.OK or rng.random() < 0.5:
                log += values
        elif kind is Kind.END:
            values = ()
        else:
            start = rng.randrange(len(log)) if log else 0
            offset, values = start, tuple(log[start : start + rng.choice([1, 3])])
        history.append(
            Operation(kind=kind, values=values, offset=offset, outcome=outcome, **common)
        )
    whole: dict[str, Any] = {
        "kind": Kind.READ,
        "process": "last",
        "number": 0,
        "outcome": Outcome.OK,
    }
    history.append(Operation(**whole, called=200, returned=201, offset=0, values=tuple(log)))
    end = {**whole, "kind": Kind.END, "number": 1}
    history.append(Operation(**end, called=202, returned=203, offset=len(log)))
    return history if rng.random() < 0.4 else spoil(history, rng)


def spoil(history: list[Operation], rng: random.Random) -> list[Operation]:
    """Change one operation."""
    index = rng.randrange(len(history))
    one = history[index]
    delay = rng.choice([-30, 30])
    returned = None if one.returned is None else one.returned + delay
    changes = [replace(one, called=one.called + delay, returned=returned)]
    if one.offset is not None:
        changes.append(replace(one, offset=max(0, one.offset + rng.choice([-1, 1]))))
    if len(one.values) > 1:
        changes.append(replace(one, values=one.values[::-1]))
    return [*history[:index], rng.choice(changes), *history[index + 1 :]]


@pytest.mark.parametrize("block_records", [1, 2, 100])
def test_the_settled_form_proves_the_same(block_records: int) -> None:
    verdicts = {True: 0, False: 0}
    for seed in range(400):
        history = draw(random.Random(seed))
        expected = is_linearizable(claims(history))
        assert is_linearizable_settled(history, block_records) is expected, (seed, history)
        verdicts[expected] += 1
    assert min(verdicts.values()) > 100, verdicts


@pytest.mark.parametrize("block_records", [1, 100])
def test_what_was_planted_stays_wrong(block_records: int) -> None:
    assert is_linearizable_settled(HONEST, block_records)
    for name, planted in PLANTED.items():
        expected = not planted.breaks_linearizability
        history = list(planted.history)
        assert is_linearizable_settled(history, block_records) is expected, name


def test_a_long_history_is_cut_into_blocks() -> None:
    scene = Scene()
    for offset in range(0, 100, 2):
        scene.append(f"{offset}", f"{offset + 1}", offset=offset)
    scene.last_read(*(str(offset) for offset in range(100)))
    settled = settle(scene.history, 11)
    assert [block.base for block in settled.blocks] == list(range(0, 100, 12))
    reads = [each for block in settled.blocks for each in block.operations if each.kind == "read"]
    assert all(one.after == other.offset for one, other in pairwise(reads))
    assert settled.wrong == []


def test_unmet_appends_are_left_out_only_if_all_offsets_are_known() -> None:
    scene = Scene()
    scene.append("a", offset=0)
    scene.append("b", outcome=Outcome.UNKNOWN)
    scene.last_read("a")
    assert settle(scene.history).left_out == 1
    scene.end(2)
    assert settle(scene.history).left_out == 0
    assert is_linearizable_settled(scene.history, 100)


def test_offsets_are_deduced_where_positions_leave_no_choice() -> None:
    scene = Scene()
    scene.append("a", place=(1, 0, 0))
    scene.append("b", "c", place=(1, 1, 0))
    scene.append("d", place=(2, 0, 0))
    scene.trim(3)
    scene.read("last", 3, "d")
    [block] = settle(scene.history).blocks
    appends = [each.offset for each in block.operations if each.kind is Kind.APPEND]
    assert appends == [0, 1, 3]


def test_offsets_stay_unknown_where_an_unknown_append_may_be_between() -> None:
    scene = Scene()
    scene.append("a", place=(1, 0, 0))
    scene.append("b", outcome=Outcome.UNKNOWN)
    scene.append("d", place=(2, 0, 0))
    scene.trim(2)
    scene.read("last", 2, "d")
    [block] = settle(scene.history).blocks
    assert [each.offset for each in block.operations] == [None, 2, 2, None]
    assert is_linearizable(block.operations)
