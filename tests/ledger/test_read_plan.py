"""Whom to ask: covers hold everything, avoid suspects, and stay small."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quire.labels import Labels
from quire.ledger.quorum import Replication
from quire.ledger.read_plan import Nearness, cover, covering, fallbacks


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


HERE = Labels.parse("region=eu,zone=a,rack=r1,host=h1")


def near(*places: str) -> Nearness:
    return Nearness(HERE, [Labels.parse(each) for each in places])


def test_the_nearest_copy_is_read_first_and_equals_take_turns() -> None:
    nearness = near(
        "region=us,zone=a,rack=r1,host=h1",
        "region=eu,zone=b,rack=r1,host=h1",
        "region=eu,zone=a,rack=r2,host=h5",
    )
    assert [nearness.distance(position) for position in range(3)] == [4, 3, 2]
    assert [cover(Replication(3, 3, 2), turn, (), nearness) for turn in range(3)] == [[2]] * 3
    assert cover(Replication(3, 3, 2), 0, (2,), nearness) == [1], "a suspect comes last"
    alike = near("region=us", "region=eu,zone=b", "region=eu,zone=c")
    assert [cover(Replication(3, 3, 2), turn, (), alike) for turn in range(3)] == [[1], [1], [2]]


def test_the_second_question_goes_to_another_rack() -> None:
    nearness = near(
        "region=eu,zone=a,rack=r1,host=h1",
        "region=eu,zone=a,rack=r1,host=h2",
        "region=eu,zone=a,rack=r2,host=h3",
        "region=us,zone=a,rack=r1,host=h4",
    )
    shape = Replication(4, 4, 2)
    assert cover(shape, 0, (), nearness) == [0]
    assert fallbacks(shape, 0, [0], 0, (), nearness) == [2, 3, 1]
    assert fallbacks(shape, 0, [0], 0, (2,), nearness) == [3, 1, 2]
    hosts = near("host=h1", "host=h1", "host=h2")
    assert fallbacks(Replication(3, 3, 2), 0, [0], 0, (), hosts) == [2, 1], "without racks: hosts"
    assert fallbacks(Replication(3, 3, 2), 0, [0], 0, (), near("", "", "")) == [1, 2]


@given(replications(), st.integers(0, 50), st.data())
def test_a_near_cover_holds_every_entry_too(
    replication: Replication, turn: int, data: st.DataObject
) -> None:
    zones = data.draw(
        st.lists(
            st.sampled_from(["", "region=eu", "region=eu,zone=a", "region=us"]),
            min_size=replication.ensemble,
            max_size=replication.ensemble,
        )
    )
    nearness, suspects = near(*zones), suspects_of(data, replication)
    chosen = cover(replication, turn, suspects, nearness)
    for entry in range(replication.ensemble):
        assert set(chosen) & set(replication.write_set(entry))
    well = [p for p in range(replication.ensemble) if p not in suspects]
    if well:
        assert nearness.distance(chosen[0]) == min(map(nearness.distance, well))


@given(replications(), st.data())
def test_covering_takes_the_shortest_head_that_covers(
    replication: Replication, data: st.DataObject
) -> None:
    ranked = data.draw(st.permutations(range(replication.ensemble)))
    chosen = covering(replication, ranked)
    assert replication.is_covered(chosen)
    assert chosen == ranked[: len(chosen)]
    assert not replication.is_covered(chosen[:-1])
