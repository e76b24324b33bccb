"""Positions: order, text, and the two named ones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.errors import InvalidRequestError
from quire.log.records.position import BEGINNING, LATEST, Position, to_ms

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_numbers = st.integers(min_value=0, max_value=2**63 - 1)
positions = st.builds(Position, _numbers, _numbers, _numbers)


@given(positions)
def test_text_round_trip(position: Position) -> None:
    assert Position.parse(str(position)) == position


@given(positions, positions)
def test_order_is_segment_then_entry_then_slot(one: Position, other: Position) -> None:
    key_one = (one.segment, one.entry, one.slot)
    key_other = (other.segment, other.entry, other.slot)
    assert (one < other) == (key_one < key_other)


@given(positions, positions)
def test_nothing_lies_between_a_position_and_the_one_after(one: Position, other: Position) -> None:
    assert one < one.after
    assert not one < other < one.after


@given(st.integers(min_value=-(10**12), max_value=10**13), st.integers(0, 999))
def test_a_time_is_the_first_millisecond_that_is_not_before_it(ms: int, microseconds: int) -> None:
    time = EPOCH + timedelta(milliseconds=ms, microseconds=microseconds)
    assert to_ms(time) == ms + (microseconds > 0)
    assert to_ms(time.astimezone(timezone(timedelta(hours=5, minutes=30)))) == to_ms(time)


def test_a_record_is_not_before_its_own_time() -> None:
    times = range(1_020_000, 1_030_000)  # floats were wrong for some of them
    assert [to_ms(EPOCH + timedelta(milliseconds=each)) for each in times] == [*times]
    with pytest.raises(InvalidRequestError, match="zone"):
        to_ms(datetime(2026, 1, 1))


def test_named_positions() -> None:
    assert Position.parse("beginning") is BEGINNING
    assert Position.parse("latest") is LATEST
    assert BEGINNING < Position(1, 0, 0) < LATEST
    assert str(Position(3, 17, 0)) == "3.17.0"


@pytest.mark.parametrize("text", ["", "3", "3.1", "3.1.2.4", "a.b.c", "-1.0.0", "1. 0.0", "1..0"])
def test_nonsense_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidRequestError, match="is not a position"):
        Position.parse(text)
