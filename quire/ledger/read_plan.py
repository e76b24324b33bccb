"""The bookies to ask for a range of entries, in order.

In an unstriped ensemble every position holds everything, so one position can serve a whole
sequential read: its read-ahead stays warm. In a striped one, positions at most Qw apart on the
circle hold everything between them: with E = 5 and Qw = 3 two of the five are enough. Near copies
are asked first. Positions under suspicion are asked last.

A second question goes to another domain than the first, for what slows one bookie down often slows
its neighbors too.

Pure: positions in, positions out.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from quire.entry import EntryId
from quire.labels import Labels
from quire.ledger.quorum import Replication


class Nearness:
    """How far the positions of an ensemble are from the reader, and from each other.

    Without labels all are equally far.
    """

    __slots__ = ("_here", "_places")

    def __init__(self, here: Labels, places: Sequence[Labels] = ()) -> None:
        """`places` are by position; empty when they are not known."""
        self._here = here
        self._places = places

    def distance(self, position: int) -> int:
        """Return how many levels lie between the reader and a position."""
        if not self._places:
            return 0
        place = self._places[position]
        return len(place.path) - place.shared(self._here)

    def is_beside(self, position: int, others: Collection[int]) -> bool:
        """Whether a position is in the rack of one of the others, or on its host."""
        if not self._places:
            return False
        place = self._places[position]
        level = "rack" if place.rack else "host"
        domain = place.domain(level)
        return place.names(level) and any(
            self._places[other].domain(level) == domain for other in others
        )


ALIKE = Nearness(Labels())


def cover(
    replication: Replication, turn: int, suspects: Collection[int], nearness: Nearness = ALIKE
) -> list[int]:
    """Return a few positions that together hold every entry of a fragment.

    The nearest position comes first. `turn` rotates the choice among equals, so that many reads
    spread over the ensemble. Suspects are in the result only where no other position would do.
    """
    size, reach = replication.ensemble, replication.write_quorum
    turned = [(turn + i) % size for i in range(size)]
    healthy = sorted([p for p in turned if p not in suspects], key=nearness.distance)
    start = healthy[0] if healthy else turn % size
    chosen, at = [start], 0
    while size - at > reach:
        steps = range(at + reach, at, -1)
        good = (step for step in steps if (start + step) % size not in suspects)
        at = next(good, at + reach)
        chosen.append((start + at) % size)
    return chosen


def fallbacks(
    replication: Replication,
    entry: EntryId,
    asked: Collection[int],
    turn: int,
    suspects: Collection[int],
    nearness: Nearness = ALIKE,
) -> list[int]:
    """Return the positions of an entry's write set that were not asked, the likeliest first.

    Of those not under suspicion a position beside one that was asked comes last.
    """

    def rank(position: int) -> tuple[bool, bool, int, int]:
        rotated = (position - turn) % replication.ensemble
        beside = nearness.is_beside(position, asked)
        return position in suspects, beside, nearness.distance(position), rotated

    rest = [position for position in replication.write_set(entry) if position not in asked]
    return sorted(rest, key=rank)


def covering(replication: Replication, ranked: list[int]) -> list[int]:
    """Return the shortest head of a ranking of all positions that covers every write set."""
    for count in range(1, len(ranked)):
        if replication.is_covered(ranked[:count]):
            return ranked[:count]
    return ranked
