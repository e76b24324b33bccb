"""Which bookies form an ensemble, and which ones take over failed positions.

The draw is random, weighted by free room, and spreads over domains as the ledger's policy says
(`domains`). Load spreads by itself, and writers that replace the same bookie do not all run to the
same spare. A bookie appears once per ensemble (L5). Candidates are sorted before the draw, so the
result depends on the generator and the candidates alone.

Every ensemble spreads as the policy requires, and is found if any choice of bookies does. The
preferred spread is raised level by level, the widest level first, as far as a search of bounded
length finds it.

Pure: the caller brings the candidates and the generator, and decides which bookies to leave out.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import combinations
from statistics import median
from typing import Final

from quire.errors import NotEnoughBookiesError, NotEnoughDomainsError
from quire.labels import Labels, domain_name
from quire.ledger.arrangement import STEPS_MAX, arrange, bound
from quire.ledger.domains import ANYWHERE, Candidate, Placement, least_spread
from quire.ledger.quorum import Replication

WISH_STEPS_MAX: Final = 1000
"""Bookies that the search for a preferred spread places at most: some milliseconds."""

ROOM_RATIO_MAX: Final = 3
"""A bookie counts for at most as many times the median room: a new, empty bookie gets three times
the ledgers of the others until it has caught up, and not all of them."""


def choose_ensemble(
    rng: random.Random,
    candidates: Iterable[Candidate],
    replication: Replication,
    placement: Placement = ANYWHERE,
    known: Iterable[Labels] = (),
) -> tuple[Candidate, ...]:
    """Return a new ensemble by position.

    `known` are the places of all bookies ever seen: an error counts those that are not
    candidates now, and names the missing places.

    Raises `NotEnoughBookiesError` when there are fewer candidates than positions, and
    `NotEnoughDomainsError` when no choice spreads as the policy requires.
    """
    offered = list(candidates)
    pool = drawn(rng, offered, placement)
    seats: list[Candidate | None] = [None] * replication.ensemble
    if len({each.bookie for each in offered}) < replication.ensemble:
        unwritable = max(0, len(list(known)) - len(offered))
        raise NotEnoughBookiesError(replication.ensemble, len(offered), unwritable)
    needs = placement.needs()
    found = arrange(replication, seats, pool, needs)
    if found is None:
        raise _too_few(
            replication, seats, pool, placement, [each.labels for each in offered], known
        )
    return _improved(replication, seats, pool, placement, needs, found)


def replace(
    rng: random.Random,
    ensemble: Sequence[Candidate],
    failed_positions: Collection[int],
    candidates: Iterable[Candidate],
    replication: Replication,
    placement: Placement = ANYWHERE,
    known: Iterable[Labels] = (),
) -> tuple[Candidate, ...]:
    """Return the ensemble with its failed positions given to candidates that are not yet in it.

    When not all of them can be given away, as many are as possible, the lowest first: half a repair
    is better than none. The result tells which. No write set spreads less than required, unless
    it spread less before.

    Raises `NotEnoughBookiesError` without any spare, `NotEnoughDomainsError` when no spare is in a
    domain that the policy allows.
    """
    failed = sorted(set(failed_positions))
    if not failed:
        return tuple(ensemble)
    members = {each.bookie for each in ensemble}
    spares = [each for each in candidates if each.bookie not in members]
    if not spares:
        raise NotEnoughBookiesError(len(failed), 0)
    places = [each.labels for each in ensemble]
    needs = {
        level: min(domains, least_spread(replication, places, level))
        for level, domains in placement.needs().items()
    }
    pool = drawn(rng, spares, placement)
    for count in range(min(len(failed), len(pool)), 0, -1):
        for given in combinations(failed, count):
            seats = [None if p in given else each for p, each in enumerate(ensemble)]
            found = arrange(replication, seats, pool, needs)
            if found is not None:
                return _improved(replication, seats, pool, placement, needs, found)
    # A single candidate would do, so the lack is of domains if there is one.
    unfilled = failed[: max(1, len(pool))]
    emptied = [None if p in unfilled else each for p, each in enumerate(ensemble)]
    raise _too_few(replication, emptied, pool, placement, [each.labels for each in spares], known)


def drawn(
    rng: random.Random, candidates: Iterable[Candidate], placement: Placement
) -> list[Candidate]:
    """Return the candidates that a policy admits, in an order drawn with their room as weight.

    The keys are u^(1/w) (Efraimidis and Spirakis): taking the largest keys is a weighted draw
    without replacement.
    """
    pool = sorted(
        {each.bookie: each for each in candidates if placement.admits(each.labels)}.items()
    )
    middle = median([each.room for _, each in pool if each.room] or [1])
    keys = []
    for bookie, each in pool:
        weight = min((each.room or middle) / middle, ROOM_RATIO_MAX)
        keys.append((rng.random() ** (1 / weight), bookie, each))
    return [each for _, _, each in sorted(keys, reverse=True)]


def _improved(
    replication: Replication,
    seats: Sequence[Candidate | None],
    pool: Sequence[Candidate],
    placement: Placement,
    needs: dict[str, int],
    found: tuple[Candidate, ...],
) -> tuple[Candidate, ...]:
    """Return an arrangement that spreads as widely as wished, as far as one is found."""
    reached = dict(needs)
    for level, wish in placement.wishes(replication).items():
        most = min(wish, bound(replication, seats, pool, level))
        least = least_spread(replication, [each.labels for each in found], level)
        for domains in range(most, least, -1):
            steps = STEPS_MAX if level in needs else WISH_STEPS_MAX
            better = arrange(replication, seats, pool, {**reached, level: domains}, steps)
            if better is not None:
                found, least = better, domains
                break
        reached[level] = max(min(least, wish), reached.get(level, 0))
    return found


def _too_few(
    replication: Replication,
    seats: Sequence[Candidate | None],
    pool: Sequence[Candidate],
    placement: Placement,
    there: Sequence[Labels],
    known: Iterable[Labels],
) -> NotEnoughBookiesError:
    """Return the error that names the missing bookies, or domains of a level."""
    needs = placement.needs()
    blamed = [
        level
        for level, domains in needs.items()
        if arrange(replication, seats, pool, {level: domains}) is None
    ]
    if not needs or (len(pool) < seats.count(None) and len(pool) == len(there)):
        return NotEnoughBookiesError(seats.count(None), len(pool))
    level = (blamed or list(needs))[0]
    seated = [each.labels for each in seats if each is not None]
    found = Counter(
        domain_name(each.domain(level)) for each in (*seated, *(each.labels for each in pool))
    )
    elsewhere = {domain_name(each.domain(level)) for each in known if placement.admits(each)}
    refused = [each for each in there if not placement.admits(each)]
    return NotEnoughDomainsError(
        str(placement),
        level,
        needs[level],
        dict(sorted(found.items())),
        sorted(elsewhere - found.keys()),
        sum(not all(map(each.names, needs)) for each in refused),
        sum(all(map(each.names, needs)) for each in refused),
    )
