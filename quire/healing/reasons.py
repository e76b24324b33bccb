"""Why a bookie is asked for a copy. Pure.

A request names the places that the bookie is to take, and the bookies that hold them now. The
reason follows from the present state of those, and of the ledger: no record says it, so no record
can be wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from quire.entry import BookieId
from quire.healing.state import BookieFacts
from quire.labels import NOWHERE
from quire.ledger.metadata import LedgerMetadata
from quire.ledger.spreading import Measure, measure
from quire.metastore.standing import Wish
from quire.repair.assignments import Assignment, adopted


class AskedFor(StrEnum):
    """The reasons, the most urgent first."""

    LOST = "lost"
    """The holder of a place is not registered."""
    DRAIN = "drain"
    """The holder of a place is to leave."""
    HOLES = "holes"
    """The bookie has its places, and lacks entries there."""
    SPREAD = "spread"
    """Every holder is there, and stays: the copy is for more domains."""
    RETURNED = "returned"
    """Every holder is back, and stays: the copies will be superfluous."""


def asked_for(
    assignment: Assignment,
    bookies: Mapping[BookieId, BookieFacts],
    metadata: LedgerMetadata | None = None,
) -> AskedFor:
    """Return the most urgent reason of a request.

    Args:
        assignment: the request.
        bookies: the facts of all bookies. One without facts is not registered.
        metadata: the ledger's record; None if it is not known. A request for the sake of spread is
            only known by it.
    """
    if not assignment.replicas:
        return AskedFor.HOLES
    found = {_of_holder(bookies.get(each.old)) for each in assignment.replicas}
    if found == {AskedFor.RETURNED} and metadata and _widens(assignment, bookies, metadata):
        return AskedFor.SPREAD
    return next(each for each in AskedFor if each in found)


def _widens(
    assignment: Assignment, bookies: Mapping[BookieId, BookieFacts], metadata: LedgerMetadata
) -> bool:
    """Whether the copies raise the measure of a fragment."""

    def places(value: LedgerMetadata) -> list[Measure]:
        where = [
            [bookies[each].labels if each in bookies else NOWHERE for each in fragment.bookies]
            for fragment in value.fragments
        ]
        return [measure(metadata.replication, metadata.placement, each) for each in where]

    pairs = zip(places(metadata), places(adopted(metadata, assignment.replicas)), strict=True)
    return any(after > before for before, after in pairs)


def _of_holder(facts: BookieFacts | None) -> AskedFor:
    if facts is None or facts.registered is None or facts.standing.wish is Wish.GONE:
        return AskedFor.LOST
    return AskedFor.DRAIN if facts.standing.wish is Wish.DRAIN else AskedFor.RETURNED
