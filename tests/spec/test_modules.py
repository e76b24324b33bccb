"""The specifications of a log and of its pages hold at fixed bounds, and break as their tables say.

The ledger's has tests of its own (test_model.py): some of its safeguards are redundant.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

import pytest

from tests.spec import log, log_bounds, page_bounds, pages
from tests.spec.checker import check

PAGE = Path(__file__).parents[2] / "spec" / "README.md"


class Specification(NamedTuple):
    """A module of the specification: its twin in Python, and the table of its bounds."""

    model: Any
    twin: ModuleType
    table: Any
    unknown: str
    """Nearly the name of a safeguard."""
    bounds: Any


SPECIFICATIONS: Final = {
    "log": Specification(log.LogModel, log, log_bounds, "Drained", log.LogBounds()),
    "pages": Specification(pages.PageModel, pages, page_bounds, "PagesFirst", pages.PageBounds()),
}

each_specification = pytest.mark.parametrize("of", SPECIFICATIONS.values(), ids=SPECIFICATIONS)
each_passing = pytest.mark.parametrize(
    ("of", "passing"),
    [
        pytest.param(of, row, id=f"{name}: {bounds}")
        for name, of in SPECIFICATIONS.items()
        for bounds, row in of.table.PASSING.items()
    ],
)
each_removed = pytest.mark.parametrize(
    ("of", "removed"),
    [
        pytest.param(of, row, id=f"{name}: {row.safeguard}")
        for name, of in SPECIFICATIONS.items()
        for row in of.table.REMOVED
    ],
)


@each_passing
def test_every_promise_holds(of: Specification, passing: Any) -> None:
    assert check(of.model(passing.bounds)) == passing.outcome


@each_removed
def test_a_removed_safeguard_breaks_a_promise(of: Specification, removed: Any) -> None:
    assert removed.outcome.broken in of.twin.PROMISES
    found = check(of.model(removed.bounds, [removed.safeguard]))
    # How many states precede the violation depends on the order of a set; its length does not.
    assert (found.broken, found.depth) == (removed.outcome.broken, removed.outcome.depth)


@each_removed
def test_the_same_bounds_hold_with_the_safeguard(of: Specification, removed: Any) -> None:
    """Else the violation might be of the bounds, not of the removal."""
    found = check(of.model(removed.bounds), depth_max=removed.outcome.depth)
    assert found.broken is None


@each_specification
def test_every_safeguard_is_in_the_table(of: Specification) -> None:
    assert sorted(each.safeguard for each in of.table.REMOVED) == sorted(of.twin.SAFEGUARDS)


@each_specification
def test_every_promise_is_broken_by_some_removal(of: Specification) -> None:
    """A promise that nothing can break promises nothing."""
    assert {each.outcome.broken for each in of.table.REMOVED} == set(of.twin.PROMISES)


@each_specification
def test_an_unknown_safeguard_is_refused(of: Specification) -> None:
    with pytest.raises(ValueError, match=of.unknown):
        of.model(of.bounds, [of.unknown])


@each_specification
def test_the_page_has_the_numbers(of: Specification) -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name, row in {**of.table.PASSING, **of.table.THOROUGH}.items():
        assert f"| {row.outcome.distinct:,} | {row.outcome.depth} |" in text, name
