"""Who leads and whom to watch, as tables and over random histories."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.election.ballot import (
    Standing,
    Term,
    Verdict,
    decode_term,
    encode_candidate,
    encode_term,
    in_office,
    judge,
    next_term,
    queue,
)
from quire.errors import CorruptRecordError
from quire.metastore.record import decode_record, encode_record

A, B, C = "c-0000000001", "c-0000000002", "c-0000000010"
TERM = Term(7, "anna", A, "token")


@pytest.mark.parametrize(
    ("names", "mine", "verdict"),
    [
        ([], A, Verdict(Standing.GONE)),
        ([B], A, Verdict(Standing.GONE)),
        ([A], A, Verdict(Standing.LEADS)),
        ([C, A, B], A, Verdict(Standing.LEADS)),
        ([C, A, B], B, Verdict(Standing.WAITS, A)),
        ([C, A, B], C, Verdict(Standing.WAITS, B)),
        (["a-note", "c-1", A], A, Verdict(Standing.LEADS)),
    ],
)
def test_the_first_leads_and_the_others_watch_the_one_before(
    names: list[str], mine: str, verdict: Verdict
) -> None:
    assert judge(names, mine) == verdict


@given(places=st.sets(st.integers(0, 10**10 - 1), min_size=1, max_size=8))
def test_one_leads_and_each_is_watched_by_at_most_one(places: set[int]) -> None:
    names = [f"c-{place:010d}" for place in sorted(places, key=str)]
    verdicts = [judge(names, name) for name in queue(names)]
    assert [verdict.standing for verdict in verdicts] == (
        [Standing.LEADS] + [Standing.WAITS] * (len(names) - 1)
    )
    assert [verdict.ahead for verdict in verdicts[1:]] == queue(names)[:-1]


@pytest.mark.parametrize(
    ("names", "term", "expected"),
    [
        ([], TERM, None),
        ([A], None, None),
        ([A, B], TERM, TERM),
        ([B], TERM, None),
    ],
)
def test_a_leader_is_in_office_once_it_wrote_its_term(
    names: list[str], term: Term | None, expected: Term | None
) -> None:
    assert in_office(names, term) == expected


def test_the_next_term_has_a_greater_epoch() -> None:
    assert next_term(None, "anna", A, "x") == Term(1, "anna", A, "x")
    assert next_term(TERM, "bert", B, "y") == Term(8, "bert", B, "y")


@pytest.mark.parametrize("last", [None, TERM])
def test_an_incarnation_has_epochs_of_its_own(last: Term | None) -> None:
    """Whatever the terms were that a restored store lost: they were of the one before."""
    first = next_term(last, "anna", A, "x", incarnation=3)
    assert first.epoch == (3 << 24) + 1
    assert next_term(first, "bert", B, "y", incarnation=3).epoch == first.epoch + 1
    assert next_term(first, "bert", B, "y", incarnation=4).epoch == (4 << 24) + 1
    assert next_term(first, "bert", B, "y").epoch == first.epoch + 1, "never back"


def test_records_come_back_as_they_were() -> None:
    assert decode_term("/e", encode_term(TERM)) == TERM
    _, body = decode_record("/c", "candidate", encode_candidate("anna", "x"))
    assert body == {"candidate": "anna", "token": "x"}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        encode_candidate("anna", "x"),
        encode_record("epoch", 1, {"epoch": 1}),
        encode_record("epoch", 1, {"epoch": "1", "candidate": "", "place": A, "token": ""}),
        encode_record("epoch", 2, {"epoch": 1, "candidate": "", "place": A, "token": ""}),
    ],
)
def test_what_is_no_term_is_named(data: bytes) -> None:
    with pytest.raises(CorruptRecordError, match="/e"):
        decode_term("/e", data)
