"""Overlaying, cutting and caching runs against a dictionary as the model."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quire.run import ScannedRun, scan_run, split_run
from quire.storage.entries.extents import is_tidy, join_ranges, overlay, ranges, split, whole
from quire.storage.entries.write_cache import CachedLedger
from tests.storage.scene import run_of

Ids = st.lists(
    st.sets(st.integers(0, 30), min_size=1, max_size=8).map(sorted), min_size=1, max_size=8
)


def scanned(runs: list[list[int]]) -> list[ScannedRun]:
    return [
        scan_run(run_of(7, *ids, payload=b"%d" % number * (number + 1), lac=-1))
        for number, ids in enumerate(runs)
    ]


def model(runs: list[ScannedRun]) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    for run in runs:
        found.update(split_run(bytes(run.data)))
    return dict(sorted(found.items()))


@given(Ids)
def test_the_later_run_wins(ids: list[list[int]]) -> None:
    runs = scanned(ids)
    tidy = overlay(map(whole, runs))
    assert is_tidy(tidy)
    assert dict(split_run(b"".join(part.data for part in tidy))) == model(runs)


@given(Ids, st.integers(0, 31), st.integers(0, 31), st.integers(1, 600))
def test_the_cache_holds_what_was_inserted_last(
    ids: list[list[int]], first: int, last: int, size: int
) -> None:
    runs = scanned(ids)
    cached = CachedLedger()
    for run in runs:
        cached.insert(run)
    assert is_tidy(cached.slices)
    assert cached.firsts == [part.first for part in cached.slices]
    expected = {entry: frame for entry, frame in model(runs).items() if first <= entry <= last}
    everything = cached.find(first, last, 1 << 30)
    data = b"".join(part.data for part in everything)
    assert (dict(split_run(data)) if data else {}) == expected
    some = cached.find(first, last, size)
    assert some == everything[: len(some)]
    assert len(some) == len(everything) or sum(part.size for part in some) >= size


@given(Ids, st.integers(1, 400))
def test_a_split_keeps_everything_within_its_limit(ids: list[list[int]], size: int) -> None:
    tidy = overlay(map(whole, scanned(ids)))
    groups = list(split(tidy, size))
    assert b"".join(part.data for group in groups for part in group) == b"".join(
        part.data for part in tidy
    )
    for group in groups:
        total = sum(part.size for part in group)
        assert total <= size or sum(part.high - part.low for part in group) == 1


@given(Ids)
def test_ranges_are_the_ids(ids: list[list[int]]) -> None:
    tidy = overlay(map(whole, scanned(ids)))
    spans = ranges(tidy)
    assert [entry for first, last in spans for entry in range(first, last + 1)] == sorted(
        {entry for run in ids for entry in run}
    )
    assert join_ranges(reversed(spans)) == spans
