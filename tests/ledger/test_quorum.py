"""Write sets and coverage, against enumeration."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.errors import InvalidReplicationError
from quire.ledger.quorum import ENSEMBLE_MAX, Replication


@st.composite
def replications(draw: st.DrawFn, ensemble_max: int = 7) -> Replication:
    ensemble = draw(st.integers(1, ensemble_max))
    write = draw(st.integers(1, ensemble))
    return Replication(ensemble, write, draw(st.integers(1, write)))


@pytest.mark.parametrize(
    ("ensemble", "write", "ack"),
    [
        *[(3, 3, 0), (3, 2, 3), (2, 3, 2), (0, 0, 0), (3, 0, 0), (-1, -1, -1), (3, -1, -2)],
        *[(ENSEMBLE_MAX + 1, 3, 2), (10**18, 10**18, 10**18)],
    ],
)
def test_impossible_numbers_are_refused(ensemble: int, write: int, ack: int) -> None:
    with pytest.raises(InvalidReplicationError) as caught:
        Replication(ensemble, write, ack)
    assert f"{ensemble}/{write}/{ack} is not {ENSEMBLE_MAX} ≥" in str(caught.value)


def test_the_largest_ensemble_has_its_write_sets() -> None:
    largest = Replication(ENSEMBLE_MAX, ENSEMBLE_MAX, 1)
    assert sorted(largest.write_set(10**9)) == list(range(ENSEMBLE_MAX))


@pytest.mark.parametrize(
    ("replication", "entry", "expected"),
    [
        (Replication(3, 3, 2), 0, (0, 1, 2)),
        (Replication(3, 3, 2), 1, (1, 2, 0)),
        (Replication(5, 3, 2), 4, (4, 0, 1)),
        (Replication(5, 3, 2), 5, (0, 1, 2)),
        (Replication(1, 1, 1), 99, (0,)),
    ],
)
def test_write_sets(replication: Replication, entry: int, expected: tuple[int, ...]) -> None:
    assert replication.write_set(entry) == expected


@given(replications(), st.integers(0, 2**62))
def test_a_write_set_is_qw_positions_and_is_written_to_agrees(
    replication: Replication, entry: int
) -> None:
    positions = replication.write_set(entry)
    assert len(set(positions)) == replication.write_quorum
    assert sorted(positions) == [
        position
        for position in range(replication.ensemble)
        if replication.is_written_to(entry, position)
    ]


@given(replications(ensemble_max=6), st.data())
def test_coverage_is_what_enumeration_says(replication: Replication, data: st.DataObject) -> None:
    """Covered: however each entry chose its ack quorum, one who acked it has answered."""
    answered = set(data.draw(st.lists(st.integers(0, replication.ensemble - 1), unique=True)))
    always_met = all(
        answered.intersection(acked)
        for entry in range(replication.ensemble)
        for acked in combinations(replication.write_set(entry), replication.ack_quorum)
    )
    assert replication.is_covered(answered) == always_met


def test_striping() -> None:
    assert not Replication(3, 3, 2).is_striped
    assert Replication(5, 3, 2).is_striped
    assert Replication(5, 3, 2).coverage == 2
