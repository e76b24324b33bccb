"""Whom to ask: covers hold everything, avoid suspects, and stay small."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quire.ledger.quorum import Replication
from quire.ledger.read_plan import cover, covering, fallbacks


@st.composite
def replications(draw: st.DrawFn) -> Replication:
    ensemble = draw(st.integers(1, 8))
    write_quorum = draw(st.integers(1, ensemble))
    return Replication(ensemble, write_quorum, draw(st.integers(1, write_quorum)))


def suspects_of(draw: st.DataObject, replication: Replication) -> set[int]:
    return draw.draw(st.sets(st.sampled_from(range(replication.ensemble))))


@given(replications(), st.integers(0, 50), st.data())
def test_a_cover_holds_every_entry(
    replication: Replication, turn: int, data: st.DataObject
) -> None:
    chosen = cover(replication, turn, suspects_of(data, replication))
    assert len(set(chosen)) == len(chosen)
    for entry in range(replication.ensemble):
        assert set(chosen) & set(replication.write_set(entry)), (chosen, entry)


@given(replications(), st.integers(0, 50), st.data())
def test_suspects_are_asked_only_where_nobody_else_holds_an_entry(
    replication: Replication, turn: int, data: st.DataObject
) -> None:
    suspects = suspects_of(data, replication)
    chosen = cover(replication, turn, suspects)
    lonely = any(
        set(replication.write_set(entry)) <= suspects for entry in range(replication.ensemble)
    )
    if not lonely:
        assert not set(chosen) & suspects


@given(replications(), st.integers(0, 50))
def test_a_cover_is_as_small_as_it_can_be(replication: Replication, turn: int) -> None:
    size, reach = replication.ensemble, replication.write_quorum
    assert len(cover(replication, turn, ())) == -(-size // reach)


def test_turns_spread_over_the_ensemble() -> None:
    assert [cover(Replication(3, 3, 2), turn, ()) for turn in range(4)] == [[0], [1], [2], [0]]
    assert [cover(Replication(5, 3, 2), turn, ()) for turn in range(2)] == [[0, 3], [1, 4]]


def test_fallbacks_are_the_rest_of_the_write_set_suspects_last() -> None:
    striped = Replication(5, 3, 2)
    assert fallbacks(striped, 3, [3], 3, [4]) == [0, 4]
    assert fallbacks(striped, 3, [0, 3, 4], 3, []) == []


@given(replications(), st.data())
def test_covering_takes_the_shortest_head_that_covers(
    replication: Replication, data: st.DataObject
) -> None:
    ranked = data.draw(st.permutations(range(replication.ensemble)))
    chosen = covering(replication, ranked)
    assert replication.is_covered(chosen)
    assert chosen == ranked[: len(chosen)]
    assert not replication.is_covered(chosen[:-1])
