"""A drain is tried before it begins: what moves where, how much, and what cannot move."""

from __future__ import annotations

import random

from quire.entry import DigestKind
from quire.labels import NOWHERE, Labels
from quire.ledger.domains import Candidate, Placement
from quire.ledger.metadata import Fragment, LedgerMetadata, LedgerState
from quire.ledger.quorum import Replication
from quire.repair.departure import (
    COPY_BYTES_PER_SECOND,
    Departure,
    bytes_of,
    plan_departure,
)

PLACES = {name: Labels(rack=rack) for name, rack in zip("abcdef", "xxyyzz", strict=True)}


def ledger(
    number: int,
    *ensembles: str,
    replication: Replication | None = None,
    length: int = 600,
    is_open: bool = False,
    placement: str = "",
) -> LedgerMetadata:
    """Return a ledger with a fragment every ten entries; bookies have names of one letter."""
    state = LedgerState.OPEN if is_open else LedgerState.CLOSED
    return LedgerMetadata(
        number,
        replication or Replication(len(ensembles[0]), len(ensembles[0]), 2),
        DigestKind.CRC32C,
        "",
        tuple(Fragment(10 * at, tuple(each)) for at, each in enumerate(ensembles)),
        state,
        last_entry=None if is_open else 10 * len(ensembles) - 1,
        length=None if is_open else length,
        placement=Placement.parse(placement),
    )


def departure(
    *ledgers: LedgerMetadata, up: str = "bcdef", room: int = 0, **rooms: int
) -> Departure:
    candidates = [Candidate(each, PLACES[each], rooms.get(each, room)) for each in up]
    return plan_departure(
        random.Random(1), "a", ledgers, candidates, lambda name: PLACES.get(name, NOWHERE)
    )


def test_every_copy_finds_a_place_and_is_counted() -> None:
    found = departure(ledger(1, "abc"), ledger(2, "bac", length=300), ledger(3, "bcd", "bca"))
    assert found.closed == [1, 2, 3]
    assert (found.waiting, found.stuck, found.obstacles) == ([], {}, [])
    assert found.bytes == sum(found.targets.values()) == 600 + 300 + 300
    assert not {"a", "b", "c"}.intersection(found.targets), "each has a copy of every ledger"
    assert found.seconds == max(found.targets.values()) / COPY_BYTES_PER_SECOND


def test_a_member_of_the_ensemble_is_no_target() -> None:
    found = departure(ledger(4, "abc"), ledger(9, "abd"), up="bc")
    assert found.targets == {"c": 600}
    assert list(found.stuck) == [4]
    assert found.obstacles[0].startswith("ledgers 4 cannot move: ")


def test_a_target_without_room_is_none() -> None:
    found = departure(ledger(1, "abc"), ledger(2, "abc"), up="bcd", room=1000)
    assert found.stuck == {2: "no bookie that may take it has room for it"}
    assert found.targets == {"d": 600}
    assert departure(ledger(1, "abc"), ledger(2, "abc"), up="bcd", room=1200).stuck == {}
    other = departure(ledger(1, "abc"), ledger(2, "abc"), up="bcde", room=1000, d=1)
    assert list(other.stuck) == [2]
    assert other.targets == {"e": 600}


def test_the_domain_that_is_missing_is_named() -> None:
    spread = ledger(5, "ace", placement="require=rack:3")
    assert departure(spread).targets == {"b": 600}
    found = departure(spread, up="cdef")
    assert list(found.stuck) == [5]
    assert "rack" in found.obstacles[0]


def test_a_ledger_that_is_written_waits_and_needs_another_bookie_too() -> None:
    found = departure(ledger(6, "abc", is_open=True))
    assert (found.closed, found.waiting, found.bytes, found.stuck) == ([], [6], 0, {})
    assert list(departure(ledger(6, "abc", is_open=True), up="bc").stuck) == [6]
    earlier = ledger(7, "abc", "dbc", is_open=True)
    assert departure(earlier, up="d").stuck == {}, "d is not in the fragment that names a"
    assert list(departure(earlier, up="bc").stuck) == [7]


def test_reasons_name_some_ledgers_and_count_the_others() -> None:
    found = departure(*(ledger(number, "abc") for number in range(8)), up="bc")
    assert len(found.obstacles) == 1
    assert found.obstacles[0].startswith("ledgers 0, 1, 2, 3, 4 and 3 more cannot move: ")


def test_the_bytes_of_a_copy_follow_from_the_fragments_and_the_stripes() -> None:
    whole = ledger(1, "abc", "dbc", length=1000)
    assert (bytes_of(whole, "a"), bytes_of(whole, "b"), bytes_of(whole, "x")) == (500, 1000, 0)
    assert (bytes_of(whole, "b", 0), bytes_of(whole, "b", 10)) == (500, 500)
    striped = ledger(1, "abcd", replication=Replication(4, 2, 2), length=1000)
    assert bytes_of(striped, "a") == 500
    assert bytes_of(ledger(1, "abc", length=0), "a") == 0
    assert bytes_of(ledger(1, "abc", is_open=True), "a") == 0
