"""What metadata says a bookie must hold, and what it may have had."""

from __future__ import annotations

import pytest

from quire.entry import NO_ENTRY, DigestKind
from quire.ledger.metadata import Fragment, LedgerMetadata, LedgerState
from quire.ledger.quorum import Replication
from quire.repair.census import may_have
from quire.repair.holdings import owed_by


def ledger(
    shape: tuple[int, int, int] = (3, 3, 2),
    state: LedgerState = LedgerState.OPEN,
    last: int | None = None,
    *,
    full_quorum: bool = False,
    later: str = "abcdefg",
) -> LedgerMetadata:
    """A ledger with two fragments: of `a b c …`, and from entry 10 on of `later`."""
    size = shape[0]
    return LedgerMetadata(
        7,
        Replication(*shape),
        DigestKind.CRC32C,
        "0" * 64,
        (Fragment(0, tuple("abcdefg"[:size])), Fragment(10, tuple(later[:size]))),
        state,
        last,
        None if last is None else 0,
        full_quorum=full_quorum,
    )


@pytest.mark.parametrize("shape", [(3, 3, 2), (4, 2, 2), (5, 3, 2), (2, 2, 1)])
@pytest.mark.parametrize("bookie", ["a", "b", "x"])
def test_of_a_closed_ledger_it_is_every_entry_of_its_write_sets(
    shape: tuple[int, int, int], bookie: str
) -> None:
    metadata = ledger(shape, LedgerState.CLOSED, 25, later="axcdefg")
    owed = owed_by(metadata, bookie)
    expected = [entry for entry in range(26) if bookie in metadata.write_set(entry)]
    assert owed.is_final
    assert owed.settled_to >= max(expected, default=NO_ENTRY)
    assert list(owed.missing([], 0, 99)) == expected
    assert list(owed.missing([(0, 3), (8, 12), (20, 99)], 0, 99)) == [
        entry for entry in expected if not (entry <= 3 or 8 <= entry <= 12 or entry >= 20)
    ]
    assert list(owed.missing([(8, 12)], 5, 12)) == [each for each in expected if 5 <= each <= 7]
    assert list(owed.missing([(5, 8)], 5, 12)) == [each for each in expected if 9 <= each <= 12]
    assert list(owed.missing([(0, 25)], 0, 99)) == []


def test_of_an_open_ledger_it_is_what_is_finished() -> None:
    for state in (LedgerState.OPEN, LedgerState.IN_RECOVERY):
        owed = owed_by(ledger(state=state), "a")
        assert not owed.is_final
        assert owed.settled_to == 9
        assert list(owed.missing([], 0, 9)) == list(range(10))


def test_an_empty_end_owes_nothing_more() -> None:
    owed = owed_by(ledger(state=LedgerState.CLOSED, last=9), "a")
    assert list(owed.missing([], 0, 99)) == list(range(10))
    empty = LedgerMetadata(
        *(7, Replication(1, 1, 1), DigestKind.CRC32C, "", (Fragment(0, ("a",)),)),
        *(LedgerState.CLOSED, NO_ENTRY, 0),
    )
    assert list(owed_by(empty, "a").missing([], 0, 99)) == []


def test_who_may_have_something() -> None:
    assert may_have(ledger(), "a")
    assert may_have(ledger(later="axc"), "x")
    assert not may_have(ledger(), "x")
    assert not may_have(ledger(state=LedgerState.CLOSED, last=9), "x")
    assert may_have(ledger(state=LedgerState.IN_RECOVERY), "x")
    assert may_have(ledger(full_quorum=True), "x")
