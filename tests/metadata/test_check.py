"""What a comparison of a ledger with its bookies comes to."""

from __future__ import annotations

from quire.entry import DigestKind
from quire.errors import BookieUnavailableError, QuireError
from quire.ledger.inventory import compare
from quire.ledger.metadata import Fragment, LedgerMetadata
from quire.ledger.quorum import Replication
from quire.ledger.ranges import Ranges
from quire.metadata.check import judge

BOOKIES = ("b0", "b1", "b2")
OPEN = LedgerMetadata(7, Replication(3, 3, 2), DigestKind.CRC32C, "k", (Fragment(0, BOOKIES),))
CLOSED = OPEN.closed(4, 50)
GONE = BookieUnavailableError("b2", "down")


def found(metadata: LedgerMetadata, *answers: Ranges | QuireError, other: Ranges = ()) -> object:
    said = dict(zip(BOOKIES, answers, strict=True))
    finding = judge(compare(metadata, {**said, "b9": other}))
    return finding and finding[1:]


def test_a_whole_ledger_is_nothing_to_tell() -> None:
    assert found(CLOSED, [(0, 4)], [(0, 4)], [(0, 4)]) is None
    assert found(OPEN, [(0, 9)], [], []) is None, "its last fragment is not compared"


def test_short_and_lost_entries_are_told() -> None:
    assert found(CLOSED, [(0, 4)], [(0, 2)], [(0, 2)]) == ([], [(3, 4)], None, [])
    assert found(CLOSED, [(0, 2)], [(0, 2)], [(0, 2)]) == ([(3, 4)], [], None, [])


def test_an_entry_that_only_a_silent_bookie_may_have_is_lost_as_far_as_is_known() -> None:
    assert found(CLOSED, [(0, 2)], [(0, 2)], GONE) == ([(3, 4)], [(0, 2)], None, ["b2"])


def test_entries_beyond_the_recorded_end_are_told_whichever_bookie_holds_them() -> None:
    whole: Ranges = [(0, 4)]
    assert found(CLOSED, whole, whole, whole, other=[(3, 6)]) == ([], [], 6, [])
    assert found(CLOSED, whole, [(0, 5)], whole) == ([], [], 5, [])
