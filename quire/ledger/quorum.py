"""Replication arithmetic: the positions of an entry, and how many answers prove a fact.

An ensemble is E bookies in fixed positions. Entry e is written to Qw of them, its *write set*, the
positions (e + i) mod E for i < Qw, and is confirmed when Qa of them acked it. Recovery needs only
two consequences:

  Q1  Any Qw − Qa + 1 positions of a write set contain one that acked, if the entry was confirmed.
  Q2  A set of positions that holds that many of *every* write set (`is_covered`) therefore
      contains, for every confirmed entry, a bookie that acked it.

Pure: numbers only. Metadata says which bookie sits in each position.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from quire.bookie import Stride
from quire.entry import EntryId
from quire.errors import InvalidReplicationError

ENSEMBLE_MAX: Final = 1024
"""Bookies of an ensemble, and so of a cluster whose ledgers are recovered from every bookie: the
table of write sets has up to E² numbers, here a million."""


@dataclass(frozen=True, slots=True)
class Replication:
    """How many bookies: 1024 ≥ ensemble ≥ write quorum ≥ ack quorum ≥ 1.

    `ensemble` bookies share a fragment, each entry is stored on `write_quorum` of them, and
    is confirmed when `ack_quorum` of those hold it durably. A confirmed entry survives the loss of
    ack_quorum − 1 bookies; the writer goes on without write_quorum − ack_quorum of them.

    Raises `InvalidReplicationError` for impossible numbers.
    """

    ensemble: int = 3
    write_quorum: int = 3
    ack_quorum: int = 2

    def __post_init__(self) -> None:
        numbers = (self.ensemble, self.write_quorum, self.ack_quorum)
        are_numbers = all(type(each) is int for each in numbers)
        if not are_numbers or not ENSEMBLE_MAX >= numbers[0] >= numbers[1] >= numbers[2] >= 1:
            raise InvalidReplicationError(*numbers, ENSEMBLE_MAX)

    @classmethod
    def parse(cls, text: str) -> Replication:
        """Return what `ensemble/write quorum/ack quorum` says, as `str` writes it.

        Args:
            text: three numbers of bookies, as `3/3/2`.

        Returns:
            The numbers, checked.

        Raises:
            ValueError: the text has another form.
            InvalidReplicationError: the numbers are impossible.
        """
        try:
            ensemble, write_quorum, ack_quorum = map(int, text.split("/"))
        except ValueError:
            raise ValueError("write ensemble/write quorum/ack quorum, as in 3/3/2") from None
        return cls(ensemble, write_quorum, ack_quorum)

    def __str__(self) -> str:
        return f"{self.ensemble}/{self.write_quorum}/{self.ack_quorum}"

    @property
    def coverage(self) -> int:
        """Answers out of one write set that must include a bookie that acked."""
        return self.write_quorum - self.ack_quorum + 1

    @property
    def is_striped(self) -> bool:
        """Whether a bookie gets only some of the entries."""
        return self.ensemble > self.write_quorum

    def write_set(self, entry: EntryId) -> tuple[int, ...]:
        """Return the positions that store an entry, in the order of (entry + i) mod E.

        Args:
            entry: the entry's id.

        Returns:
            `write_quorum` positions, each from 0 to `ensemble` − 1.
        """
        return _write_sets(self.ensemble, self.write_quorum)[entry % self.ensemble]

    def is_written_to(self, entry: EntryId, position: int) -> bool:
        """Return whether a position is in the write set of an entry.

        Args:
            entry: the entry's id.
            position: a position of the ensemble.

        Returns:
            True if the bookie at that position stores the entry.
        """
        return (position - entry) % self.ensemble < self.write_quorum

    def is_covered(self, answered: Collection[int]) -> bool:
        """Return whether every write set has at least `coverage` positions among those answered.

        Args:
            answered: positions of the ensemble.

        Returns:
            True if the answers must include, for every confirmed entry, a bookie that acked it.
        """
        present = [position in answered for position in range(self.ensemble)]
        return all(
            sum(present[position] for position in self.write_set(start)) >= self.coverage
            for start in range(self.ensemble)
        )


@lru_cache(maxsize=64)
def _write_sets(ensemble: int, write_quorum: int) -> tuple[tuple[int, ...], ...]:
    """The E write sets there are, by entry modulo E: a writer asks for one with every entry."""
    return tuple(
        tuple((first + i) % ensemble for i in range(write_quorum)) for first in range(ensemble)
    )


def stride_of(replication: Replication, position: int) -> Stride:
    """Return which entries the bookie at a position should hold."""
    return Stride(replication.ensemble, replication.write_quorum, position)
