"""Why a bookie is asked for a copy. Pure.

A request names the places that the bookie is to take, and the bookies that hold them now. The
reason follows from the present state of those: no record says it, so no record can be wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from quire.entry import BookieId
from quire.healing.state import BookieFacts
from quire.metastore.standing import Wish
from quire.repair.assignments import Assignment


class AskedFor(StrEnum):
    """The reasons, the most urgent first."""

    LOST = "lost"
    """The holder of a place is not registered."""
    DRAIN = "drain"
    """The holder of a place is to leave."""
    HOLES = "holes"
    """The bookie has its places, and lacks entries there."""
    RETURNED = "returned"
    """Every holder is back, and stays: the copies will be superfluous."""


def asked_for(assignment: Assignment, bookies: Mapping[BookieId, BookieFacts]) -> AskedFor:
    """Return the most urgent reason of a request.

    Args:
        assignment: the request.
        bookies: the facts of all bookies. One without facts is not registered.
    """
    if not assignment.replicas:
        return AskedFor.HOLES
    found = {_of_holder(bookies.get(each.old)) for each in assignment.replicas}
    return next(each for each in AskedFor if each in found)


def _of_holder(facts: BookieFacts | None) -> AskedFor:
    if facts is None or facts.registered is None or facts.standing.wish is Wish.GONE:
        return AskedFor.LOST
    return AskedFor.DRAIN if facts.standing.wish is Wish.DRAIN else AskedFor.RETURNED
