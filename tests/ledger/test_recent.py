"""The recent entries of a tail: consecutive, bounded, and each at its place."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.entry import Entry
from quire.ledger import recent
from quire.ledger.recent import ENTRY_BYTES, RecentEntries


def run_of(first: int, count: int, size: int = 10) -> list[Entry]:
    return [Entry(7, entry, entry - 1, 0, bytes(size)) for entry in range(first, first + count)]


def ids(run: Sequence[Entry]) -> list[int]:
    return [entry.entry for entry in run]


def test_entries_are_found_by_id_and_given_in_lists_of_their_own() -> None:
    found = RecentEntries(5)
    assert (found.start, found.end, found.from_on(5)) == (5, 5, [])
    found.push(run_of(5, 3))
    found.push(run_of(8, 2))
    assert (found.start, found.end) == (5, 10)
    assert [ids(found.from_on(entry)) for entry in range(4, 11)] == [
        *([], [5, 6, 7], [6, 7], [7], [8, 9], [9], []),
    ]
    found.from_on(8).clear()
    assert ids(found.from_on(8)) == [8, 9]


def test_a_run_that_does_not_continue_is_a_defect() -> None:
    found = RecentEntries(0)
    with pytest.raises(AssertionError, match="entry 1 where 0"):
        found.push(run_of(1, 1))


def test_old_runs_make_room_and_the_newest_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent, "RECENT_BYTES_MAX", 3 * (10 + ENTRY_BYTES))
    found = RecentEntries(0)
    for first in range(3):
        found.push(run_of(first, 1))
    assert found.start == 0
    found.push(run_of(3, 1))
    assert (found.start, found.end) == (1, 4)
    found.push(run_of(4, 10))
    assert (found.start, found.end) == (4, 14)
    found.push(run_of(14, 1))
    assert (found.start, found.end) == (14, 15)


def test_what_all_have_taken_is_dropped() -> None:
    found = RecentEntries(0)
    for first in (0, 3, 6):
        found.push(run_of(first, 3))
    for entry, start in ((0, 0), (2, 0), (3, 3), (5, 3), (8, 6), (9, 9)):
        found.forget_before(entry)
        assert (found.start, found.end) == (start, 9)
    found.push(run_of(9, 1))
    assert ids(found.from_on(9)) == [9]


def test_skipping_goes_forward_only() -> None:
    found = RecentEntries(0)
    found.push(run_of(0, 3))
    found.skip_to(2)
    assert (found.start, found.end) == (0, 3)
    found.skip_to(10)
    assert (found.start, found.end, found.from_on(2)) == (10, 10, [])


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("push"), st.integers(1, 4)),
            st.tuples(st.just("forget"), st.integers(0, 30)),
            st.tuples(st.just("skip"), st.integers(0, 30)),
        ),
        max_size=20,
    )
)
def test_it_holds_a_range_up_to_its_end_and_nothing_else(steps: list[tuple[str, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recent, "RECENT_BYTES_MAX", 5 * (10 + ENTRY_BYTES))
        found, end = RecentEntries(0), 0
        for step, number in steps:
            if step == "push":
                found.push(run_of(end, number))
                end += number
            elif step == "forget":
                found.forget_before(number)
            else:
                found.skip_to(number)
                end = max(end, number)
            assert found.start <= found.end == end
            for entry in range(end + 2):
                got = ids(found.from_on(entry))
                assert got == list(range(entry, entry + len(got)))
                assert bool(got) == (found.start <= entry < end)
