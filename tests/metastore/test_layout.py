"""Paths: readable, sorted as numbers, and without two names for one place."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.errors import InvalidRequestError
from quire.metastore import layout

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


def test_a_ledger_has_19_digits_and_a_shard_of_a_thousand() -> None:
    assert layout.ledger_path(1234567) == ("/quire/ledgers/0000000000001234/0000000000001234567")
    assert layout.ledger_path(999).split("/")[3] != layout.ledger_path(1000).split("/")[3]


@given(ledger=st.integers(0, layout.LEDGER_ID_MAX))
def test_a_ledger_is_found_again_in_its_path(ledger: int) -> None:
    path = layout.check_path(layout.ledger_path(ledger))
    assert layout.parse_ledger(layout.name_of(path)) == ledger


@pytest.mark.parametrize("ledger", [-1, 2**63])
def test_impossible_ledger_ids_are_named(ledger: int) -> None:
    with pytest.raises(InvalidRequestError, match=str(ledger)):
        layout.ledger_path(ledger)


@pytest.mark.parametrize("name", ["", "12", "x" * 19, "0" * 20, "٣" * 19])
def test_names_that_are_no_ledger_are_refused(name: str) -> None:
    with pytest.raises(InvalidRequestError):
        layout.parse_ledger(name)


@given(name=names)
def test_a_quoted_name_is_one_usable_segment_and_comes_back(name: str) -> None:
    segment = layout.quote_name(name)
    assert layout.parent_of(layout.check_path(layout.log_path(name))) == layout.LOGS
    assert layout.unquote_name(segment) == name


@given(one=names, other=names)
def test_two_names_never_share_a_path(one: str, other: str) -> None:
    assert (layout.log_path(one) == layout.log_path(other)) == (one == other)


@pytest.mark.parametrize("name", ["", "x" * 256, "\ud800", "." * 86])
def test_unusable_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidRequestError):
        layout.quote_name(name)


@pytest.mark.parametrize("name", [5, None, b"bytes"])
def test_what_is_not_text_is_named(name: Any) -> None:
    with pytest.raises(InvalidRequestError, match=f"name {name!r} is not text"):
        layout.quote_name(name)


@pytest.mark.parametrize("segment", ["", "a/b", "%61", "%zz", "%ff", "..", "a b"])
def test_what_is_no_encoding_is_not_decoded(segment: str) -> None:
    with pytest.raises(InvalidRequestError):
        layout.unquote_name(segment)


@pytest.mark.parametrize("bookie", ["", "a/b", "-a", "a" * 129, "a b", "é"])
def test_unusable_bookie_ids_are_refused(bookie: str) -> None:
    with pytest.raises(InvalidRequestError, match="bookie id"):
        layout.bookie_path(bookie)
    with pytest.raises(InvalidRequestError, match="bookie id"):
        layout.cookie_path(bookie)


def test_elections_have_an_epoch_and_candidates() -> None:
    assert layout.election_epoch_path("a/b") == "/quire/elections/a%2Fb/epoch"
    assert layout.election_candidates_path("a/b") == "/quire/elections/a%2Fb/candidates"
    assert layout.election_candidate_prefix("a/b") == "/quire/elections/a%2Fb/candidates/c-"


@pytest.mark.parametrize(
    "path", ["", "/", "a", "a/b", "/a/", "//a", "/a//b", "/.", "/a/..", "/ä", "/a b"]
)
def test_unusable_paths_are_named(path: str) -> None:
    with pytest.raises(InvalidRequestError, match="path"):
        layout.check_path(path)


def test_the_way_up() -> None:
    assert layout.ancestors("/a/b/c") == ["/a", "/a/b"]
    assert layout.ancestors("/a") == []
    assert [layout.parent_of("/a/b"), layout.parent_of("/a"), layout.name_of("/a/b")] == [
        "/a",
        "/",
        "b",
    ]


def test_large_values_are_refused_everywhere_alike() -> None:
    assert layout.check_value("/a", bytes(layout.VALUE_BYTES_MAX))
    with pytest.raises(InvalidRequestError, match="/a"):
        layout.check_value("/a", bytes(layout.VALUE_BYTES_MAX + 1))
