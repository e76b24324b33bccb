"""Assignments as values: bounded, kept through a rewrite, and applied only where they still fit."""

from __future__ import annotations

import itertools
import random

import pytest

from quire.entry import DigestKind
from quire.errors import CorruptRecordError, InvalidRequestError
from quire.labels import Labels
from quire.ledger.domains import Placement, Spread
from quire.ledger.metadata import Fragment, LedgerMetadata, LedgerState, Replica
from quire.ledger.quorum import Replication
from quire.metastore.layout import moves_path
from quire.metastore.record import encode_record
from quire.repair.assignments import ASSIGNMENTS_MAX, Assignment, Assignments, adopted

PATH = moves_path("new")
MOVE = Assignment(7, (Replica(0, 1, "b", "new"), Replica(20, 2, "d", "new")))


def ledger(state: LedgerState = LedgerState.CLOSED) -> LedgerMetadata:
    fragments = (Fragment(0, ("a", "b", "c")), Fragment(20, ("a", "c", "d")))
    end = (39, 100) if state is LedgerState.CLOSED else (None, None)
    return LedgerMetadata(*(7, Replication(3, 2, 2), DigestKind.CRC32C, "", fragments, state, *end))


def test_a_record_comes_back_with_the_fields_of_a_later_program() -> None:
    value = Assignments("new", (MOVE, Assignment(8)))
    assert Assignments.decode(PATH, value.encode()) == value
    later = encode_record(
        "moves", 1, {"bookie": "new", "assignments": [MOVE.row()], "later": {"a": 1}}
    )
    kept = Assignments.decode(PATH, later).with_more([Assignment(9)])
    assert b'"later":{"a":1}' in kept.encode()


@pytest.mark.parametrize(
    "rows",
    [
        [[7]],
        [[7, [[0, 1]]]],
        [["7", []]],
        [[True, []]],
        [[-1, []]],
        [[7, [[0, -1, "b", ""]]]],
        [[7, [[0, 1, "b", "zone"]]]],
        7,
    ],
)
def test_other_rows_are_damage(rows: object) -> None:
    data = encode_record("moves", 1, {"bookie": "new", "assignments": rows})
    with pytest.raises(CorruptRecordError, match=PATH):
        Assignments.decode(PATH, data)


def test_an_assignment_is_for_one_bookie() -> None:
    with pytest.raises(InvalidRequestError, match="two new bookies"):
        Assignment(7, (Replica(0, 0, "a", "x"), Replica(0, 1, "b", "y")))


def test_a_ledger_has_one_assignment_and_a_bookie_so_many() -> None:
    value = Assignments("new").with_more([MOVE, Assignment(7), Assignment(8)])
    assert value.open == (MOVE, Assignment(8))
    full = value.with_more(Assignment(ledger) for ledger in range(100, 300))
    assert len(full.open) == ASSIGNMENTS_MAX
    assert full.room == 0
    assert full.of(7) == MOVE
    assert full.of(6) is None


def test_an_assignment_gets_the_places_of_a_later_one() -> None:
    later = Assignment(7, (Replica(20, 0, "c", "new"), *MOVE.replicas))
    (joined,) = Assignments("new", (MOVE,)).with_more([later]).open
    assert joined.replicas == (*MOVE.replicas, Replica(20, 0, "c", "new"))
    assert Assignments("new", (joined,)).without(MOVE).open == (joined,)


def test_another_assignment_for_the_ledger_stays() -> None:
    value = Assignments("new", (MOVE,))
    assert value.without(Assignment(7)) == value
    assert value.without(MOVE).open == ()


def test_places_of_a_closed_ledger_change_hands() -> None:
    changed = adopted(ledger(), MOVE.replicas)
    assert [each.bookies for each in changed.fragments] == [("a", "new", "c"), ("a", "c", "new")]
    assert adopted(changed, MOVE.replicas) == changed, "again changes nothing"


@pytest.mark.parametrize("state", [LedgerState.OPEN, LedgerState.IN_RECOVERY])
def test_an_open_ledger_stays_as_it_is(state: LedgerState) -> None:
    assert adopted(ledger(state), MOVE.replicas) == ledger(state)


@pytest.mark.parametrize(
    "replica",
    [
        Replica(0, 1, "c", "new"),
        Replica(5, 1, "b", "new"),
        Replica(0, 3, "b", "new"),
        Replica(0, 1, "b", "c"),
    ],
    ids=["another has the place", "no such fragment", "no such place", "twice in a fragment"],
)
def test_what_does_not_fit_is_left(replica: Replica) -> None:
    assert adopted(ledger(), [replica]) == ledger()


