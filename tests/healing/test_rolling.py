"""Whether the next bookie may be stopped: tables of what is missing."""

from __future__ import annotations

import pytest

from quire.errors import BookieUnavailableError, QuireError
from quire.healing.rolling import serving, thin
from quire.ledger.inventory import Inventory, compare
from quire.ledger.metadata import LedgerMetadata
from quire.ledger.ranges import Ranges
from tests.healing.scene import AWAY, DRAIN, GONE, bookie, cluster
from tests.healing.test_naming import ledger

UP = {"b1", "b2", "b3", "b4"}
WHOLE: Ranges = [(0, 14)]


def taken(metadata: LedgerMetadata, **answers: Ranges | QuireError) -> Inventory:
    return compare(metadata, {"b1": WHOLE, "b2": WHOLE, "b3": WHOLE, **answers})


def test_all_copies_are_there() -> None:
    closed = ledger(7, ("b1", "b2", "b3"), end=14)
    assert thin(taken(closed), UP) is None
    assert thin(taken(closed, b4=BookieUnavailableError("b4", "refused")), UP) is None
    assert thin(taken(ledger(7, ("b1", "b2", "b3"))), UP) is None, "it is written"


def test_a_copy_on_a_bookie_that_is_not_up_does_not_count() -> None:
    for end in (14, None):
        found = thin(taken(ledger(7, ("b1", "b2", "b3"), end=end)), UP - {"b2"})
        assert found is not None
        assert (found.absent, found.short, found.why) == (("b2",), False, "not up: b2")


def test_neither_does_one_on_a_bookie_that_does_not_answer() -> None:
    silent = BookieUnavailableError("b3", "refused")
    found = thin(taken(ledger(7, ("b1", "b2", "b3"), end=14), b3=silent), UP)
    assert found is not None
    assert (found.absent, found.short) == (("b3",), False)


def test_a_hole_on_a_bookie_that_is_up_is_told() -> None:
    found = thin(taken(ledger(7, ("b1", "b2", "b3"), end=14), b3=[(0, 3), (5, 14)]), UP)
    assert found is not None
    assert (found.absent, found.short) == ((), True)
    assert found.why == "entries are missing on bookies that are up"


def test_a_fragment_without_entries_needs_no_bookie() -> None:
    empty = ledger(7, ("b1", "b2", "b3"), end=-1)
    assert thin(compare(empty, {}), set()) is None
    left = ledger(7, ("b1", "b2", "b3"), ("b1", "b2", "b9"), end=9)
    answers = {name: [(0, 9)] for name in ("b1", "b2", "b3")}
    assert thin(compare(left, answers), UP) is None
    assert thin(compare(left, {**answers, "b1": []}), UP) is not None


@pytest.mark.parametrize(
    ("each", "counts"),
    [
        (bookie("b1"), True),
        (bookie("b1", writable=False), True),
        (bookie("b1", standing=DRAIN), True),
        (bookie("b1", standing=AWAY), False),
        (bookie("b1", standing=GONE), False),
        (bookie("b1", up=False), False),
    ],
)
def test_a_bookie_counts_as_long_as_it_is_to_stay_up(each: object, counts: bool) -> None:
    assert serving(cluster(each)) == ({"b1"} if counts else set())  # type: ignore[arg-type]
