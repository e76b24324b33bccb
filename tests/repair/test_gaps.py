"""The ranges of ids without a record, in a store that skipped a trillion ids at its adoption."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quire.repair.census import gaps
from quire.storage.entries.doubtful import Horizon

FAR = 1 << 60


@given(st.sets(st.integers(0, 40)), st.integers(0, 40), st.integers(0, 40))
def test_every_id_is_recorded_or_in_a_gap(ledgers: set[int], first: int, below: int) -> None:
    found = gaps(sorted(ledgers), first, below)
    inside = [each for low, high in found for each in range(low, high + 1)]
    assert inside == [each for each in range(first, below) if each not in ledgers]


def test_a_leap_of_the_counter_is_one_gap() -> None:
    found = gaps([3, FAR + 1], 2, FAR + 3)
    assert found == [(2, 2), (4, FAR), (FAR + 2, FAR + 2)]
    horizon = Horizon.around(found, FAR + 3)
    assert 3 in horizon
    assert FAR + 1 in horizon
    assert FAR // 2 not in horizon
