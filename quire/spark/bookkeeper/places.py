"""How far a streaming query has come: by log and part a place, as Spark checkpoints it.

    {"persistent://public/default/orders":
        {"0": {"first": [4711, 0], "next": [4716, 12], "ledger": 4716}}, …}

A place is the number of a ledger and an entry in it. `next` is the place of the next entry, `first`
where the query began in this part. `ledger` is the ledger of `next`: a log of DistributedLog that
was recreated has segments of the same numbers with other ledgers.

Confirmed entries stay, so a batch that is planned again after a crash is the same batch. A query
that has read a closed ledger stands before the next one, if there is one: the old ledger may be
deleted then.

`sure` is as in `quire/spark/progress.py`. Pure: no clock and no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, TypeAlias

from quire.bookkeeper.pieces import EntryPlace, LedgerPiece
from quire.entry import LedgerId
from quire.spark.progress import foreign_checkpoint

Strand: TypeAlias = tuple[str, int]
"""A part of a log: the log's full name, and the number of the part."""


@dataclass(frozen=True, slots=True)
class Stand:
    """Where a query is in one part."""

    first: EntryPlace
    next: EntryPlace
    sure: bool = True
    """Whether `first` is known to be where the query began."""
    ledger: LedgerId | None = None
    """The ledger of `next`, None where it is not known."""

    def at(self, place: EntryPlace, ledger: LedgerId | None) -> Stand:
        """The stand at another place, told by a reader that knows this one."""
        return replace(self, next=place, sure=True, ledger=ledger)


Stands: TypeAlias = dict[Strand, Stand]


def to_json(stands: Stands) -> dict[str, Any]:
    """Return the stands as Spark stores them."""
    found: dict[str, Any] = {}
    for (log, part), stand in sorted(stands.items()):
        told: dict[str, Any] = {"first": list(stand.first), "next": list(stand.next)}
        if stand.ledger is not None:
            told["ledger"] = stand.ledger
        found.setdefault(log, {})[str(part)] = told if stand.sure else told | {"sure": False}
    return found


def from_json(told: Mapping[str, Any]) -> Stands:
    """Return the stands that Spark stored.

    Raises `ConfigurationError` for places of another source.
    """
    try:
        return {
            (log, int(part)): _stand(stand)
            for log, parts in told.items()
            for part, stand in parts.items()
        }
    except (AttributeError, KeyError, TypeError, ValueError):
        raise foreign_checkpoint(told, "bookkeeper") from None


def _stand(told: Mapping[str, Any]) -> Stand:
    return Stand(
        EntryPlace(*told["first"]),
        EntryPlace(*told["next"]),
        told.get("sure", True),
        told.get("ledger"),
    )


def start_of(start: Stands, strand: Strand, end: Stand) -> EntryPlace:
    """Return where a batch that ends at `end` begins, also in a part that is new to the query.

    Spark does not write down where its first batch begins: after a crash it asks again, and the
    answer may differ by then. Spark does write down the end, which holds the beginning.
    """
    begun = start.get(strand)
    if begun is not None and (begun.first == end.first or not end.sure):
        return begun.next
    return end.first


def reached(start: Stands, end: Stands) -> Stands:
    """Return where a query is after a batch: at its end, and never before its beginning.

    In a part that the end does not name, the query is where it was, and begins there: Spark has
    written down nothing of that part.
    """
    found = {strand: replace(stand, first=stand.next, sure=True) for strand, stand in start.items()}
    for strand, stand in end.items():
        begin = start_of(start, strand, stand)
        found[strand] = stand if begin <= stand.next else Stand(begin, begin)
    return found


def ledger_of(pieces: Sequence[LedgerPiece], place: EntryPlace) -> LedgerId | None:
    """Return the ledger of a place, None if no piece has it."""
    return next((piece.ledger for piece in pieces if piece.number == place.number), None)


def by_strand(pieces: Sequence[LedgerPiece]) -> dict[Strand, list[LedgerPiece]]:
    """Return the pieces of each part. Those of a part are neighbours."""
    return {
        strand: list(group)
        for strand, group in groupby(pieces, key=lambda piece: (piece.log, piece.part))
    }


def admit(
    found: Mapping[Strand, Sequence[LedgerPiece]], entries_max: int | None
) -> dict[Strand, EntryPlace]:
    """Return where a batch ends that has at most so many entries, shared fairly between the parts.

    Args:
        found: by part, the pieces that the query has not read, at least one.
        entries_max: the limit; None for all.

    Returns:
        By part, the place of the first entry after the batch.
    """
    available = {strand: sum(piece.entries for piece in pieces) for strand, pieces in found.items()}
    granted = available
    if entries_max is not None and sum(available.values()) > entries_max:
        granted, left = {}, entries_max
        waiting = sorted(available, key=lambda strand: (available[strand], strand))
        for index, strand in enumerate(waiting):
            granted[strand] = min(available[strand], -(-left // (len(waiting) - index)))
            left -= granted[strand]
    return {strand: _after(pieces, granted[strand]) for strand, pieces in found.items()}


def _after(pieces: Sequence[LedgerPiece], entries: int) -> EntryPlace:
    """Return the place after so many entries of some pieces."""
    for piece in pieces[:-1]:
        if entries < piece.entries:
            return EntryPlace(piece.number, piece.first + entries)
        entries -= piece.entries
    return EntryPlace(pieces[-1].number, pieces[-1].first + entries)
