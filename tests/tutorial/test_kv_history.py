"""The checker of histories finds what it has to, and nothing else."""

from __future__ import annotations

import math
import random

import pytest

from tutorial.kv.history import Kind, Operation, check

R, W, S = Kind.READ, Kind.WRITE, Kind.SWAP


def op(kind: Kind, value: str | None, began: float, ended: float = math.inf) -> Operation:
    return Operation(0, kind, "k", value, began, ended)


def swap(expected: str | None, value: str, ok: bool, began: float, ended: float) -> Operation:
    return Operation(0, S, "k", value, began, ended, expected, ok)


LINEARIZABLE = {
    "in turn": [op(W, "a", 0, 1), op(R, "a", 2, 3), op(W, "b", 4, 5), op(R, "b", 6, 7)],
    "overlapping reads may differ": [op(W, "a", 0, 9), op(R, None, 1, 2), op(R, "a", 3, 4)],
    "an unanswered write may happen": [op(W, "a", 0), op(R, "a", 5, 6)],
    "or never": [op(W, "a", 0), op(R, None, 5, 6)],
    "or late": [op(W, "a", 0), op(R, None, 5, 6), op(R, "a", 7, 8)],
    "a swap": [op(W, "a", 0, 1), swap("a", "b", True, 2, 3), swap("a", "c", False, 4, 5)],
    "unanswered swap": [op(W, "a", 0, 1), swap("a", "b", True, 2, math.inf), op(R, "b", 5, 6)],
}

PLANTED = {
    "a lost write": [op(W, "a", 0, 1), op(R, None, 2, 3)],
    "a stale read": [op(W, "a", 0, 1), op(W, "b", 2, 3), op(R, "a", 4, 5)],
    "a read that goes back": [op(W, "a", 0, 9), op(R, "a", 1, 2), op(R, None, 3, 4)],
    "a value from nowhere": [op(W, "a", 0, 1), op(R, "z", 2, 3)],
    "two swaps from one value": [
        op(W, "a", 0, 1),
        swap("a", "b", True, 2, 5),
        swap("a", "c", True, 2, 5),
    ],
    "an unanswered write twice": [
        op(W, "a", 0),
        op(R, "a", 1, 2),
        op(W, "b", 3, 4),
        op(R, "b", 5, 6),
        op(R, "a", 7, 8),
        op(R, "b", 9, 10),
    ],
}


@pytest.mark.parametrize("name", LINEARIZABLE)
def test_a_linearizable_history_passes(name: str) -> None:
    assert check(LINEARIZABLE[name]) == []


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_violation_is_found(name: str) -> None:
    assert check(PLANTED[name]) == ["k"]


@pytest.mark.parametrize("seed", range(20))
def test_a_register_is_linearizable_and_a_forged_read_of_it_is_not(seed: int) -> None:
    rng = random.Random(seed)
    value: str | None = None
    history = []
    for number in range(60):
        at = number + rng.random() / 2
        kind = rng.choice([R, W])
        if kind is W:
            value = f"v{number}"
        history.append(op(kind, value, at - rng.random() * 3, at + rng.random() * 3))
    assert check(history) == []
    reads = [each for each in history if each.kind is R]
    rng.choice(reads).value = "forged"
    assert check(history) == ["k"]
