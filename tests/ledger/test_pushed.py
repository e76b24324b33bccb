"""Entries that were pushed: confirmed only, in order, each once, and bounded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quire.entry import Entry
from quire.ledger import pushed
from quire.ledger.pushed import PushedEntries


def entry(number: int, size: int = 1) -> Entry:
    return Entry(7, number, number - 1, number + 1, b"x" * size)


STEPS = st.lists(
    st.tuples(st.just("put"), st.sets(st.integers(0, 20), max_size=6))
    | st.tuples(st.just("confirm"), st.sets(st.integers(0, 20), min_size=1, max_size=1))
    | st.tuples(st.just("skip"), st.sets(st.integers(0, 20), min_size=1, max_size=1)),
    max_size=30,
)


@given(STEPS)
def test_what_is_taken_is_confirmed_and_without_a_gap(
    steps: list[tuple[str, set[int]]],
) -> None:
    kept, first, confirmed = PushedEntries(), 0, -1
    for step, numbers in steps:
        if step == "put":
            kept.put(entry(number) for number in sorted(numbers))
        elif step == "confirm":
            confirmed = max(confirmed, *numbers)
        else:
            first = max(first, *numbers)  # it was read meanwhile
        taken = [each.entry for each in kept.take(first, confirmed)]
        assert taken == list(range(first, first + len(taken)))
        assert all(number <= confirmed for number in taken)
        first += len(taken)
        assert not any(kept.lacks(number) for number in range(first))


def test_an_entry_that_came_twice_is_kept_once() -> None:
    kept = PushedEntries()
    kept.put([entry(0), entry(1)])
    kept.put([entry(0), entry(2)])
    assert [each.entry for each in kept.take(0, 9)] == [0, 1, 2]
    kept.put([entry(1)])
    assert kept.take(3, 9) == []
    assert kept.take(1, 9) == []


def test_what_finds_no_space_is_left_to_be_read() -> None:
    size = pushed.PUSHED_BYTES_MAX // 2
    kept = PushedEntries()
    kept.put(entry(number, size) for number in range(3))
    assert [each.entry for each in kept.take(0, 9)] == [0]
    assert kept.lacks(1)
    kept.put([entry(1, size)])
    assert [each.entry for each in kept.take(1, 9)] == [1]