def zoned(*zones: str) -> LedgerMetadata:
    """A ledger with acks in two zones, and where its three bookies are."""
    fragment = Fragment(0, ("a", "b", "c"), tuple(map(zone, zones)))
    return LedgerMetadata(
        *(7, Replication(3, 3, 2), DigestKind.CRC32C, "", (fragment,), LedgerState.CLOSED, 39, 100),
        placement=Placement(durable=Spread("zone", 2)),
    )


def zone(name: str) -> Labels:
    return Labels(zone=name)


def test_moves_that_were_planned_apart_leave_the_domains_that_acks_count() -> None:
    """Three auditors at once: the move of each keeps two zones, and all together would not."""
    before = value = zoned("z1", "z2", "z2")
    moves = [Replica(0, at, "abc"[at], "pqr"[at], zone("z3")) for at in range(3)]
    assert all(adopted(before, [each]) != before for each in moves)
    for each in moves:
        value = adopted(value, [each])
    assert value.last_fragment.bookies == ("p", "q", "c")


@pytest.mark.parametrize(
    ("zones", "new", "fits"),
    [
        (("z1", "z2", "z2"), "z2", False),
        (("z1", "z2", "z2"), "", False),
        (("z1", "z2", "z2"), "z3", True),
        (("z2", "z2", "z2"), "z2", True),
        (("", "z2", "z2"), "", True),
        (("z3", "z1", "z2"), "z1", True),
    ],
    ids=["one zone", "no label", "another zone", "was no better", "had no label", "two are left"],
)
def test_a_place_keeps_as_many_domains_as_acks_count(
    zones: tuple[str, ...], new: str, fits: bool
) -> None:
    before = zoned(*zones)
    after = adopted(before, [Replica(0, 0, "a", "new", zone(new))])
    assert (after != before) is fits


@pytest.mark.parametrize(
    ("zones", "new", "whole", "fits"),
    [
        (("z0", "z0", "z1"), "z1", "bc", True),
        (("z0", "z0", "z1"), "z1", "c", False),
        (("z0", "z0", "z1"), "z0", "", True),
        (("z0", "z0", "z1"), "z2", "", True),
        (("z0", "z0", "z1"), "", "bc", True),
        (("z0", "z0", "z1"), "", "c", False),
        (("z0", "z1", "z2"), "z2", "bc", True),
        (("z0", "z1", "z2"), "z2", "b", True),
        (("z0", "z1", "z2"), "z2", "c", False),
        (("", "z0", "z1"), "z1", "", True),
    ],
)
def test_a_bookie_that_may_lack_entries_counts_for_no_domain(
    zones: tuple[str, ...], new: str, whole: str, fits: bool
) -> None:
    before = zoned(*zones)
    move = Replica(0, 0, "a", "new", zone(new))
    assert (adopted(before, [move], whole) != before) is fits


def test_a_place_that_may_move_lowers_the_domains_of_no_possible_copies() -> None:
    """Every set of holders with the bookie that leaves, and all who are known to be whole."""
    names, places = ("a", "b", "c", "d"), ("", "z0", "z1", "z2")
    for zones, new, needed in itertools.product(
        itertools.product(places, repeat=4), places, (2, 3)
    ):
        before = LedgerMetadata(
            *(7, Replication(4, 4, 2), DigestKind.CRC32C, ""),
            *((Fragment(0, names, tuple(map(zone, zones))),), LedgerState.CLOSED, 39, 100),
            placement=Placement(durable=Spread("zone", needed)),
        )
        move = Replica(0, 0, "a", "new", zone(new))
        for whole in ("", "b", "cd", "bcd"):
            lowers = False
            for more in itertools.product((False, True), repeat=3):
                held = {at for at in (1, 2, 3) if names[at] in whole or more[at - 1]}
                kept = {zones[at] for at in held} - {""}
                had, has = len(kept | {zones[0]} - {""}), len(kept | {new} - {""})
                lowers |= has < min(had, needed)
            assert (adopted(before, [move], whole) == before) is lowers, (zones, new, whole)


def test_any_order_of_any_moves_leaves_every_fragment_with_different_bookies() -> None:
    """H2 and H3, for every two moves out of a random set, by two bookies at once."""
    rng = random.Random(1)
    names = ["a", "b", "c", "d", "x", "y"]
    for _ in range(200):
        moves = [
            Replica(rng.choice([0, 20]), rng.randrange(3), rng.choice(names), rng.choice(names))
            for _ in range(4)
        ]
        for order in itertools.permutations(moves):
            value = ledger()
            for move in order:
                before, value = value, adopted(value, [move])
                if value != before:
                    index = [each.first for each in before.fragments].index(move.first)
                    assert before.fragments[index].bookies[move.position] == move.old
            assert all(len(set(each.bookies)) == 3 for each in value.fragments)
