"""Ranges of entry ids: entries that an ensemble position must hold, and missing ones. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from quire.entry import EntryId
from quire.ledger.metadata import LedgerMetadata

Ranges: TypeAlias = Sequence[tuple[EntryId, EntryId]]
"""Ids as ascending, disjoint, inclusive (first, last) ranges."""


def owed_at(
    metadata: LedgerMetadata, position: int, first: EntryId, last: EntryId
) -> Iterator[tuple[EntryId, EntryId]]:
    """Yield the ranges of first..last that a position of an ensemble must hold."""
    replication = metadata.replication
    if not replication.is_striped:
        if first <= last:
            yield first, last
        return
    # Entry e is written to the positions e .. e + Qw − 1 modulo E: a range of Qw in every cycle.
    size, cycle = replication.write_quorum, replication.ensemble
    start = first - (first - position + size - 1) % cycle
    for low in range(start, last + 1, cycle):
        if max(low, first) <= min(low + size - 1, last):
            yield max(low, first), min(low + size - 1, last)


def without(
    ranges: Iterable[tuple[EntryId, EntryId]], held: Ranges
) -> Iterator[tuple[EntryId, EntryId]]:
    """Yield what of ascending ranges is in none of those held."""
    index = 0
    for first, last in ranges:
        while index < len(held) and held[index][1] < first:
            index += 1
        at, look = first, index
        while look < len(held) and held[look][0] <= last:
            if at < held[look][0]:
                yield at, held[look][0] - 1
            at = held[look][1] + 1
            look += 1
        if at <= last:
            yield at, last
