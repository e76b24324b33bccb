"""`LedgerInfo`: what applications see of a ledger's record."""

from __future__ import annotations

import pytest

from quire.entry import DigestKind
from quire.errors import InvalidRequestError
from quire.ledger.info import FragmentInfo, info_of
from quire.ledger.metadata import Fragment, LedgerMetadata, LedgerState
from quire.ledger.quorum import Replication

RECORD = LedgerMetadata(
    ledger=7,
    replication=Replication(3, 2, 2),
    digest=DigestKind.HMAC_SHA256,
    key_check="secret check",
    fragments=(Fragment(0, ("a", "b", "c")), Fragment(5, ("a", "d", "c"))),
    custom_metadata={"team": "red"},
    created_ms=1_000,
    token="secret token",
    full_quorum=True,
)


def test_the_facts_are_those_of_the_record() -> None:
    info = info_of(RECORD)
    assert (info.ledger, info.state, info.last_entry, info.length) == (7, "open", None, None)
    assert info.replication == Replication(3, 2, 2)
    assert info.digest is DigestKind.HMAC_SHA256
    assert (info.created_ms, info.full_quorum) == (1_000, True)
    assert info.custom_metadata == {"team": "red"}
    assert info.fragments == (
        FragmentInfo(0, ("a", "b", "c")),
        FragmentInfo(5, ("a", "d", "c")),
    )
    assert not info.is_closed
    closed = info_of(RECORD.closed(9, 100))
    assert (closed.is_closed, closed.last_entry, closed.length) == (True, 9, 100)
    assert closed.state is LedgerState.CLOSED


def test_nothing_inside_is_shown() -> None:
    assert "secret" not in repr(info_of(RECORD))


@pytest.mark.parametrize("entry", [0, 1, 4, 5, 6, 100])
def test_write_sets_are_those_of_the_record(entry: int) -> None:
    assert info_of(RECORD).write_set(entry) == RECORD.write_set(entry)


def test_no_entry_is_below_zero() -> None:
    with pytest.raises(InvalidRequestError, match="ledger 7 has no entry -1: ids start at 0"):
        info_of(RECORD).write_set(-1)
