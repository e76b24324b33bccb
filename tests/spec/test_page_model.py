"""The specification of pages holds at fixed bounds, and breaks as its table says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spec.checker import check
from tests.spec.page_bounds import PASSING, REMOVED, THOROUGH, Passing, Removed
from tests.spec.pages import PROMISES, SAFEGUARDS, PageBounds, PageModel

PAGE = Path(__file__).parents[2] / "spec" / "README.md"


@pytest.mark.parametrize("passing", PASSING.values(), ids=PASSING)
def test_every_promise_holds(passing: Passing) -> None:
    assert check(PageModel(passing.bounds)) == passing.outcome


@pytest.mark.parametrize("removed", REMOVED, ids=lambda each: each.safeguard)
def test_a_removed_safeguard_breaks_a_promise(removed: Removed) -> None:
    assert removed.outcome.broken in PROMISES
    found = check(PageModel(removed.bounds, [removed.safeguard]))
    # How many states precede the violation depends on the order of a set; its length does not.
    assert (found.broken, found.depth) == (removed.outcome.broken, removed.outcome.depth)


@pytest.mark.parametrize("removed", REMOVED, ids=lambda each: each.safeguard)
def test_the_same_bounds_hold_with_the_safeguard(removed: Removed) -> None:
    """Else the violation might be of the bounds, not of the removal."""
    found = check(PageModel(removed.bounds), depth_max=removed.outcome.depth)
    assert found.broken is None


def test_every_safeguard_is_in_the_table() -> None:
    assert sorted(each.safeguard for each in REMOVED) == sorted(SAFEGUARDS)


def test_every_promise_is_broken_by_some_removal() -> None:
    """A promise that nothing can break promises nothing."""
    assert {each.outcome.broken for each in REMOVED} == set(PROMISES)


def test_an_unknown_safeguard_is_refused() -> None:
    with pytest.raises(ValueError, match="PagesFirst"):
        PageModel(PageBounds(), ["PagesFirst"])


def test_the_page_has_the_numbers() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name, row in {**PASSING, **THOROUGH}.items():
        assert f"| {row.outcome.distinct:,} | {row.outcome.depth} |" in text, name
