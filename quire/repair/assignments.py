"""Assignments: the copies that a bookie is asked to make, as one record of that bookie.

    /quire/moves/<bookie>        kind `moves`, version 1

An assignment names a closed ledger. With replicas, the bookie takes the place of another bookie in
some fragments. Without, it holds its places already, and lacks entries there. The bookie pulls: it
fetches the entries, and only when it has all of them does it change the ledger's record. So every
step may be cut short and done again, two bookies may be asked for one place, and no process outside
a bookie writes an entry.

Rules H1 to H3 of docs/protocol.md hold for it.

Pure. Not here: the store (orders.py), which places to give to which bookie (plan.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from quire.entry import BookieId, LedgerId
from quire.errors import CorruptRecordError, InvalidRequestError
from quire.fields import NOTHING, Unknown, joined_row, split_row
from quire.labels import Labels
from quire.ledger.metadata import Fragment, LedgerMetadata, Replica
from quire.metastore.layout import check_bookie
from quire.metastore.record import RecordFormat

FORMAT: Final = RecordFormat("moves", frozenset({"bookie", "assignments"}))

ASSIGNMENTS_MAX: Final = 64
"""Open assignments of one bookie. Others wait until it is done with some."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """The copies of one ledger that a bookie is to make. Without replicas: what it lacks."""

    ledger: LedgerId
    replicas: tuple[Replica, ...] = ()
    unknown: Unknown = field(default=NOTHING, compare=False)

    def __post_init__(self) -> None:
        if self.ledger < 0 or any(each.first < 0 or each.position < 0 for each in self.replicas):
            raise InvalidRequestError(f"assignment for ledger {self.ledger} has negative numbers")
        if len({each.new for each in self.replicas}) > 1:
            raise InvalidRequestError(f"assignment for ledger {self.ledger} names two new bookies")

    def joined(self, other: Assignment) -> Assignment:
        """Return one assignment for the places of two, of the same ledger and bookie."""
        more = tuple(each for each in other.replicas if each not in self.replicas)
        return replace(self, replicas=(*self.replicas, *more)) if more else self

    def row(self) -> list[Any]:
        """The assignment as the record holds it."""
        places = [[each.first, each.position, each.old, str(each.labels)] for each in self.replicas]
        return joined_row([self.ledger, places], self.unknown)


@dataclass(frozen=True, slots=True)
class Assignments:
    """The open assignments of one bookie, at most one a ledger, in the order they were made."""

    bookie: BookieId
    open: tuple[Assignment, ...] = ()
    unknown: Unknown = NOTHING

    def of(self, ledger: LedgerId) -> Assignment | None:
        """Return a ledger's assignment."""
        return next((each for each in self.open if each.ledger == ledger), None)

    @property
    def room(self) -> int:
        """How many more it takes."""
        return max(0, ASSIGNMENTS_MAX - len(self.open))

    def with_more(self, more: Iterable[Assignment]) -> Assignments:
        """Return the value with further assignments, as far as there is room. A ledger that has
        one keeps it, with the places of both.
        """
        by_ledger = {each.ledger: each for each in self.open}
        for each in more:
            if each.ledger in by_ledger:
                by_ledger[each.ledger] = by_ledger[each.ledger].joined(each)
            elif len(by_ledger) < ASSIGNMENTS_MAX:
                by_ledger[each.ledger] = each
        return replace(self, open=tuple(by_ledger.values()))

    def without(self, done: Assignment) -> Assignments:
        """Return the value without one assignment. Another for the same ledger stays."""
        return replace(self, open=tuple(each for each in self.open if each != done))

    def encode(self) -> bytes:
        """Return the record's bytes; equal values have equal bytes."""
        rows = [each.row() for each in self.open]
        return FORMAT.encode({"bookie": self.bookie, "assignments": rows}, self.unknown)

    @classmethod
    def decode(cls, path: str, data: bytes) -> Assignments:
        """Return the value of a record read at `path`. Raises `CorruptRecordError`."""
        _, body, unknown = FORMAT.decode(path, data)
        try:
            bookie = check_bookie(body["bookie"])
            found = tuple(_assignment(bookie, row) for row in body["assignments"])
        except (KeyError, TypeError, ValueError, InvalidRequestError) as error:
            raise CorruptRecordError(path, f"{type(error).__name__}: {error}") from error
        return cls(bookie, found, unknown)


def held_places(metadata: LedgerMetadata, replicas: Sequence[Replica]) -> int:
    """Return how many of some places a ledger's record gives to their new bookies."""
    where = {fragment.first: fragment.bookies for fragment in metadata.fragments}
    return sum(
        each.new in where.get(each.first, ())[each.position : each.position + 1]
        for each in replicas
    )


def _assignment(bookie: BookieId, row: Any) -> Assignment:
    (ledger, places), unknown = split_row(row)
    replicas = [
        Replica(_number(first), _number(position), check_bookie(old), bookie, Labels.parse(labels))
        for first, position, old, labels in places
    ]
    return Assignment(_number(ledger), tuple(replicas), unknown)


def _number(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is not an integer")
    return value


def adopted(
    metadata: LedgerMetadata,
    replicas: Sequence[Replica],
    whole: Collection[BookieId] | None = None,
) -> LedgerMetadata:
    """Return a closed ledger's metadata with the places given away that may be (H2 and
    H3 of docs/protocol.md).

    An open ledger stays as it is: its writer, or a recovery, still decides its last fragment.
    A place stays where it is if its write sets would else lose a domain that acks count: two
    processes that ask for places of one ledger each know nothing of the other's. `whole` are the
    bookies that are known to hold all entries of their places. None counts every bookie as whole.
    """
    if not metadata.is_closed:
        return metadata
    value = metadata
    for each in replicas:
        fragment = next((it for it in value.fragments if it.first == each.first), None)
        if fragment is None or each.position >= len(fragment.bookies):
            continue
        if fragment.bookies[each.position] == each.old and each.new not in fragment.bookies:
            known = fragment.bookies if whole is None else whole
            if _keeps_domains(metadata, fragment, each, known):
                value = value.with_replica(each.first, each.position, each.new, each.labels)
    return value


def _keeps_domains(
    metadata: LedgerMetadata, fragment: Fragment, move: Replica, whole: Collection[BookieId]
) -> bool:
    """Tell whether no copies of an entry fall below the domains that acks need, or farther below,
    when a place moves. The bookies that are not known to be whole may have any entry, or lack it.
    A bookie without a label may be anywhere: it is in no domain.
    """
    if metadata.placement.durable is None:
        return True
    level, needed = metadata.placement.durable
    domains = [each.domain(level) if each.names(level) else None for each in fragment.labels]
    old = domains[move.position]
    new = move.labels.domain(level) if move.labels.names(level) else None
    if old is None or old == new:
        return True
    for start in range(metadata.replication.ensemble):
        write_set = metadata.replication.write_set(start)
        if move.position not in write_set:
            continue
        others = {at: domains[at] for at in write_set if at != move.position and domains[at]}
        kept = {domain for at, domain in others.items() if fragment.bookies[at] in whole}
        is_more = new is not None and new not in others.values()
        if old not in kept and not is_more and len(kept.union([new] if new else ())) < needed:
            return False
    return True
