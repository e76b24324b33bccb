"""Outlines: what spans of entries are together, against sets of ids."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.errors import InvalidRequestError
from quire.outline import NOTHING, OUTLINES_MAX, Outline, check_outlines, joined

IDS = st.sets(st.integers(0, 20), min_size=1, max_size=8)


def outline(ids: set[int]) -> Outline:
    return Outline(min(ids), max(ids), len(ids)) if ids else NOTHING


@given(st.lists(IDS, max_size=5))
def test_spans_together_are_what_their_entries_are(sets: list[set[int]]) -> None:
    """Or their outline is not told: never a wrong one."""
    found = joined(map(outline, sets))
    assert found in (None, outline(set().union(*sets)))


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5)), max_size=6))
def test_spans_without_gaps_always_tell(spans: list[tuple[int, int]]) -> None:
    sets = [set(range(first, first + more + 1)) for first, more in spans]
    assert joined(map(outline, sets)) == outline(set().union(*sets))


@given(st.sets(st.integers(0, 40)), st.integers(1, 7))
def test_chunks_of_one_file_always_tell(ids: set[int], size: int) -> None:
    """They follow each other, whatever is missing."""
    ordered = sorted(ids)
    chunks = [set(ordered[at : at + size]) for at in range(0, len(ordered), size)]
    assert joined(map(outline, chunks)) == outline(ids)


def test_spans_with_gaps_that_overlap_do_not_tell() -> None:
    assert joined([Outline(0, 9, 5), Outline(4, 12, 3)]) is None
    assert joined([Outline(0, 9, 5), Outline(4, 4, 1)]) is None, "it may be a gap, or not"
    assert joined([Outline(0, 9, 5), Outline(10, 12, 3)]) == Outline(0, 12, 8)


def test_a_request_names_so_many_ledgers() -> None:
    check_outlines(range(OUTLINES_MAX))
    with pytest.raises(InvalidRequestError, match="1001 ledgers"):
        check_outlines(range(OUTLINES_MAX + 1))
