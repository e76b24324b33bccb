"""Ensembles spread as their policy says, exactly where a choice exists, and repeat with the seed.

The properties compare with brute force: every ordered choice of bookies is tried.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.errors import ConfigurationError, NotEnoughBookiesError, NotEnoughDomainsError
from quire.labels import LEVELS, Labels
from quire.ledger.domains import ANYWHERE, Candidate, Placement, Spread, Within, least_spread
from quire.ledger.placement import choose_ensemble, replace
from quire.ledger.quorum import Replication
from tests.support.examples import examples

BOOKIES = [Candidate(f"b{number}") for number in range(9)]
SHAPES = [
    Replication(*shape)
    for shape in ((1, 1, 1), (2, 2, 1), (3, 2, 2), (3, 3, 2), (4, 2, 1), (4, 3, 2), (5, 3, 2))
]


def at(text: str, bookie: str, room: int = 0) -> Candidate:
    return Candidate(bookie, Labels.parse(text), room)


@st.composite
def clusters(draw: st.DrawFn, most: int = 6) -> list[Candidate]:
    """Bookies with some of the labels missing."""
    found = []
    for number in range(draw(st.integers(1, most))):
        zone = draw(st.sampled_from(["a", "b", "c", ""]))
        rack = draw(st.sampled_from(["r", "s", ""]))
        host = draw(st.sampled_from(["h", "i"]))
        found.append(Candidate(f"b{number}", Labels("", zone, rack, host)))
    return found


@st.composite
def policies(draw: st.DrawFn, replication: Replication) -> Placement:
    counts = st.integers(1, replication.write_quorum)
    levels = st.sampled_from(["zone", "rack", "host"])
    require = draw(st.dictionaries(levels, counts, max_size=2))
    durable = draw(st.none() | st.builds(Spread, levels, counts))
    within = (Within("zone", ("a", "b")),) if draw(st.integers(0, 5)) == 0 else ()
    return Placement(tuple(Spread(*each) for each in require.items()), (), durable, within)


def is_legal(chosen: Sequence[Candidate], replication: Replication, needs: dict[str, int]) -> bool:
    places = [each.labels for each in chosen]
    return all(
        least_spread(replication, places, level) >= domains for level, domains in needs.items()
    )


def choices(
    seats: Sequence[Candidate | None], pool: Sequence[Candidate]
) -> Iterator[tuple[Candidate, ...]]:
    empty = [position for position, seat in enumerate(seats) if seat is None]
    for order in permutations(pool, len(empty)):
        filled = dict(zip(empty, order, strict=True))
        yield tuple(seat or filled[position] for position, seat in enumerate(seats))


def reached(chosen: Sequence[Candidate], replication: Replication) -> list[int]:
    places = [each.labels for each in chosen]
    return [least_spread(replication, places, level) for level in LEVELS]


@examples(300)
@given(st.data(), st.sampled_from(SHAPES), clusters(), st.randoms(use_true_random=False))
def test_a_legal_ensemble_is_found_if_there_is_one(
    data: st.DataObject, replication: Replication, cluster: list[Candidate], rng: random.Random
) -> None:
    policy = data.draw(policies(replication))
    pool = [each for each in cluster if policy.admits(each.labels)]
    seats: list[Candidate | None] = [None] * replication.ensemble
    legal = [each for each in choices(seats, pool) if is_legal(each, replication, policy.needs())]
    try:
        chosen = choose_ensemble(rng, cluster, replication, policy)
    except NotEnoughBookiesError:
        assert not legal
        return
    assert chosen in legal, "different candidates, admitted, with the spread required"
    best = max(reached(each, replication) for each in legal)
    assert reached(chosen, replication) == best, "the widest spread, the widest level first"


@examples(300)
@given(st.data(), st.sampled_from(SHAPES), clusters(7), st.randoms(use_true_random=False))
def test_as_many_positions_are_replaced_as_can_be(
    data: st.DataObject, replication: Replication, cluster: list[Candidate], rng: random.Random
) -> None:
    if len(cluster) < replication.ensemble:
        return
    policy = data.draw(policies(replication))
    ensemble = cluster[: replication.ensemble]
    spares = cluster[replication.ensemble :]
    failed = data.draw(st.sets(st.integers(0, replication.ensemble - 1), min_size=1))
    places = [each.labels for each in ensemble]
    needs = {
        level: min(domains, least_spread(replication, places, level))
        for level, domains in policy.needs().items()
    }
    pool = [each for each in spares if policy.admits(each.labels)]
    most = 0
    for given_away in _subsets(sorted(failed)):
        seats = [None if p in given_away else each for p, each in enumerate(ensemble)]
        if any(is_legal(each, replication, needs) for each in choices(seats, pool)):
            most = max(most, len(given_away))
    if most == 0:
        with pytest.raises(NotEnoughDomainsError if pool else NotEnoughBookiesError):
            replace(rng, ensemble, failed, cluster, replication, policy)
        return
    result = replace(rng, ensemble, failed, cluster, replication, policy)
    changed = {p for p, each in enumerate(result) if each != ensemble[p]}
    assert changed <= failed
    assert len(changed) == most > 0
    assert {result[p] for p in changed} <= set(pool)
    assert is_legal(result, replication, needs)
    assert len({each.bookie for each in result}) == replication.ensemble


def test_fewer_spares_than_failed_positions_in_the_wrong_domain_lack_a_domain() -> None:
    zones = "aaccc"
    cluster = [
        Candidate(f"b{at}", Labels(zone=zone, rack="r", host="h")) for at, zone in enumerate(zones)
    ]
    policy = Placement((Spread("zone", 2),))
    with pytest.raises(NotEnoughDomainsError):
        replace(random.Random(1), cluster[:4], {0, 1}, cluster, Replication(4, 3, 2), policy)


def _subsets(items: Sequence[int]) -> Iterator[set[int]]:
    for mask in range(1, 1 << len(items)):
        yield {item for bit, item in enumerate(items) if mask >> bit & 1}


@given(st.integers(0, 9), st.integers(1, 9), st.randoms(use_true_random=False))
def test_choose(available: int, size: int, rng: random.Random) -> None:
    candidates, replication = BOOKIES[:available], Replication(size, size, size)
    if available < size:
        with pytest.raises(NotEnoughBookiesError) as caught:
            choose_ensemble(rng, candidates, replication)
        assert (caught.value.needed, caught.value.available) == (size, available)
        return
    chosen = choose_ensemble(rng, candidates, replication)
    assert len(set(chosen)) == size
    assert set(chosen) <= set(candidates)


@given(
    st.sets(st.integers(0, 3), min_size=1),
    st.sets(st.sampled_from(BOOKIES)),
    st.randoms(use_true_random=False),
)
def test_replace(failed: set[int], candidates: set[Candidate], rng: random.Random) -> None:
    ensemble, replication = tuple(BOOKIES[:4]), Replication(4, 3, 2)
    spares = candidates.difference(ensemble)
    if not spares:
        with pytest.raises(NotEnoughBookiesError):
            replace(rng, ensemble, failed, candidates, replication)
        return
    result = replace(rng, ensemble, failed, candidates, replication)
    changed = [position for position in range(4) if result[position] != ensemble[position]]
    assert changed == sorted(failed)[: len(spares)], "lowest first, as many as there are spares"
    assert {result[position] for position in changed} <= spares
    assert len(set(result)) == 4


def test_replacing_nothing_needs_no_spare() -> None:
    assert replace(random.Random(1), BOOKIES[:2], [], [], Replication(2, 2, 2)) == (*BOOKIES[:2],)


def test_the_draw_depends_on_the_seed_and_not_on_the_order_of_candidates() -> None:
    shape = Replication()
    first = choose_ensemble(random.Random(7), BOOKIES, shape)
    second = choose_ensemble(random.Random(7), reversed(BOOKIES), shape)
    assert first == second
    many = {choose_ensemble(random.Random(seed), BOOKIES, shape) for seed in range(50)}
    assert len(many) > 20, "load spreads"


def test_three_racks_of_two_have_one_copy_each() -> None:
    cluster = [at(f"rack=r{n % 3},host=h{n}", f"b{n}") for n in range(6)]
    load: Counter[str] = Counter()
    for seed in range(200):
        chosen = choose_ensemble(random.Random(seed), cluster, Replication())
        assert len({each.labels.rack for each in chosen}) == 3
        load.update(each.bookie for each in chosen)
    assert min(load.values()) > 60, "600 copies over six bookies"


def test_a_greedy_draw_would_fail() -> None:
    """Neighbours in other racks: r3 has to be every second position, whatever is drawn first."""
    cluster = [at("rack=r1", "b1"), at("rack=r2", "b2"), at("rack=r3", "b3"), at("rack=r3", "b4")]
    policy = Placement.parse("require=rack:2")
    for seed in range(50):
        chosen = choose_ensemble(random.Random(seed), cluster, Replication(4, 2, 2), policy)
        racks = [each.labels.rack for each in chosen]
        assert all(racks[n] != racks[n - 1] for n in range(4))


def test_room_is_a_weight_with_a_limit() -> None:
    cluster = [at("", f"b{n}", 100) for n in range(5)] + [at("", "full", 10), at("", "new", 10**6)]
    load: Counter[str] = Counter()
    for seed in range(1000):
        chosen = choose_ensemble(random.Random(seed), cluster, Replication(1, 1, 1))
        load.update(each.bookie for each in chosen)
    # 1000 ledgers by weights 1 ×5, 0.1 and 3: about 123 each, 12 and 370
    assert load["full"] < 40 < load["b0"]
    assert 300 < load["new"] < 450


def test_the_search_is_short_among_many_bookies_and_without_a_way() -> None:
    cluster = [at(f"zone=z{n % 2},rack=r{n % 40},host=h{n}", f"b{n:03}") for n in range(400)]
    policy = Placement.parse("require=zone:2,require=rack:3")
    chosen = choose_ensemble(random.Random(1), cluster, Replication(6, 3, 2), policy)
    assert is_legal(chosen, Replication(6, 3, 2), policy.needs())
    with pytest.raises(NotEnoughDomainsError):
        choose_ensemble(
            random.Random(1), cluster, Replication(6, 3, 2), Placement.parse("require=zone:3")
        )


def test_the_error_names_what_is_missing() -> None:
    cluster = [at("zone=a,host=h1", "b1"), at("zone=b,host=h2", "b2"), at("host=h3", "b3")]
    policy = Placement.parse("require=zone:3")
    known = [Labels.parse("zone=c,host=h4"), Labels.parse("zone=a,host=h5")]
    with pytest.raises(NotEnoughDomainsError) as caught:
        choose_ensemble(random.Random(1), cluster, Replication(), policy, known)
    assert caught.value.missing == ("c",)
    assert caught.value.found == {"a": 1, "b": 1}
    assert str(caught.value) == (
        "placement require=zone:3 needs bookies in 3 domains of level zone for every write set; "
        "the writable bookies are in a (1), b (1); none in c; 1 lack a label that the placement "
        "requires: start bookies elsewhere, label them, or require less"
    )


def test_a_write_set_that_was_too_narrow_before_may_stay_so() -> None:
    ensemble = [at("zone=a", "b1"), at("zone=a", "b2")]
    policy, shape = Placement.parse("durable=zone:2"), Replication(2, 2, 2)
    spare = at("zone=a", "b3")
    assert replace(random.Random(1), ensemble, [0], [spare], shape, policy)[0] == spare
    wider = at("zone=b", "b4")
    assert replace(random.Random(1), ensemble, [0], [spare, wider], shape, policy)[0] == wider


@pytest.mark.parametrize(
    "text",
    [
        "",
        "require=rack:2",
        "require=rack:2,require=zone:1,prefer=region:2,durable=zone:2,within=region:eu|us",
    ],
)
def test_a_policy_is_what_its_text_says(text: str) -> None:
    assert str(Placement.parse(text)) == text
    assert Placement.parse("") == ANYWHERE


@pytest.mark.parametrize(
    "text",
    [
        "rack:2",
        "require=rack",
        "require=rack:0",
        "require=rack:-1",
        "require=shelf:2",
        "require=rack:2,require=rack:3",
        "durable=zone:2,durable=rack:2",
        "within=zone",
        "require=rack:٣",
    ],
)
def test_a_policy_that_cannot_be_understood(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Placement.parse(text)
    assert "placement" in str(caught.value)


@pytest.mark.parametrize("values", ["eu", ["eu"], (), ("",), (5,), ("eu", "us,asia"), ("eu|us",)])
def test_labels_that_a_record_could_not_give_back_are_refused(values: Any) -> None:
    """A ledger in zone eu would be written, and its record could not be read, or says otherwise."""
    with pytest.raises(ConfigurationError, match=r"placement within zone: .* are not labels"):
        Placement(within=(Within("zone", values),))


@pytest.mark.parametrize("values", [("eu",), ("eu", "us"), ("eu", ""), ("", "")])
def test_labels_that_a_record_gives_back(values: tuple[str, ...]) -> None:
    policy = Placement(within=(Within("zone", values),))
    assert Placement.parse(str(policy)) == policy


def test_more_domains_than_copies_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="3 domains need as many copies"):
        Placement.parse("durable=zone:3").check(Replication(5, 2, 2))
    Placement.parse("durable=zone:2").check(Replication(5, 2, 2))
