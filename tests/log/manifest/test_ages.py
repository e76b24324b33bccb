"""How old segments are, by clocks of which any may be wrong."""

from __future__ import annotations

from typing import Final
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.log.manifest import ages
from quire.log.manifest.ages import NO_AGES, AgeMark, Ages, Reading

YEARS: Final = 10 * 365 * 86_400_000
HOUR: Final = 3_600_000
JUMPS: Final = st.sampled_from([0, 0, 0, 61_000, 8 * HOUR, YEARS, -61_000, -8 * HOUR, -YEARS])


def reading(at: int, *, off: int = 0, machine: str = "m") -> Reading:
    """What a process reads at a true time, whose wall clock is off by so much."""
    return Reading(at + off, machine, at)


def test_right_clocks_give_the_true_age() -> None:
    log = NO_AGES.marked(reading(0), 1, 1)
    for number in (2, 3, 4):
        log = log.marked(reading((number - 1) * HOUR), 1, number)
    log = log.at(reading(4 * HOUR))
    assert log.marks == (AgeMark(2, HOUR), AgeMark(3, 2 * HOUR), AgeMark(4, 3 * HOUR))
    assert [log.older_than(each) for each in (HOUR - 1, HOUR, 2 * HOUR, 3 * HOUR)] == [4, 3, 2, 0]


@pytest.mark.parametrize("off", [YEARS, -YEARS, HOUR, -HOUR])
def test_a_clock_that_jumps_loses_one_span_and_makes_nothing_older(off: int) -> None:
    log = NO_AGES.marked(reading(0), 1, 2)
    log = log.at(reading(1000, off=off))
    assert log.counted_ms == (1000 if off > 0 else 0), "the machine's clock bounds a jump ahead"
    log = log.at(reading(2000))
    assert log.counted_ms == 1000, "and a jump back counts nothing"
    assert log.at(reading(2000 + HOUR)).counted_ms == 1000 + HOUR


def test_between_machines_the_shorter_of_the_wall_clock_and_the_store_counts() -> None:
    def pause(wall_ms: int, store_ms: int) -> int:
        log = NO_AGES.at(Reading(0, "one", 77)).seen(5_000)
        log = log.seen(5_000 + store_ms)
        return log.at(Reading(wall_ms, "other", 3)).counted_ms

    assert pause(HOUR, HOUR) == HOUR
    assert pause(YEARS, HOUR) == HOUR
    assert pause(HOUR, YEARS) == HOUR
    assert pause(-YEARS, HOUR) == 0
    assert pause(HOUR, -YEARS) == 0


def test_where_only_the_wall_clock_is_at_hand_nothing_counts() -> None:
    log = NO_AGES.at(reading(0, machine="before the restart")).seen(None)
    log = log.at(reading(HOUR, machine="after it"))
    assert log.counted_ms == 0
    assert log.at(reading(2 * HOUR, machine="after it")).counted_ms == HOUR


def test_what_is_not_counted_yet_gets_no_mark() -> None:
    """A new leader on another machine waits until the store has shown its clock once."""
    log = NO_AGES.at(reading(0, machine="one")).seen(100)
    now = reading(HOUR, machine="other")
    assert log.marked(now, 1, 2) is log
    later = log.seen(100 + HOUR).marked(now, 1, 2)
    assert later.marks == (AgeMark(2, HOUR),)


def test_a_reading_is_replaced_soon_when_it_cannot_be_gone_on_from() -> None:
    log = NO_AGES.at(reading(0))
    assert NO_AGES.must_begin_again(reading(0))
    assert log.must_begin_again(reading(5, machine="another"))
    assert log.must_begin_again(reading(5, off=YEARS))
    assert log.must_begin_again(reading(5, off=-YEARS))
    assert not log.must_begin_again(reading(10 * HOUR, off=500))


def test_marks_are_few_and_lie_evenly() -> None:
    log = NO_AGES.at(reading(0))
    for number in range(2, 3000):
        log = log.marked(reading(number * 1000), 1, number)
    assert len(log.marks) == ages.MARKS_MAX
    assert log.marks[-1].number == 2999
    spans = [
        after.counted_ms - before.counted_ms
        for before, after in zip(log.marks, log.marks[1:], strict=False)
    ]
    assert max(spans) <= 4 * 3_000_000 // ages.MARKS_MAX
    assert log.check()


def test_marks_leave_with_their_segments() -> None:
    log = NO_AGES.at(reading(0))
    for number in (2, 3, 4):
        log = log.marked(reading(number), 1, number)
    assert [each.number for each in log.marked(reading(9), 3, 4).marks] == [4]
    assert log.marked(reading(9), 4, 4).marks == ()


class Log:
    """A log in a world whose true time is known: who leads it, and when segments were sealed."""

    def __init__(self, *, has_store: bool) -> None:
        self.ages: Ages = NO_AGES
        self.now = 0
        self.written: int | None = None
        self.has_store = has_store
        self.sealed_at: list[int] = []

    def write(self, now: Reading, store_off: int) -> None:
        """A change of the manifest by a leader, which seals a segment."""
        self.ages = self.ages.seen(self.written)
        self.sealed_at.append(self.now)
        self.ages = self.ages.marked(now, 1, len(self.sealed_at) + 1)
        self.written = self.now + store_off if self.has_store else None

    def touch(self, store_off: int) -> None:
        """A take-over: the record is written as it was read, and takes the store's time."""
        self.ages = self.ages.seen(self.written)
        self.written = self.now + store_off if self.has_store else None

    def check(self) -> None:
        for age_ms in (0, 1000, HOUR, 10 * HOUR, 100 * HOUR):
            for number in range(1, self.ages.older_than(age_ms)):
                assert self.now - self.sealed_at[number - 1] > age_ms


@given(
    st.booleans(),
    st.booleans(),
    st.integers(2, 5),
    st.lists(
        st.tuples(st.integers(0, 3 * HOUR), st.integers(0, 2), JUMPS, st.booleans()), max_size=60
    ),
)
def test_nothing_is_ever_older_than_it_is(
    has_store: bool, is_store_wrong: bool, marks_max: int, steps: list[tuple[int, int, int, bool]]
) -> None:
    """Any number of jumps: of all wall clocks, or of the store's."""
    log = Log(has_store=has_store)
    leader = -1
    with patch.object(ages, "MARKS_MAX", marks_max):
        for pause, machine, jump, begins in steps:
            log.now += pause
            off, store_off = (0, jump) if is_store_wrong else (jump, 0)
            if begins or machine != leader:
                log.touch(store_off)
                leader = machine
            # one machine's steady clock has nothing to do with that of another
            now = Reading(log.now + off, f"m{machine}", log.now + machine * YEARS)
            log.write(now, store_off)
            log.check()


@given(
    st.lists(st.tuples(st.integers(1, HOUR), JUMPS), max_size=20),
    st.integers(1, HOUR),
    st.booleans(),
)
def test_once_clocks_are_right_every_span_counts(
    steps: list[tuple[int, int]], pause: int, same: bool
) -> None:
    log = Log(has_store=True)
    for before, jump in steps:
        log.now += before
        log.touch(0)
        log.write(Reading(log.now + jump, "one", log.now), 0)
    log.now += 1
    log.touch(0)
    log.write(Reading(log.now, "one", log.now), 0)
    counted = log.ages.counted_ms
    log.now += pause
    log.touch(0)
    log.ages = log.ages.seen(log.written)
    machine = "one" if same else "another"
    assert log.ages.at(Reading(log.now, machine, log.now)).counted_ms == counted + pause
