"""Moves for the sake of spread: each raises the measure, they end, and a brute force finds no
wider ensemble where they end.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import permutations

import pytest

from quire.labels import Labels
from quire.ledger.domains import Candidate, Placement
from quire.ledger.quorum import Replication
from quire.ledger.spreading import Measure, measure, wider, write_sets

WHOLE = (Replication(2, 2, 2), Replication(3, 3, 2), Replication(4, 4, 3))
STRIPED = (Replication(3, 2, 2), Replication(4, 3, 2), Replication(5, 3, 2))
POLICIES = (
    *("", "", "require=rack:2", "require=zone:2,require=rack:2", "durable=zone:2", "prefer=rack:2"),
    *("prefer=zone:2,require=rack:2", "within=zone:z0|z1", "durable=rack:2,prefer=zone:1"),
)
MOVES_MAX = 60


def drawn_bookies(rng: random.Random, count: int, bare: float) -> list[Candidate]:
    """Draw bookies; some labels are missing."""

    def label(kind: str, kinds: int) -> str:
        return "" if rng.random() < bare else f"{kind}{rng.randrange(kinds)}"

    return [
        Candidate(
            f"b{number}",
            Labels(zone=label("z", 3), rack=label("r", 3), host=f"h{rng.randrange(6)}"),
            rng.choice([0, 1, 5]),
        )
        for number in range(count)
    ]


def measured(
    replication: Replication, placement: Placement, ensemble: Sequence[Candidate]
) -> Measure:
    return measure(replication, placement, [each.labels for each in ensemble])


def required(
    replication: Replication, placement: Placement, ensemble: Sequence[Candidate]
) -> list[int]:
    """The required domains that each write set has, counted anew."""
    found = []
    for level, least in placement.needs().items():
        for each in write_sets(replication):
            labels = [ensemble[position].labels for position in each]
            found.append(min(least, len({x.domain(level) for x in labels if x.names(level)})))
    return found


def moved(
    rng: random.Random,
    replication: Replication,
    placement: Placement,
    ensemble: Sequence[Candidate],
    cluster: Sequence[Candidate],
) -> list[Candidate]:
    """Move until nothing is to be moved, and check every move."""
    now = list(ensemble)
    for _ in range(MOVES_MAX):
        move = wider(rng, replication, placement, now, cluster)
        if move is None:
            return now
        after = list(now)
        after[move.position] = move.new
        assert move.new not in now, "no bookie is twice in a fragment"
        assert placement.admits(move.new.labels)
        assert measured(replication, placement, after) > measured(replication, placement, now)
        pairs = zip(
            required(replication, placement, now),
            required(replication, placement, after),
            strict=True,
        )
        assert all(old <= new for old, new in pairs), "a required domain is lost"
        now = after
    raise AssertionError("moves do not end")


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("replication", [*WHOLE, *STRIPED])
def test_each_move_raises_the_measure_and_moves_end(replication: Replication, seed: int) -> None:
    rng = random.Random(seed)
    cluster = drawn_bookies(rng, 8, bare=0.2)
    placement = Placement.parse(rng.choice(POLICIES))
    moved(rng, replication, placement, rng.sample(cluster, replication.ensemble), cluster)


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("replication", WHOLE)
@pytest.mark.slow
def test_where_moves_end_brute_force_finds_no_wider_ensemble(
    replication: Replication, seed: int
) -> None:
    """With one write set, and labels on all bookies. A place goes only to a bookie that the policy
    admits, or stays.
    """
    rng = random.Random(seed)
    cluster = drawn_bookies(rng, 6, bare=0.0)
    placement = Placement.parse(rng.choice(POLICIES))
    before = rng.sample(cluster, replication.ensemble)
    reached = measured(replication, placement, moved(rng, replication, placement, before, cluster))
    for ensemble in permutations(cluster, replication.ensemble):
        pairs = zip(before, ensemble, strict=True)
        if all(old == new or placement.admits(new.labels) for old, new in pairs):
            assert measured(replication, placement, ensemble) <= reached


def test_which_place_moves_depends_on_no_chance() -> None:
    """Two auditors that ask at once ask for one place: only one of the bookies gets it."""
    for seed in range(100):
        rng = random.Random(seed)
        cluster = drawn_bookies(rng, 8, bare=0.1)
        replication = rng.choice([*WHOLE, *STRIPED])
        ensemble = rng.sample(cluster, replication.ensemble)
        positions = set()
        for other in range(5):
            move = wider(random.Random(other), replication, Placement(), ensemble, cluster)
            positions.add(None if move is None else move.position)
        assert len(positions) == 1


def test_a_required_domain_goes_before_a_wider_preferred_one() -> None:
    replication = Replication(2, 2, 2)
    placement = Placement.parse("require=rack:2")
    ensemble = [
        Candidate("a", Labels(zone="z1", rack="r1", host="h1")),
        Candidate("b", Labels(zone="z2", host="h2")),
    ]
    near = Candidate("c", Labels(zone="z1", rack="r2", host="h3"))
    move = wider(random.Random(0), replication, placement, ensemble, [near])
    assert move is not None
    assert move.new == near, "two zones were aimed at, two racks are required"
    assert move.position == 1
