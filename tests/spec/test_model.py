"""The specification holds at fixed bounds, and breaks as the table says without each safeguard."""

from __future__ import annotations

import pytest

from tests.spec.bounds import PASSING, REDUNDANT, REMOVED, Passing, Removed
from tests.spec.checker import Outcome, check
from tests.spec.ledger import SAFEGUARDS, Bounds, LedgerModel


@pytest.mark.parametrize("passing", PASSING.values(), ids=PASSING)
def test_every_promise_holds(passing: Passing) -> None:
    assert check(LedgerModel(passing.bounds)) == passing.outcome


@pytest.mark.parametrize("removed", REMOVED, ids=lambda each: each.safeguard)
def test_a_removed_safeguard_breaks_a_promise(removed: Removed) -> None:
    assert removed.outcome.broken is not None
    found = check(LedgerModel(removed.bounds, [removed.safeguard]))
    # How many states precede the violation depends on the order of a set; its length does not.
    assert (found.broken, found.depth) == (removed.outcome.broken, removed.outcome.depth)


@pytest.mark.parametrize("safeguard", REDUNDANT)
def test_a_redundant_safeguard_is_covered_by_others(safeguard: str) -> None:
    bounds, outcome = REDUNDANT[safeguard]
    assert check(LedgerModel(bounds, [safeguard])) == outcome


def test_every_safeguard_is_in_a_table() -> None:
    named = [each.safeguard for each in REMOVED] + list(REDUNDANT)
    assert sorted(named) == sorted(SAFEGUARDS)


def test_an_unknown_safeguard_is_refused() -> None:
    with pytest.raises(ValueError, match="ReadFences"):
        LedgerModel(Bounds(), ["ReadFences"])


def test_the_checker_counts_each_state_once() -> None:
    class Diamond:
        """Two ways to the same end."""

        first = "a"

        def following(self, state: str) -> list[str]:
            return {"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": []}[state]

        def canonical(self, state: str) -> str:
            return state

        def broken(self, state: str) -> str | None:
            return None

    assert check(Diamond()) == Outcome(None, 3, 5, 4)
