"""The manifest's edits: every path through them keeps the invariants, and trim loses nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from quire.errors import CorruptRecordError, InvalidRequestError
from quire.log.maintenance.retention import retention_point
from quire.log.manifest.ages import Reading
from quire.log.manifest.manifest import (
    EMPTY,
    LogManifest,
    Segment,
    SegmentEnd,
)
from quire.log.records.position import BEGINNING, Position
from tests.support.examples import examples


def _end(entries: int, slots: int = 1, timestamp_ms: int = 0) -> SegmentEnd:
    """A segment of `entries` entries with `slots` records of 10 bytes in each."""
    if entries == 0:
        return EMPTY
    records = entries * slots
    return SegmentEnd(entries - 1, slots, records, 10 * records, timestamp_ms)


def _log(*entries: int) -> LogManifest:
    """A log with sealed segments of that many entries, and one open segment behind them."""
    manifest = LogManifest("a", "id", 0)
    manifest = manifest.take_over({}, 100, 0)
    for count in entries:
        assert manifest.tail is not None
        number = manifest.tail.number
        manifest = manifest.append_segment(100 + number, 0)
        manifest = manifest.seal_segment(number, _end(count))
    return manifest


def _tail(manifest: LogManifest) -> Segment:
    assert manifest.tail is not None
    return manifest.tail


def test_take_over_starts_an_epoch_and_a_segment() -> None:
    first = LogManifest("a", "id", 5).take_over({}, 7, 6)
    assert (first.epoch, first.next_segment, first.end_offset) == (1, 2, None)
    assert first.segments == (Segment(1, 7, 1, 6, first_offset=0),)
    second = first.take_over({1: _end(3, slots=2)}, 8, 9)
    assert (second.epoch, second.end_offset) == (2, None)
    assert _tail(second) == Segment(2, 8, 2, 9, first_offset=6)
    assert second.segments[0].end_offset == 6


def test_take_over_during_a_roll_seals_both_in_order() -> None:
    rolling = LogManifest("a", "id", 0).take_over({}, 1, 0).append_segment(2, 0)
    assert [each.first_offset for each in rolling.segments] == [0, None]
    taken = rolling.take_over({1: _end(4), 2: _end(5)}, 3, 0)
    assert [each.first_offset for each in taken.segments] == [0, 4, 9]


def test_an_empty_segment_is_dropped_but_its_number_is_not_used_again() -> None:
    taken = LogManifest("a", "id", 0).take_over({}, 1, 0).take_over({1: EMPTY}, 2, 0)
    assert [each.number for each in taken.segments] == [2]
    assert taken.doomed == (1,)
    assert taken.forget([1]).doomed == ()


def test_a_third_open_segment_is_refused() -> None:
    rolling = _log().append_segment(200, 0)
    with pytest.raises(AssertionError, match="two-open"):
        rolling.append_segment(201, 0)


def test_segments_are_sealed_in_order() -> None:
    rolling = _log().append_segment(200, 0)
    with pytest.raises(AssertionError, match="must be sealed before"):
        rolling.seal_segment(2, _end(1))


def test_a_log_with_an_open_segment_cannot_be_sealed() -> None:
    with pytest.raises(AssertionError, match="sealed"):
        _log().seal_log()
    assert _log().seal_segment(1, _end(1)).seal_log().sealed


def test_trim_inside_a_segment_keeps_it_and_remembers_the_point() -> None:
    trimmed = _log(3, 3).trim(Position(2, 1, 0))
    assert [each.number for each in trimmed.segments] == [2, 3]
    assert trimmed.doomed == (100,)
    assert trimmed.trimmed_to == trimmed.first_position == Position(2, 1, 0)
    assert trimmed.first_offset == 3


@pytest.mark.parametrize("to", [Position(1, 2, 1), Position(1, 3, 0), Position(2, 0, 0)])
def test_trim_at_a_boundary_is_the_same_however_it_is_written(to: Position) -> None:
    trimmed = _log(3, 3).trim(to)
    assert trimmed.trimmed_to == Position(1, 2, 1)
    assert trimmed.first_position == Position(2, 0, 0)
    assert [each.number for each in trimmed.segments] == [2, 3]


def test_trim_never_moves_back_and_never_passes_the_end() -> None:
    trimmed = _log(3, 3).trim(Position(2, 1, 0))
    assert trimmed.trim(Position(1, 1, 0)) == trimmed
    assert trimmed.trim(BEGINNING) == trimmed
    with pytest.raises(InvalidRequestError, match=r"cannot be trimmed to 9\.0\.0"):
        trimmed.trim(Position(9, 0, 0))


def test_trim_works_in_an_open_segment_and_drops_it_when_it_is_sealed() -> None:
    rolling = _log(2).append_segment(200, 0)
    trimmed = rolling.trim(Position(3, 1, 0))
    assert [each.number for each in trimmed.segments] == [2, 3]
    sealed = trimmed.seal_segment(2, _end(4))
    assert [each.number for each in sealed.segments] == [3]
    assert sealed.first_offset == 6


def test_a_log_trimmed_to_its_end_keeps_counting() -> None:
    whole = _log(3).seal_segment(2, _end(2))
    trimmed = whole.trim(Position(2, 2, 0))
    assert trimmed.segments == ()
    assert trimmed.take_over({}, 300, 0).segments[0].first_offset == 5
    assert trimmed.first_position == Position(3, 0, 0)


def test_a_log_trimmed_to_its_end_keeps_its_time() -> None:
    later = _end(1, timestamp_ms=70)
    trimmed = _log(3).seal_segment(2, later).trim(Position(2, 1, 0))
    assert trimmed.segments == ()
    assert trimmed.last_timestamp_ms == 70
    assert LogManifest.decode("/p", trimmed.encode()) == trimmed
    assert trimmed.ingest({}, [(9, later)], None, 50).segments[0].created_ms == 70
    assert b"timestamp" not in _log(3).encode(), "a log without it is written as it always was"


@pytest.mark.parametrize(
    ("seconds", "bytes_max", "point"),
    [
        (None, None, None),
        (10, None, None),
        (5, None, Position(1, 2, 1)),
        (3, None, Position(2, 2, 1)),
        (None, 70, None),
        (None, 60, Position(1, 2, 1)),
        (None, 1, Position(2, 2, 1)),
        (None, 0, Position(3, 2, 1)),
        (5, 0, Position(3, 2, 1)),
    ],
)
def test_retention_takes_whole_sealed_segments_from_the_front(
    seconds: float | None, bytes_max: int | None, point: Position | None
) -> None:
    manifest = LogManifest("a", "id", 0).take_over({}, 1, 0).aged(Reading(0, "m", 0))
    for number in (1, 2, 3):
        manifest = manifest.append_segment(number + 1, 0)
        manifest = manifest.seal_segment(number, _end(3))
        manifest = manifest.aged(Reading(2_000 * number, "m", 2_000 * number))
    manifest = manifest.aged(Reading(7_600, "m", 7_600))
    assert retention_point(manifest, seconds, bytes_max) == point


def test_record_round_trip_and_damage() -> None:
    manifest = replace(_log(3, 0, 2).trim(Position(1, 1, 0)), settings={"roll_bytes": "5"})
    data = manifest.encode()
    assert LogManifest.decode("/p", data) == manifest
    with pytest.raises(CorruptRecordError, match="/p"):
        LogManifest.decode("/p", data[:-1])


@pytest.mark.parametrize(
    ("change", "invariant_name"),
    [
        ({"next_segment": 1}, "numbers"),
        ({"epoch": 0}, "epochs"),
        ({"doomed": (100,)}, "ledgers"),
        ({"first_offset": 9}, "offsets"),
        ({"sealed": True}, "sealed"),
        ({"trimmed_to": Position(9, 0, 0)}, "trim"),
        (
            {
                "rows": tuple(
                    Segment(n, n, 1, 0, first_offset=0 if n == 1 else None) for n in (1, 2, 3)
                ),
                "next_segment": 4,
            },
            "two-open",
        ),
    ],
)
def test_each_invariant_has_a_name_and_a_record_that_breaks_it_is_refused(
    change: dict[str, object], invariant_name: str
) -> None:
    broken = replace(_log(3), **change)  # type: ignore[arg-type]
    assert invariant_name in broken.check()
    with pytest.raises(CorruptRecordError, match=invariant_name):
        LogManifest.decode("/p", broken.encode())


class Edits(RuleBasedStateMachine):
    """Any sequence of legal edits keeps the invariants, against a model that never forgets."""

    def __init__(self) -> None:
        super().__init__()
        self.manifest = LogManifest("a", "id", 0)
        self.ledger = 0
        self.records: list[Position] = []
        self.ends: dict[int, SegmentEnd] = {}

    def _new_ledger(self) -> int:
        self.ledger += 1
        return self.ledger

    def _write(self, number: int, entries: int, slots: int) -> SegmentEnd:
        self.records += [
            Position(number, entry, slot) for entry in range(entries) for slot in range(slots)
        ]
        return _end(entries, slots)

    @rule(entries=st.integers(0, 3), slots=st.integers(1, 3))
    def take_over(self, entries: int, slots: int) -> None:
        ends = {
            each.number: self._write(each.number, entries, slots)
            for each in self.manifest.open_segments
        }
        self.manifest = self.manifest.take_over(ends, self._new_ledger(), 0)

    @precondition(lambda self: len(self.manifest.open_segments) == 1)
    @rule()
    def roll(self) -> None:
        self.manifest = self.manifest.append_segment(self._new_ledger(), 0)

    @precondition(lambda self: self.manifest.open_segments)
    @rule(entries=st.integers(0, 3), slots=st.integers(1, 3))
    def seal(self, entries: int, slots: int) -> None:
        number = self.manifest.open_segments[0].number
        self.manifest = self.manifest.seal_segment(number, self._write(number, entries, slots))

    @precondition(lambda self: self.records)
    @rule(data=st.data())
    def trim(self, data: st.DataObject) -> None:
        position = data.draw(st.sampled_from(self.records))
        self.manifest = self.manifest.trim(data.draw(st.sampled_from([position, position.after])))

    @invariant()
    def invariants_hold(self) -> None:
        assert self.manifest.check() == ()
        assert LogManifest.decode("/p", self.manifest.encode()) == self.manifest

    @invariant()
    def exactly_the_records_not_trimmed_are_listed(self) -> None:
        """Dense offsets: each record's offset is its index among all that were ever written."""
        listed = {each.number for each in self.manifest.segments}
        for position in self.records:
            if position >= self.manifest.first_position:
                assert position.segment in listed
        starts = {
            number: index
            for index, number in reversed(list(enumerate(each.segment for each in self.records)))
        }
        for segment in self.manifest.segments:
            if segment.end is not None:
                assert segment.first_offset == starts[segment.number]

    @invariant()
    def no_ledger_is_forgotten(self) -> None:
        known = sorted([*(each.ledger for each in self.manifest.segments), *self.manifest.doomed])
        assert known == list(range(1, self.ledger + 1))


Edits.TestCase.settings = examples(60, stateful_step_count=25)
TestEdits = Edits.TestCase


@given(st.lists(st.integers(0, 4), max_size=6), st.integers(0, 7), st.integers(0, 4))
def test_trim_point_lost_nothing_before_its_lowest_form(
    entries: list[int], segment: int, entry: int
) -> None:
    manifest = _log(*entries)
    records = [Position(n, e, 0) for n, count in enumerate(entries, 1) for e in range(count)]
    to = Position(min(segment, len(entries) + 1), entry, 0)
    trimmed = manifest.trim(to)
    assert [each for each in records if each < trimmed.trimmed_to] == [
        each for each in records if each < to
    ]
