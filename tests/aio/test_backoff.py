"""Pauses grow, end at a bound, and part those that would collide."""

from __future__ import annotations

import random

import pytest

from quire.aio.backoff import Backoff

BACKOFF = Backoff(first=0.5, last=3.0)


def test_pauses_double_up_to_the_last_one() -> None:
    assert [BACKOFF.seconds(failures) for failures in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_thousands_of_failures_are_no_reason_to_fail() -> None:
    """A float holds no power of two as high as this."""
    assert BACKOFF.seconds(1_000_000) == 3.0


@pytest.mark.parametrize(("spread", "least"), [(0.0, 2.0), (0.25, 1.5), (1.0, 0.0)])
def test_jitter_takes_away_its_share_at_most(spread: float, least: float) -> None:
    backoff = Backoff(first=2.0, last=2.0, spread=spread)
    drawn = [backoff.seconds(0, random.Random(seed)) for seed in range(200)]
    assert all(least <= each <= 2.0 for each in drawn)
    assert max(drawn) - min(drawn) >= 0.9 * (2.0 - least)


def test_a_loop_begins_again_after_a_success() -> None:
    pauses = BACKOFF.pauses()
    assert [pauses.next(), pauses.next()] == [0.5, 1.0]
    pauses.reset()
    assert pauses.next() == 0.5


@pytest.mark.parametrize(
    ("first", "last", "spread"), [(0.0, 1.0, 0.5), (2.0, 1.0, 0.5), (1.0, 2.0, 1.5)]
)
def test_an_impossible_policy_is_a_defect(first: float, last: float, spread: float) -> None:
    with pytest.raises(AssertionError):
        Backoff(first, last, spread)
