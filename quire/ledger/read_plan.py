"""The bookies to ask for a range of entries, in order.

In an unstriped ensemble every position holds everything, so one position can serve a whole
sequential read: its read-ahead stays warm. In a striped one, positions at most Qw apart on the
circle hold everything between them: with E = 5 and Qw = 3 two of the five are enough. Positions
under suspicion are asked last.

Pure: positions in, positions out.
"""

from __future__ import annotations

from collections.abc import Collection

from quire.entry import EntryId
from quire.ledger.quorum import Replication


def cover(replication: Replication, turn: int, suspects: Collection[int]) -> list[int]:
    """Return a few positions that together hold every entry of a fragment.

    `turn` rotates the choice, so that many reads spread over the ensemble. Suspects are in the
    result only where no other position would do.
    """
    size, reach = replication.ensemble, replication.write_quorum
    healthy = [p for p in ((turn + i) % size for i in range(size)) if p not in suspects]
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
) -> list[int]:
    """Return the positions of an entry's write set that were not asked, the likeliest first."""
    rest = [position for position in replication.write_set(entry) if position not in asked]
    return sorted(rest, key=lambda p: (p in suspects, (p - turn) % replication.ensemble))


def covering(replication: Replication, ranked: list[int]) -> list[int]:
    """Return the shortest head of a ranking of all positions that covers every write set."""
    for count in range(1, len(ranked)):
        if replication.is_covered(ranked[:count]):
            return ranked[:count]
    return ranked
