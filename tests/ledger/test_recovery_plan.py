"""The decisions of recovery against tables and a dumb enumeration of who might have acked."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.entry import NO_ENTRY, DigestKind, Entry
from quire.errors import CorruptRecordError
from quire.ledger.metadata import Fragment, LedgerMetadata, LedgerState
from quire.ledger.quorum import Replication
from quire.ledger.recovery_plan import (
    Answer,
    EntryVerdict,
    Evidence,
    closing_change,
    every_bookie,
    is_older,
    judge,
    last_ensemble,
    start_of_recovery,
)

OK, ABSENT, UNKNOWN = Answer.OK, Answer.ABSENT, Answer.UNKNOWN
RECOVER, END, UNDECIDED, FAIL = (
    EntryVerdict.RECOVER,
    EntryVerdict.END,
    EntryVerdict.UNDECIDED,
    EntryVerdict.FAIL,
)


@st.composite
def replications(draw: st.DrawFn) -> Replication:
    ensemble = draw(st.integers(1, 6))
    write_quorum = draw(st.integers(1, ensemble))
    return Replication(ensemble, write_quorum, draw(st.integers(1, write_quorum)))


@pytest.mark.parametrize(
    ("answers", "verdict"),
    [
        ([None, None, None], UNDECIDED),
        ([OK, None, None], RECOVER),
        ([ABSENT, ABSENT, OK], RECOVER),
        ([UNKNOWN, UNKNOWN, OK], RECOVER),
        ([ABSENT, None, None], UNDECIDED),
        ([ABSENT, ABSENT, None], END),  # at the threshold, not at the last answer (#1067)
        ([ABSENT, UNKNOWN, None], UNDECIDED),
        ([ABSENT, UNKNOWN, UNKNOWN], FAIL),  # errors are never negatives
        ([UNKNOWN, UNKNOWN, UNKNOWN], FAIL),
        ([UNKNOWN, ABSENT, ABSENT], END),
    ],
)
def test_three_bookies_two_acks(answers: list[Answer | None], verdict: EntryVerdict) -> None:
    assert judge(Replication(3, 3, 2), 0, dict(enumerate(answers))) is verdict


def might_be_confirmed(
    replication: Replication, entry: int, answers: dict[int, Answer | None]
) -> bool:
    """Whether some set of Qa bookies may have acked: none of them denied the entry."""
    return any(
        all(answers.get(position) is not ABSENT for position in acked)
        for acked in combinations(replication.write_set(entry), replication.ack_quorum)
    )


@given(replications(), st.integers(0, 20), st.data())
def test_judge_agrees_with_the_enumeration(
    replication: Replication, entry: int, data: st.DataObject
) -> None:
    answer = st.sampled_from([None, OK, ABSENT, UNKNOWN])
    answers = {position: data.draw(answer) for position in range(replication.ensemble)}
    mine = [answers[position] for position in replication.write_set(entry)]
    verdict = judge(replication, entry, answers)
    assert (verdict is RECOVER) == (OK in mine)
    may_be = might_be_confirmed(replication, entry, answers)
    assert (verdict is END) == (OK not in mine and not may_be)
    if verdict is FAIL:
        assert None not in mine


@given(replications(), st.data())
def test_the_start_is_known_exactly_when_no_quorum_of_acks_can_hide(
    replication: Replication, data: st.DataObject
) -> None:
    lac = st.one_of(st.none(), st.integers(NO_ENTRY, 9))
    asked = data.draw(st.sets(st.sampled_from(range(replication.ensemble))))
    tails = {position: data.draw(lac) for position in sorted(asked)}
    proven = {position for position, value in tails.items() if value is not None}
    first = data.draw(st.integers(0, 9))
    hidden = any(
        proven.isdisjoint(acked)
        for entry in range(replication.ensemble)
        for acked in combinations(replication.write_set(entry), replication.ack_quorum)
    )
    start = start_of_recovery(replication, Fragment(first, ()), tails)
    if hidden:
        assert start is None
    else:
        lacs = [value for value in tails.values() if value is not None]
        assert start == max(first - 1, *lacs)


@given(replications(), st.integers(0, 3), st.data())
def test_unknown_ensembles_end_at_the_denials_that_leave_no_quorum(
    replication: Replication, others: int, data: st.DataObject
) -> None:
    """P5: any Qa bookies of the cluster may have been an ack quorum."""
    named = tuple(f"b{number}" for number in range(replication.ensemble))
    cluster = [f"b{number}" for number in range(replication.ensemble + others)]
    metadata = LedgerMetadata(7, replication, DigestKind.CRC32C, "", (Fragment(0, named),))
    panel = every_bookie(metadata, cluster[1:])
    assert sorted(panel.bookies) == sorted(cluster), "the named ones are asked in any case"
    answer = st.sampled_from([None, OK, ABSENT, UNKNOWN])
    answers = {position: data.draw(answer) for position in range(len(cluster))}
    verdict = judge(panel.replication, data.draw(st.integers(0, 9)), answers)
    unacked = [
        acked
        for acked in combinations(range(len(cluster)), replication.ack_quorum)
        if ABSENT not in [answers[position] for position in acked]
    ]
    assert (verdict is RECOVER) == (OK in answers.values())
    assert (verdict is END) == (OK not in answers.values() and not unacked)


def test_a_record_of_an_earlier_incarnation_is_older() -> None:
    fragments = (Fragment(0, ("b2", "b0", "b1")),)
    metadata = LedgerMetadata(7, Replication(), DigestKind.CRC32C, "", fragments, incarnation=2)
    assert [is_older(metadata, incarnation) for incarnation in (1, 2, 3)] == [False, False, True]
    assert last_ensemble(metadata) == (Replication(), ("b2", "b0", "b1"))


def test_an_empty_last_ensemble_starts_at_its_own_fragment() -> None:
    """TLA D2, #2615: starting at −1 would rewrite the fragments below."""
    tails: dict[int, int | None] = {0: NO_ENTRY, 1: NO_ENTRY, 2: NO_ENTRY}
    assert start_of_recovery(Replication(), Fragment(7, ()), tails) == 6


