"""Packing: whatever the segments are like, partitions are the spans in order, and within limits."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.log.reading.bounds import EVERYTHING, Bounds
from quire.log.reading.span import Span
from quire.spark.packing import OPENING_BYTES, SPLIT_BYTES, Packed, PartitionLimits, pack

RECORDS: Final = 7
"""Of every entry."""


def span(segment: int, entries: int, size: int | None, bounds: Bounds = EVERYTHING) -> Span:
    offsets = range(1000 * segment, 1000 * segment + RECORDS * entries)
    return Span("log", "id", segment, 90 + segment, 1, 0, entries - 1, offsets, size, bounds)


@st.composite
def logs(draw: st.DrawFn) -> list[Span]:
    sizes = st.one_of(st.none(), st.integers(0, 5_000_000))
    shapes = draw(st.lists(st.tuples(st.integers(1, 60), sizes), max_size=20))
    return [span(number, entries, size) for number, (entries, size) in enumerate(shapes, 1)]


@st.composite
def limits(draw: st.DrawFn) -> PartitionLimits:
    records_max = st.one_of(st.none(), st.integers(1, 500))
    return PartitionLimits(
        draw(st.integers(1, 10_000_000)), draw(st.integers(1, 200)), draw(records_max)
    )


def entries_of(partition: Packed) -> list[tuple[int, int]]:
    return [
        (each.segment, entry) for each in partition for entry in range(each.first, each.last + 1)
    ]


@given(logs(), limits())
def test_partitions_are_the_spans_in_order(spans: list[Span], wanted: PartitionLimits) -> None:
    packed = pack(spans, wanted)
    assert all(packed)
    assert [each for partition in packed for each in entries_of(partition)] == entries_of(
        tuple(spans)
    )


@given(logs(), limits())
def test_only_one_entry_exceeds_a_limit(spans: list[Span], wanted: PartitionLimits) -> None:
    for partition in pack(spans, wanted):
        entries = len(entries_of(partition))
        if entries == 1:
            continue
        if wanted.records_max is not None:
            assert entries * RECORDS <= max(wanted.records_max, 2 * RECORDS) + RECORDS
        if len(partition) > 1:
            cost = sum(OPENING_BYTES + (each.size or 0) for each in partition)
            assert cost <= wanted.split_bytes


@given(logs(), st.integers(1, 200))
def test_there_are_as_many_partitions_as_asked_for(spans: list[Span], wanted: int) -> None:
    packed = pack(spans, PartitionLimits(partitions_min=wanted))
    entries = len(entries_of(tuple(spans)))
    assert len(packed) >= min(wanted, entries)


def test_thousands_of_small_segments_are_a_few_tasks() -> None:
    spans = [span(number, 2, 2_000) for number in range(1, 10_001)]
    packed = pack(spans, PartitionLimits())
    assert len(packed) == 40
    assert max(map(len, packed)) <= SPLIT_BYTES // OPENING_BYTES
    assert len(pack(spans, PartitionLimits(partitions_min=100))) >= 100


def test_a_large_segment_among_small_ones_is_cut_and_they_are_not_spread() -> None:
    small = [span(number, 1, 100) for number in range(1, 11)]
    packed = pack([*small[:5], span(50, 4_000, 4 * SPLIT_BYTES), *small[5:]], PartitionLimits())
    assert [len(each) for each in packed] == [5, 1, 1, 1, 1, 5]


@pytest.mark.parametrize(
    ("bounds", "partitions"),
    [(EVERYTHING, 10), (Bounds(first_offset=1000 + 35, end_offset=1000 + 70), 1)],
)
def test_records_outside_the_bounds_do_not_count(bounds: Bounds, partitions: int) -> None:
    packed = pack([span(1, 50, 500, bounds)], PartitionLimits(records_max=35))
    assert len(packed) == partitions


def test_parts_of_a_segment_that_is_still_written_are_tasks_too() -> None:
    packed = pack([span(1, 10_000, None)], PartitionLimits(split_bytes=16 * 1024 * 1000))
    assert len(packed) == 10


def test_a_size_that_cannot_be_is_a_bounded_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quire.spark.packing.PIECES_MAX", 10)
    for size in (200 * SPLIT_BYTES, None):
        spans = [span(1, 2_000_000, size)]
        packed = pack(spans, PartitionLimits())
        assert len(packed) == 10
        assert [each[0].first for each in packed] == list(range(0, 2_000_000, 200_000))
        assert len(pack(spans, PartitionLimits(partitions_min=20))) == 20, "as asked for"
