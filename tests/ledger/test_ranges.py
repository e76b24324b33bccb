"""Ranges of entry ids."""

from __future__ import annotations

from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from quire.entry import BookieId, DigestKind, EntryId
from quire.ledger.metadata import Fragment, LedgerMetadata
from quire.ledger.quorum import Replication
from quire.ledger.ranges import Ranges, owed_at, without


@st.composite
def ledgers(draw: st.DrawFn) -> LedgerMetadata:
    ensemble = draw(st.integers(1, 5))
    quorum = draw(st.integers(1, ensemble))
    bookies = tuple(BookieId(f"bookie-{number}") for number in range(ensemble))
    return LedgerMetadata(
        ledger=1,
        replication=Replication(ensemble, quorum, quorum),
        digest=DigestKind.CRC32C,
        key_check="k",
        fragments=(Fragment(0, bookies),),
        created_ms=0,
        token="t",
    )


@st.composite
def several(draw: st.DrawFn) -> list[tuple[EntryId, EntryId]]:
    """Ascending, disjoint ranges, some of which meet."""
    found: list[tuple[EntryId, EntryId]] = []
    for gap, more in draw(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 4)), max_size=6)):
        first = found[-1][1] + gap if found else gap - 1
        found.append((first, first + more))
    return found


def entries_of(ranges: Ranges) -> list[EntryId]:
    return list(chain.from_iterable(range(first, last + 1) for first, last in ranges))


@given(ledgers(), st.integers(0, 40), st.integers(-1, 40))
def test_what_a_position_must_hold(metadata: LedgerMetadata, first: int, last: int) -> None:
    replication = metadata.replication
    for position in range(replication.ensemble):
        assert entries_of(list(owed_at(metadata, position, first, last))) == [
            entry for entry in range(first, last + 1) if replication.is_written_to(entry, position)
        ]


@given(several(), several())
def test_what_is_missing(owed: list[tuple[EntryId, EntryId]], held: Ranges) -> None:
    assert entries_of(list(without(owed, held))) == [
        entry for entry in entries_of(owed) if entry not in set(entries_of(held))
    ]
