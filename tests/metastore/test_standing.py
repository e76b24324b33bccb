"""Standings and heartbeats: what is refused, and how long a wish holds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.errors import CorruptRecordError, InvalidRequestError
from quire.metastore.heartbeat import Heartbeat
from quire.metastore.record import decode_record, encode_record
from quire.metastore.standing import SERVING, Standing, Wish
from tests.golden.metadata import AWAY, DRAINING, HEARTBEAT

BOOKIE = "b" * 32
TIMES = st.integers(-(2**62), 2**62)


@pytest.mark.parametrize("until", [None, 10, 9])
def test_an_away_needs_an_end_after_its_begin(until: int | None) -> None:
    with pytest.raises(InvalidRequestError, match="an end after the begin"):
        Standing(Wish.AWAY, since_ms=10, until_ms=until)


@pytest.mark.parametrize("wish", [Wish.SERVE, Wish.DRAIN, Wish.GONE])
def test_no_other_wish_has_an_end(wish: Wish) -> None:
    with pytest.raises(InvalidRequestError, match=f"wish {wish} has no end"):
        Standing(wish, until_ms=10)


def test_a_reason_is_bounded() -> None:
    with pytest.raises(InvalidRequestError, match="501 characters, 500 are allowed"):
        Standing(reason="x" * 501)


def test_an_away_ends_by_itself_and_a_drain_does_not() -> None:
    assert AWAY.until_ms is not None
    assert AWAY.wish_at(AWAY.until_ms - 1) is Wish.AWAY
    assert AWAY.wish_at(AWAY.until_ms) is Wish.SERVE
    assert DRAINING.wish_at(2**60) is Wish.DRAIN
    assert DRAINING.seconds_left(2**60) is None
    assert SERVING.wish.takes_entries
    assert not any(wish.takes_entries for wish in Wish if wish is not Wish.SERVE)


@given(TIMES)
def test_no_clock_makes_an_away_longer_than_the_operator_said(now: int) -> None:
    assert AWAY.until_ms is not None
    left = AWAY.seconds_left(now)
    assert left is not None
    assert 0 <= left <= (AWAY.until_ms - AWAY.since_ms) / 1000


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"wish": "dance"}, "'dance' is not a valid Wish"),
        ({"wish": 3}, "missing or of another type"),
        ({"since_ms": "now"}, "missing or of another type"),
        ({"until_ms": "soon"}, "until_ms 'soon'"),
        ({"until_ms": None}, "an end after the begin"),
    ],
)
def test_a_standing_that_makes_no_sense_is_refused_by_name(
    changed: dict[str, object], said: str
) -> None:
    _, body = decode_record("/", "standing", AWAY.encode())
    with pytest.raises(CorruptRecordError, match=said) as caught:
        Standing.decode(BOOKIE, encode_record("standing", 1, {**body, **changed}))
    assert f"/quire/standings/{BOOKIE}" in str(caught.value)


@pytest.mark.parametrize(
    "changed",
    [
        {"at_ms": "now"},
        {"at_ms": True},
        {"labels": 7},
        {"labels": {"rack": "no slash/"}},
        {"wish": "dance"},
        {"disks": [{"path": "/"}]},
        {"disks": 7},
        {"writable": 1},
    ],
)
def test_a_heartbeat_that_makes_no_sense_is_refused_by_name(changed: dict[str, object]) -> None:
    _, body = decode_record("/", "heartbeat", HEARTBEAT.encode())
    with pytest.raises(CorruptRecordError) as caught:
        Heartbeat.decode(BOOKIE, encode_record("heartbeat", 1, {**body, **changed}))
    assert f"/quire/heartbeats/{BOOKIE}" in str(caught.value)


def test_a_heartbeat_of_a_later_program_is_read_without_its_new_fields() -> None:
    _, body = decode_record("/", "heartbeat", HEARTBEAT.encode())
    later = encode_record("heartbeat", 1, {**body, "later": 1})
    assert Heartbeat.decode(BOOKIE, later) == HEARTBEAT
    assert Heartbeat.decode(BOOKIE, replace(HEARTBEAT, disks=()).encode()).disks == ()
