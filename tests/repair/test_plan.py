"""Plans: lost places go to bookies that may take them, and nothing is planned twice."""

from __future__ import annotations

import random

from quire.entry import DigestKind
from quire.errors import BookieUnavailableError, QuireError
from quire.labels import NOWHERE, Labels
from quire.ledger.domains import Candidate
from quire.ledger.inventory import compare
from quire.ledger.metadata import Fragment, LedgerMetadata, LedgerState, Replica
from quire.ledger.quorum import Replication
from quire.ledger.ranges import Ranges
from quire.repair.assignments import Assignment, adopted
from quire.repair.plan import Plan, plan_holes, plan_places

CLOSED = LedgerState.CLOSED


def ledger(
    *ensembles: str, state: LedgerState = CLOSED, replication: Replication | None = None
) -> LedgerMetadata:
    """Return ledger 7 with a fragment every ten entries; bookies have names of one letter."""
    fragments = tuple(Fragment(10 * at, tuple(each)) for at, each in enumerate(ensembles))
    end = (10 * len(ensembles) - 1, 100) if state is CLOSED else (None, None)
    replication = replication or Replication(len(ensembles[0]), len(ensembles[0]), 2)
    return LedgerMetadata(7, replication, DigestKind.CRC32C, "", fragments, state, *end)


def nowhere(bookie: str) -> Labels:
    return NOWHERE


def planned(
    metadata: LedgerMetadata, lost: str, up: str, assigned: tuple[Replica, ...] = (), seed: int = 0
) -> Plan:
    plan, candidates = Plan(), [Candidate(each, NOWHERE) for each in up]
    plan_places(plan, random.Random(seed), metadata, lost, candidates, nowhere, assigned)
    return plan


def carried_out(metadata: LedgerMetadata, plan: Plan) -> LedgerMetadata:
    for assignments in plan.wanted.values():
        for each in assignments:
            metadata = adopted(metadata, each.replicas)
    return metadata


def test_afterwards_no_fragment_names_a_lost_bookie() -> None:
    for seed in range(50):
        metadata = ledger("abc", "abd", "ebd")
        plan = planned(metadata, "b", "acdefg", seed=seed)
        after = carried_out(metadata, plan)
        assert not any("b" in each.bookies for each in after.fragments)
        assert all(len(set(each.bookies)) == 3 for each in after.fragments)
        assert not plan.leaves_something
        kept = [(0, "ac"), (1, "ad"), (2, "ed")]
        assert all(set(names) < set(after.fragments[at].bookies) for at, names in kept)
        assert planned(after, "b", "acdefg").assignments == 0


def test_two_lost_bookies_of_one_fragment() -> None:
    metadata = ledger("abc")
    after = carried_out(metadata, planned(metadata, "ab", "cde"))
    assert set(after.fragments[0].bookies) == set("cde")


def test_with_one_spare_one_of_two_places_is_given_away() -> None:
    plan = planned(ledger("abc"), "ab", "cd")
    assert plan.wanted == {"d": [Assignment(7, (Replica(0, 0, "a", "d"),))]}
    assert plan.unplaced == {7: "no bookie may take every lost place"}


def test_without_a_spare_the_reason_is_told() -> None:
    plan = planned(ledger("abc"), "b", "ac")
    assert plan.assignments == 0
    assert "bookies" in plan.unplaced[7]
    assert plan.leaves_something


def test_open_ledgers_wait_for_their_writer() -> None:
    for state in (LedgerState.OPEN, LedgerState.IN_RECOVERY):
        plan = planned(ledger("abc", state=state), "b", "acd")
        assert plan.open_ledgers == [7]
        assert plan.assignments == 0
        assert planned(ledger("abc", state=state), "x", "abcd").open_ledgers == []


def test_places_that_are_under_way_are_not_given_away_again() -> None:
    metadata = ledger("abc", "abd")
    first = planned(metadata, "b", "acdef")
    under_way = tuple(
        replica
        for assignments in first.wanted.values()
        for each in assignments
        for replica in each.replicas
    )
    again = planned(metadata, "b", "acdef", under_way)
    assert again.assignments == 0
    assert not again.leaves_something
    half = planned(metadata, "b", "acdef", under_way[:1])
    left = [each.replicas for asked in half.wanted.values() for each in asked]
    assert len(left) == 1
    assert {each.first for each in left[0]} == {under_way[-1].first}


def holding(missing_at: str, **answers: Ranges | QuireError) -> Plan:
    plan = Plan()
    plan_holes(plan, compare(ledger("abc"), answers), missing_at)
    return plan


def test_a_bookie_that_lacks_entries_is_asked_to_fetch_them() -> None:
    whole, part = [(0, 9)], [(0, 3), (5, 9)]
    plan = holding("", a=whole, b=part, c=whole)
    assert plan.wanted == {"b": [Assignment(7)]}
    assert not plan.leaves_something
    assert holding("", a=whole, b=whole, c=whole).assignments == 0


def test_silence_is_no_hole() -> None:
    plan = holding("", a=[(0, 9)], b=BookieUnavailableError("b", "away"), c=[(0, 9)])
    assert plan.assignments == 0


def test_a_lost_bookie_is_asked_for_nothing() -> None:
    assert holding("b", a=[(0, 9)], b=[], c=[(0, 9)]).assignments == 0


def test_entries_that_all_bookies_lack_are_named() -> None:
    plan = holding("", a=[(0, 8)], b=[(0, 8)], c=[(0, 8)])
    assert plan.lost == [7]
    assert plan.leaves_something


def test_holes_of_open_ledgers_are_not_decided() -> None:
    plan = Plan()
    metadata = ledger("abc", "abd", state=LedgerState.OPEN)
    plan_holes(plan, compare(metadata, {"a": [], "b": [], "c": [], "d": []}), "")
    assert plan.assignments == 0


def test_a_bookie_is_asked_once_for_one_ledger() -> None:
    """It takes a place in one fragment, and lacks entries of its own in another."""
    move = Replica(0, 0, "a", "d")
    plan = Plan()
    for each in (Assignment(7), Assignment(8), Assignment(7, (move,)), Assignment(7)):
        plan.ask("d", each)
    assert plan.wanted == {"d": [Assignment(7, (move,)), Assignment(8)]}
    assert plan.assignments == 2
