"""Why a bookie is asked for a copy: a table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quire.healing.reasons import AskedFor, asked_for
from quire.ledger.metadata import Replica
from quire.repair.assignments import Assignment
from tests.healing.scene import AWAY, DRAIN, GONE, bookie

HOLDERS = {
    "up": bookie(),
    "drained": bookie(standing=DRAIN),
    "drained and down": bookie(up=False, standing=DRAIN),
    "down": bookie(up=False),
    "away and down": bookie(up=False, standing=AWAY),
    "gone": bookie(standing=GONE),
}
FACTS = {name: replace(facts, bookie=name) for name, facts in HOLDERS.items()}

TABLE = {
    (): AskedFor.HOLES,
    ("up",): AskedFor.RETURNED,
    ("drained",): AskedFor.DRAIN,
    ("drained and down",): AskedFor.LOST,
    ("down",): AskedFor.LOST,
    ("away and down",): AskedFor.LOST,
    ("gone",): AskedFor.LOST,
    ("never heard of",): AskedFor.LOST,
    ("up", "drained"): AskedFor.DRAIN,
    ("drained", "down", "up"): AskedFor.LOST,
}


@pytest.mark.parametrize("holders", TABLE)
def test_the_table_of_reasons(holders: tuple[str, ...]) -> None:
    places = tuple(Replica(0, at, old, "new") for at, old in enumerate(holders))
    assert asked_for(Assignment(7, places), FACTS) is TABLE[holders]


def test_every_reason_is_in_the_table() -> None:
    assert {*TABLE.values(), AskedFor.SPREAD} == set(AskedFor), "tests/healing/test_spread.py"
