"""How old segments are, by clocks of which any may be wrong."""

from __future__ import annotations

from itertools import pairwise

import pytest

from quire.log.maintenance.ages import ages_ms, longest_step_ms
from quire.log.manifest.segment import Segment, SegmentEnd

DAY = 86_400_000
YEARS = 3650 * DAY
STEP = 8 * 3_600_000


def log(*began: int, idle: int = 1000) -> list[Segment]:
    """Segments that began at these times; each sealed one got its last record `idle` before the
    next one began, by the next one's clock.
    """
    found = []
    for number, (at, following) in enumerate(pairwise(began), 1):
        end = SegmentEnd(0, 1, 1, 10, following - idle)
        found.append(Segment(number, number, number, at, number, end))
    return [*found, Segment(len(began), len(began), len(began), began[-1])]


def test_right_clocks_give_the_true_age() -> None:
    hour = 3_600_000
    assert ages_ms(log(0, hour, 2 * hour, 3 * hour), hour, STEP) == [
        3 * hour + 1000,
        2 * hour + 1000,
        hour + 1000,
        0,
    ]


def test_one_leader_far_ahead_deletes_nothing_early() -> None:
    """Its own segment begins years later than the one before: that counts one step."""
    assert ages_ms(log(0, 1000, YEARS), 0, STEP) == [1000 + STEP, 1000, 0]
    behind = log(0, 1000, YEARS)[:-1]
    assert max(ages_ms([*behind, Segment(3, 3, 3, YEARS)], 5, STEP)) < 2 * STEP


def test_a_leader_far_ahead_leaves_ages_that_grow_as_they_should() -> None:
    """The next leader's clock is right again: a step back counts nothing."""
    segments = log(0, YEARS, 2000, 3000)
    now = 7 * DAY
    ages = ages_ms(segments, now, STEP)
    assert all(now <= age <= now + 2 * STEP for age in ages[:-1])
    assert ages == sorted(ages, reverse=True)


def test_a_leader_far_behind_makes_nothing_older() -> None:
    assert ages_ms(log(YEARS, 0, YEARS + 5000), 0, STEP)[0] <= 2 * STEP


def test_an_empty_or_open_segment_has_no_age() -> None:
    assert ages_ms([], 5, STEP) == []
    assert ages_ms([Segment(1, 1, 1, 0)], 5, STEP) == [0]
    two_open = [Segment(1, 1, 1, 0), Segment(2, 2, 1, 1000)]
    assert ages_ms(two_open, 5, STEP) == [0, 0]


@pytest.mark.parametrize(
    ("retention", "roll", "step"),
    [(7 * 86_400, 4 * 3600, 60_480_000), (86_400, 4 * 3600, 28_800_000), (2, 4 * 3600, 1000)],
)
def test_a_step_is_a_part_of_the_retention(retention: float, roll: float, step: int) -> None:
    assert longest_step_ms(retention, roll) == step
