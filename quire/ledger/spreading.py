"""How widely the copies of a fragment spread, as a measure, and the move that raises it most.

    (R, region, zone, rack, host)

R is how much of the required spread there is: over all write sets and required levels, the domains
with copies, each up to what is required. A level's number is the same for the spread to aim at. So
what a policy requires goes first, then the widest level. Measures compare as tuples.

A measure has an upper bound, and a move changes the place of one copy, in one fragment. So moves
that each raise the measure end. With one write set (E = Qw) they end at the widest spread that the
bookies allow, if all are labelled: of two copies in a domain either may leave, and no wider level
loses by it. A striped ensemble may end below that: a wider one can need two moves at once.

Pure. Not here: the policy (domains.py), and a new ensemble (placement.py).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple, TypeAlias

from quire.labels import LEVELS, Domain, Labels
from quire.ledger.domains import Candidate, Placement
from quire.ledger.placement import drawn
from quire.ledger.quorum import Replication

Measure: TypeAlias = tuple[int, ...]


class Gain(NamedTuple):
    """One place of a fragment, and the bookie that takes it to raise the measure."""

    position: int
    new: Candidate


@cache
def write_sets(replication: Replication) -> Sequence[tuple[int, ...]]:
    """Return the different sets of positions that an entry may be at."""
    starts = range(replication.ensemble)
    return sorted({tuple(sorted(replication.write_set(each))) for each in starts})


def measure(replication: Replication, placement: Placement, places: Sequence[Labels]) -> Measure:
    """Return how widely a fragment spreads.

    Args:
        replication: the ledger's.
        placement: the ledger's.
        places: where the bookies are, by position.

    Returns:
        The measure. A wider spread has a higher one.
    """
    needs = placement.needs().items()
    required = sum(sum(_named(replication, places, level, least)) for level, least in needs)
    wished = (
        sum(min(wish, len({places[at].domain(level) for at in each})) for each in sets)
        for sets in (write_sets(replication),)
        for level, wish in placement.wishes(replication).items()
    )
    return required, *wished


def wider(
    rng: random.Random,
    replication: Replication,
    placement: Placement,
    ensemble: Sequence[Candidate],
    candidates: Iterable[Candidate],
) -> Gain | None:
    """Return the move of one place that raises the measure most.

    Args:
        rng: draws among bookies that are equally good, by their free space.
        replication: the ledger's.
        placement: the ledger's.
        ensemble: the fragment's bookies, by position.
        candidates: bookies that may take a place.

    Returns:
        The move, at the lowest position of several; None if no move raises the measure. No
        write set loses a required domain by it. Which place moves depends on no chance, so two
        processes that ask at once ask for the same place.
    """
    members = {each.bookie for each in ensemble}
    places = [each.labels for each in ensemble]
    pool = drawn(rng, (each for each in candidates if each.bookie not in members), placement)
    best, found = measure(replication, placement, places), None
    for new in _different(places, pool):
        for position in range(len(places)):
            after = [*places[:position], new.labels, *places[position + 1 :]]
            value = measure(replication, placement, after)
            is_first = value == best and found is not None and position < found.position
            if (value > best or is_first) and _keeps(replication, placement, places, after):
                best, found = value, Gain(position, new)
    return found


def _different(places: Sequence[Labels], pool: Iterable[Candidate]) -> list[Candidate]:
    """Return one bookie of each kind, the first. Bookies of a kind share the same domains with the
    ensemble, so they raise a measure alike.
    """
    used: set[Domain] = {each.domain(level) for each in places for level in LEVELS}
    kinds: dict[tuple[object, ...], Candidate] = {}
    for each in pool:
        path = [each.labels.domain(level) for level in LEVELS]
        named = [each.labels.names(level) for level in LEVELS]
        shared = [domain if domain in used else None for domain in path]
        kinds.setdefault((*shared, *named), each)
    return list(kinds.values())


def _named(
    replication: Replication, places: Sequence[Labels], level: str, most: int
) -> Sequence[int]:
    """Return in how many domains of a level each write set is, up to a number. A bookie without
    the label may be anywhere: it is in none.
    """
    where = [each.domain(level) if each.names(level) else None for each in places]
    found = ({where[at] for at in each} - {None} for each in write_sets(replication))
    return [min(most, len(each)) for each in found]


def _keeps(
    replication: Replication,
    placement: Placement,
    before: Sequence[Labels],
    after: Sequence[Labels],
) -> bool:
    """Whether no write set loses a required domain."""
    return all(
        new >= old
        for level, least in placement.needs().items()
        for old, new in zip(
            _named(replication, before, level, least),
            _named(replication, after, level, least),
            strict=True,
        )
    )
