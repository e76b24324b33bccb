"""At which bounds the specification of pages is checked, and what each removed safeguard breaks.

The numbers are those of the twin; TLC finds the same (`make tlc`). A changed number means that the
specification changed: change both forms, and say why in the commit.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tests.spec.checker import Outcome
from tests.spec.pages import PageBounds


class Passing(NamedTuple):
    """Bounds at which every promise holds, and how many states there are."""

    bounds: PageBounds
    outcome: Outcome


class Removed(NamedTuple):
    """A safeguard, bounds at which its loss shows, and what the checker then finds."""

    safeguard: str
    bounds: PageBounds
    outcome: Outcome
    why: str


SMALL: Final = PageBounds(segments=3)
SINGLE_ROWS: Final = PageBounds(segments=3, rows=1)

PASSING: Final = {
    "3 segments, 2 rows a page": Passing(SMALL, Outcome(None, 23, 4_551, 1_254)),
    "3 segments, 1 row a page": Passing(SINGLE_ROWS, Outcome(None, 23, 24_039, 5_990)),
}

THOROUGH: Final = {
    "4 segments, 2 rows a page": Passing(PageBounds(), Outcome(None, 27, 43_896, 9_894)),
    "3 segments, 1 row a page, 2 editors": Passing(
        PageBounds(editors=2, segments=3, rows=1), Outcome(None, 24, 207_133, 42_204)
    ),
}
"""Larger bounds, for `python -m tests.spec`; too slow for every test run."""

REMOVED: Final = (
    Removed("PageFirst", SMALL, Outcome("C18", 6, 51, 31), "a head names a page that is not there"),
    Removed(
        "NamesOnce",
        SINGLE_ROWS,
        Outcome("LIST", 11, 1_841, 663),
        "a page has the rows of an earlier attempt",
    ),
    Removed("NamesByCas", SMALL, Outcome("LIST", 8, 198, 93), "a segment is listed no more"),
    Removed("HidesTrimmed", SMALL, Outcome("C1", 9, 334, 140), "a deleted ledger is listed"),
    Removed("EmptiedFirst", SMALL, Outcome("FOUND", 9, 338, 143), "a ledger is left over"),
    Removed("OldestFirst", SMALL, Outcome("TAIL", 5, 33, 24), "a hole among what is left"),
    Removed(
        "SweepHoldsHead", SMALL, Outcome("C18", 9, 388, 169), "a page goes that was named meanwhile"
    ),
    Removed("SweepMovesHead", SMALL, Outcome("C18", 9, 399, 175), "an editor names a swept page"),
    Removed(
        "SparesDoomed", SMALL, Outcome("FOUND", 10, 547, 219), "a page goes before its ledgers"
    ),
)