def entry(number: int, length: int = 10) -> Entry:
    return Entry(1, number, NO_ENTRY, length, b"x")


class TestEvidence:
    def test_walks_a_run_and_ends_at_the_gap(self) -> None:
        """Scenario 18: 4 is there, 2 and 3 are not; the ledger ends before 2."""
        evidence = Evidence(Replication(), 0)
        evidence.hold([entry(0), entry(1), entry(4)])
        assert [evidence.judge(), evidence.take().entry] == [RECOVER, 0]
        assert [evidence.judge(), evidence.take().entry] == [RECOVER, 1]
        assert evidence.judge() is UNDECIDED
        evidence.deny(1, 2, 2)
        evidence.deny(2, 2, 9)
        assert evidence.judge() is END

    def test_a_doubt_holds_for_its_entry_only(self) -> None:
        evidence = Evidence(Replication(), 0)
        evidence.doubt(0, 0)
        evidence.doubt(1, 0)
        evidence.doubt(2, 0)
        assert evidence.judge() is FAIL
        evidence.hold([entry(0)])
        evidence.take()
        assert evidence.unanswered() == [1, 2, 0]

    def test_a_later_negative_replaces_a_doubt(self) -> None:
        evidence = Evidence(Replication(1, 1, 1), 0)
        evidence.doubt(0, 0)
        assert evidence.judge() is FAIL
        evidence.deny(0, 0, 0)
        assert evidence.judge() is END

    def test_only_the_write_set_counts(self) -> None:
        evidence = Evidence(Replication(4, 2, 1), 3)
        evidence.deny(1, 3, 9)
        evidence.deny(2, 3, 9)
        assert evidence.judge() is UNDECIDED
        assert evidence.unanswered() == [3, 0]

    def test_what_is_behind_is_forgotten(self) -> None:
        evidence = Evidence(Replication(1, 1, 1), 5)
        evidence.hold([entry(4)])
        evidence.doubt(0, 4)
        assert evidence.judge() is UNDECIDED


def metadata(*fragments: tuple[int, str]) -> LedgerMetadata:
    return LedgerMetadata(
        ledger=1,
        replication=Replication(3, 3, 2),
        digest=DigestKind.CRC32C,
        key_check="",
        fragments=tuple(Fragment(first, tuple(bookies)) for first, bookies in fragments),
        state=LedgerState.IN_RECOVERY,
    )


class TestClosingChange:
    FROZEN = metadata((0, "abc"), (5, "abd"))

    def test_closes_with_the_end_and_its_true_length(self) -> None:
        closed = closing_change(self.FROZEN, self.FROZEN, self.FROZEN, entry(7, length=99))
        assert closed is not None
        assert (closed.last_entry, closed.length) == (7, 99)
        assert closed.fragments == self.FROZEN.fragments

    def test_an_empty_ledger_has_length_zero(self) -> None:
        frozen = metadata((0, "abc"))
        closed = closing_change(frozen, frozen, frozen, None)
        assert closed is not None
        assert (closed.last_entry, closed.length) == (NO_ENTRY, 0)

    def test_ensembles_mended_in_memory_appear_now(self) -> None:
        mended = self.FROZEN.with_fragment(Fragment(7, tuple("abe")))
        closed = closing_change(self.FROZEN, self.FROZEN, mended, entry(7))
        assert closed is not None
        assert [fragment.first for fragment in closed.fragments] == [0, 5, 7]

    def test_a_mended_last_fragment_is_replaced(self) -> None:
        mended = self.FROZEN.with_fragment(Fragment(5, tuple("abe")))
        closed = closing_change(self.FROZEN, self.FROZEN, mended, entry(7))
        assert closed is not None
        assert closed.fragments == (Fragment(0, tuple("abc")), Fragment(5, tuple("abe")))

    def test_re_replication_of_an_older_fragment_is_kept(self) -> None:
        current = self.FROZEN.with_replica(0, 2, "z")
        mended = self.FROZEN.with_fragment(Fragment(5, tuple("abe")))
        closed = closing_change(current, self.FROZEN, mended, entry(7))
        assert closed is not None
        assert closed.fragments == (Fragment(0, tuple("abz")), Fragment(5, tuple("abe")))

    def test_a_closed_ledger_is_adopted(self) -> None:
        current = self.FROZEN.closed(4, 1)
        assert closing_change(current, self.FROZEN, self.FROZEN, entry(7)) is None

    @pytest.mark.parametrize(
        "current",
        [
            FROZEN.with_fragment(Fragment(6, tuple("abe"))),
            FROZEN.with_fragment(Fragment(5, tuple("abe"))),
            replace(FROZEN, state=LedgerState.OPEN),
        ],
        ids=["segment added", "segment changed", "open again"],
    )
    def test_a_foreign_change_fails_recovery(self, current: LedgerMetadata) -> None:
        """Scenario 12."""
        with pytest.raises(CorruptRecordError, match="while it was in recovery"):
            closing_change(current, self.FROZEN, self.FROZEN, entry(7))
