"""Ledgers beside the outlines of their bookies: which need a look at the lists of entries.

A list costs a request for each ledger and bookie. An outline (quire/outline.py) is three numbers, a
thousand ledgers a request, and mostly it is enough. A bookie's share of a ledger follows from the
record by counting, not by walking over entries.

Outlines find; they prove nothing to a bookie that is to drop something: that takes lists
(quire/repair/superfluous.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum

from quire.aio.tasks import together
from quire.entry import BookieId, EntryId, LedgerId
from quire.errors import QuireError
from quire.ledger.quorum import Replication
from quire.ledger.quorum_call import within
from quire.ledger.roster import Bookies
from quire.outline import OUTLINES_MAX, Outline, joined

Told = Mapping[LedgerId, Outline | None]
"""The outlines that one bookie told."""


class Verdict(IntEnum):
    """What an outline says about the entries that a bookie must hold."""

    WHOLE = 0
    """All of them are held."""
    LIKELY = 1
    """So many are held as must be, between the same two. It may hold others in their place, as far
    as three numbers tell."""
    UNTOLD = 2
    """Nothing: the bookie cannot say."""
    DIFFERS = 3
    """Some are missing, or more are held: the list tells which."""


def owed(
    replication: Replication,
    firsts: Sequence[EntryId],
    ensembles: Sequence[Sequence[BookieId]],
    last: EntryId,
    bookie: BookieId,
) -> Outline:
    """Return the outline of a bookie's share of a closed ledger. Pure.

    Args:
        replication: the ledger's.
        firsts: the first entry of each fragment.
        ensembles: the bookies of each fragment, by position.
        last: the last entry of the ledger, -1 without any.
        bookie: one that the ledger names.
    """
    ends = [*(first - 1 for first in firsts[1:]), last]
    spans = [
        _owed_at(replication, position, first, end)
        for first, end, ensemble in zip(firsts, ends, ensembles, strict=True)
        for position, name in enumerate(ensemble)
        if name == bookie and first <= end
    ]
    found = joined(each for each in spans if each.entries)
    assert found is not None, "a bookie has one position of a fragment, and fragments are disjoint"
    return found


def _owed_at(replication: Replication, position: int, first: EntryId, last: EntryId) -> Outline:
    """Return the outline of a position's share of a fragment."""
    size, cycle = replication.write_quorum, replication.ensemble
    count = last - first + 1
    if size == cycle:
        return Outline(first, last, count)

    def is_owed(entry: EntryId) -> bool:
        return (position - entry) % cycle < size

    cycles, rest = divmod(count, cycle)
    head = range(first, min(last, first + cycle - 1) + 1)
    tail = range(last, max(first, last - cycle + 1) - 1, -1)
    low, high = next(filter(is_owed, head), None), next(filter(is_owed, tail), None)
    if low is None or high is None:
        return Outline(first, first - 1, 0)
    return Outline(low, high, cycles * size + sum(map(is_owed, head[:rest])))


def judge(owes: Outline, holds: Outline | None) -> Verdict:
    """Compare a bookie's outline with the outline of its share. Pure."""
    if not owes.entries:
        return Verdict.WHOLE
    if holds is None:
        return Verdict.UNTOLD
    if holds.first > owes.first or holds.last < owes.last or holds.entries < owes.entries:
        return Verdict.DIFFERS
    if holds.is_dense:
        return Verdict.WHOLE
    return Verdict.LIKELY if holds == owes else Verdict.DIFFERS


async def outlines_of(
    bookies: Bookies, wanted: Mapping[BookieId, Sequence[LedgerId]], request_timeout: float
) -> dict[BookieId, Told]:
    """Return the outlines that bookies tell of some ledgers each. A bookie that does not answer
    within `request_timeout` seconds, or knows no outlines, tells none.
    """
    found: dict[BookieId, Told] = {}

    async def ask(bookie: BookieId, ledgers: Sequence[LedgerId]) -> None:
        try:
            call = bookies.bookie(bookie).outlines(ledgers)
            told = await within(request_timeout, bookie, call)
        except QuireError:
            return  # not asked again: lists tell as well
        found[bookie] = {**found.get(bookie, {}), **dict(zip(ledgers, told, strict=True))}

    await together(
        *(
            ask(bookie, ledgers[at : at + OUTLINES_MAX])
            for bookie, ledgers in sorted(wanted.items())
            for at in range(0, len(ledgers), OUTLINES_MAX)
        )
    )
    return found
