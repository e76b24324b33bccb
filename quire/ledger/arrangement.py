"""Arranging bookies so that every write set spreads over enough domains: the search.

Positions are filled one after the other. The next bookie shares the fewest levels
with the positions that are in a write set with it; equals keep the order of the pool, which the
caller draws. A position that leaves a write set without a chance is taken back. So a plain draw is
found at once, and a draw that needs an awkward order is found if it exists.

Bookies of a kind are tried once: bookies of one domain at the narrowest level asked for, and
bookies in domains that are unused so far and have the same shape. So the search ends
soon even among many bookies.

Pure: places in, places out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from quire.labels import LEVELS, Domain
from quire.ledger.domains import Candidate, domains_of
from quire.ledger.quorum import Replication

STEPS_MAX: Final = 100_000
"""Bookies that one search places at most, half a second: a bound for hostile shapes. Ensembles of
nine among eight racks need a few hundred."""

Needs: TypeAlias = Mapping[str, int]
"""How many domains every write set needs, by level."""


def arrange(
    replication: Replication,
    seats: Sequence[Candidate | None],
    pool: Sequence[Candidate],
    needs: Needs,
    steps: int = STEPS_MAX,
) -> tuple[Candidate, ...] | None:
    """Return the seats with each empty one given to a bookie of the pool, or None.

    `seats` are the ensemble's positions. A bookie of the pool is used once, and early ones are
    preferred. In the result every write set has bookies in as many domains as `needs` says.
    """
    search = _Search(replication, seats, pool, needs, steps)
    return search.run()


def bound(
    replication: Replication, seats: Sequence[Candidate | None], pool: Sequence[Candidate], at: str
) -> int:
    """Return a bound of the domains of a level that every write set can reach."""
    fresh = set(domains_of((each.labels for each in pool), at))
    found = []
    for start in range(replication.ensemble):
        seated = [seats[position] for position in replication.write_set(start)]
        taken = {each.labels.domain(at) for each in seated if each is not None}
        found.append(len(taken) + min(seated.count(None), len(fresh - taken)))
    return min(found)


class _Search:
    def __init__(
        self,
        replication: Replication,
        seats: Sequence[Candidate | None],
        pool: Sequence[Candidate],
        needs: Needs,
        steps: int,
    ) -> None:
        self._replication = replication
        self._seats = list(seats)
        self._pool = pool
        self._steps = steps
        self._needs = [(LEVELS.index(level) + 1, count) for level, count in needs.items()]
        self._depth = max((depth for depth, _ in self._needs), default=0)
        self._paths = [_prefixes(each) for each in pool]
        self._is_used = [False] * len(pool)
        self._shapes = self._shape()
        starts = range(replication.ensemble if replication.is_striped else 1)
        sets = [replication.write_set(start) for start in starts]
        self._sets = {
            position: [each for each in sets if position in each]
            for position in range(replication.ensemble)
        }

    def run(self) -> tuple[Candidate, ...] | None:
        empty = [position for position, seat in enumerate(self._seats) if seat is None]
        if len(empty) > len(self._pool) or not self._is_countable():
            return None
        if not all(self._is_open(position) for position in range(len(self._seats))):
            return None
        if not self._fill(empty):
            return None
        return tuple(seat for seat in self._seats if seat is not None)

    def _fill(self, empty: Sequence[int]) -> bool:
        if not empty:
            return True
        position, rest = empty[0], empty[1:]
        tried: set[Any] = set()
        used = {prefix for seat in self._seats if seat for prefix in _prefixes(seat)}
        for index in self._order(position):
            kind = self._kind(self._paths[index], used)
            if kind in tried or self._steps <= 0:
                continue
            tried.add(kind)
            self._steps -= 1
            self._seats[position], self._is_used[index] = self._pool[index], True
            if self._is_open(position) and self._fill(rest):
                return True
            self._seats[position], self._is_used[index] = None, False
        return False

    def _order(self, position: int) -> list[int]:
        """Return the free bookies, the most distant from their write sets first."""
        near = {
            prefix
            for write_set in self._sets[position]
            for other in write_set
            if (seat := self._seats[other]) is not None
            for prefix in _prefixes(seat)
        }
        free = [index for index, is_used in enumerate(self._is_used) if not is_used]
        return sorted(free, key=lambda index: sum(map(near.__contains__, self._paths[index])))

    def _kind(self, path: Sequence[Domain], used: set[Domain]) -> tuple[Any, ...]:
        """Return the kind of a bookie: bookies of a kind lead to the same ends."""
        return tuple(
            prefix if prefix in used else self._shapes[prefix] for prefix in path[: self._depth]
        )

    def _shape(self) -> dict[Domain, Any]:
        """Return what each domain of the pool looks like from above, without names."""
        shapes: dict[Domain, Any] = {}
        counts = Counter(path[self._depth - 1] for path in self._paths) if self._depth else {}
        shapes |= {each: min(count, len(self._seats)) for each, count in counts.items()}
        level = list(counts)
        while level and len(level[0]) > 1:
            parents: dict[Domain, list[Any]] = {}
            for domain in level:
                parents.setdefault(domain[:-1], []).append(shapes[domain])
            shapes |= {each: tuple(sorted(inside)) for each, inside in parents.items()}
            level = list(parents)
        return shapes

    def _is_open(self, position: int) -> bool:
        """Whether each write set of a position can still spread as needed."""
        for write_set in self._sets[position]:
            seated = [seat.labels.path for each in write_set if (seat := self._seats[each])]
            missing = len(write_set) - len(seated)
            for depth, count in self._needs:
                if len({path[:depth] for path in seated}) + missing < count:
                    return False
        return True

    def _is_countable(self) -> bool:
        """Whether the domains can fill the ensemble, by counting.

        With k domains in each of the E write sets, a domain has at most Qw − k + 1 positions in one
        of them, and each of its positions is in Qw of them.
        """
        size, copies = self._replication.ensemble, self._replication.write_quorum
        seated = [seat for seat in self._seats if seat is not None]
        for depth, count in self._needs:
            most = size * (copies - count + 1) // copies
            there = Counter(each.labels.path[:depth] for each in (*seated, *self._pool))
            if sum(min(number, most) for number in there.values()) < size:
                return False
        return True


def _prefixes(candidate: Candidate) -> tuple[Domain, ...]:
    path = candidate.labels.path
    return path[:1], path[:2], path[:3], path
