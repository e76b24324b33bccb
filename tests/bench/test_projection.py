"""The projection multiplies what was measured, and nothing else."""

from __future__ import annotations

import pytest

from benchmarks.projection import MIB, Cluster, Constants, measured, project, table

KNOWN = Constants(client_append=1e-5, bookies_append=4e-5, written_per_byte=6.0)
SMALL = Cluster(10, 10_000)
LARGE = Cluster(1_000, 1_000_000)


def test_appends_grow_with_bookies_and_cost_each_bookie_the_same() -> None:
    small, large = project(SMALL, KNOWN), project(LARGE, KNOWN)
    assert small.appends == pytest.approx(10 / 4e-5)
    assert large.appends == pytest.approx(100 * small.appends)
    assert large.disk_bytes == pytest.approx(small.disk_bytes)
    assert small.client_cores == pytest.approx(small.appends * 1e-5)


def test_a_loss_is_copied_by_all_others() -> None:
    found = project(SMALL, KNOWN)
    assert found.lost_ledgers == 3_000
    copying = 3_000 * 64 * MIB / (9 * 32 * MIB)
    assert found.healed_seconds == pytest.approx(600 + found.first_request_seconds + copying)
    assert project(LARGE, KNOWN).healed_seconds < found.healed_seconds


def test_an_index_grows_with_its_ledgers_alone() -> None:
    few, many = project(Cluster(10, 1_000), KNOWN), project(Cluster(1_000, 100_000), KNOWN)
    assert many.index_bytes == pytest.approx(100 * few.index_bytes)
    assert many.round_seconds == pytest.approx(100 * few.round_seconds)


def test_the_record_has_what_the_projection_needs() -> None:
    known = measured()
    assert 0 < known.client_append < known.bookies_append < 1e-3
    assert known.written_per_byte > 3, "three copies"
    shown = table([SMALL, LARGE], known)
    assert "1,000 bookies, 1,000,000 ledgers" in shown
    assert len(set(map(len, (line.split("|") for line in shown.splitlines())))) == 1
