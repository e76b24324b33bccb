"""Pieces of a log of another system: consecutive entries of one ledger. Pure.

A topic of Pulsar, or a log of DistributedLog, is a list of ledgers, or several lists if it has
partitions. A piece is listed in one process, and can be read in another.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from quire.entry import EntryId, LedgerId
from quire.errors import QuireError


class EntryPlace(NamedTuple):
    """A place in a list of ledgers: before an entry. Places of one list have its order."""

    number: int
    """Orders the ledgers of a list: `LedgerPiece.number`."""
    entry: EntryId


@dataclass(frozen=True, slots=True)
class LedgerPiece:
    """The entries `first` … `last` of a ledger; `last` is `first` − 1 for none."""

    log: str
    part: int
    """The number of the partition; −1 for a log without partitions."""
    number: int
    """Orders the ledgers of a part: the ledger's id for a topic, the segment's number for a log."""
    ledger: LedgerId
    first: EntryId
    last: EntryId
    size: int | None
    """The payload of the entries in bytes, estimated; None while the ledger is open."""
    is_newest: bool
    """Whether it may be open: all ledgers before the newest one are closed."""
    since: int
    """The number of the first ledger that the reader expects to be there still."""
    is_offloaded: bool = False
    """Whether the only copy is in long-term storage: to read it is an error."""
    kept: object = None
    """A value that can be pickled, which its system needs to read it."""

    @property
    def entries(self) -> int:
        """How many entries there are."""
        return self.last - self.first + 1

    @property
    def records(self) -> int:
        """An entry counts as one record: how many it holds is not known before it is read."""
        return self.entries

    @property
    def begin(self) -> EntryPlace:
        """The place before the first entry."""
        return EntryPlace(self.number, self.first)

    @property
    def end(self) -> EntryPlace:
        """The place after the last entry."""
        return EntryPlace(self.number, self.last + 1)

    def narrow(self, first: EntryId, last: EntryId) -> LedgerPiece:
        """Return the piece with other ends, as if all its entries were equal."""
        size = self.size
        if size is not None and self.entries:
            size = size * max(0, last - first + 1) // self.entries
        return replace(self, first=first, last=last, size=size)

    def split_into(self, pieces: int) -> list[LedgerPiece]:
        """Return the piece cut into so many, of about the same number of entries, in order."""
        cuts = [self.first + self.entries * piece // pieces for piece in range(pieces + 1)]
        return [self.narrow(first, end - 1) for first, end in pairwise(cuts)]


@contextmanager
def naming(subject: str) -> Iterator[None]:
    """Let the errors in the block name a log, such as `topic persistent://…`."""
    try:
        yield
    except QuireError as error:
        text = str(error)
        if subject.partition(" ")[2] not in text:
            error.args = (f"{subject}: {text}",)
        raise


def within(piece: LedgerPiece, begin: EntryPlace, end: EntryPlace | None) -> LedgerPiece:
    """Return the part of a piece between two places, which may have no entries."""
    first, last = piece.first, piece.last
    if piece.number < begin.number:
        first = last + 1
    elif piece.number == begin.number:
        first = max(first, begin.entry)
    if end is not None and piece.number >= end.number:
        last = min(last, end.entry - 1) if piece.number == end.number else first - 1
    return piece.narrow(first, max(last, first - 1))
