"""What the benchmark makes of its measurements."""

from __future__ import annotations

import pytest

from quire.bench.figures import COPIES, Figures, RawLimits, Report


def figures(name: str, *, p50_ms: float, count: int = 1000, size: int = 1000) -> Figures:
    return Figures(name, count, size, seconds=1.0, p50_ms=p50_ms, p99_ms=p50_ms, cpu_us=1.0)


def test_figures_of_a_run() -> None:
    latencies = [0.001] * 98 + [0.010, 0.020]
    made = Figures.of("x", 1000, 2.0, latencies, cpu=0.5)
    assert made.per_second == 50
    assert made.megabytes_per_second == pytest.approx(0.05)
    assert (made.p50_ms, made.p99_ms) == (1.0, 20.0)
    assert made.cpu_us == 5000


def test_operations_that_were_many_each_count_as_many() -> None:
    made = Figures.of("x", 1000, 2.0, [0.001, 0.003], cpu=0.5).times(50)
    assert (made.count, made.per_second) == (100, 50)
    assert made.cpu_us == 5000
    assert made.p99_ms == 3.0


def test_a_run_without_results_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing was completed"):
        Figures.of("x", 1000, 2.0, [], cpu=0.5)


def test_shares_of_the_raw_limits() -> None:
    limits = RawLimits(
        sync_4k=figures("sync", p50_ms=0.1),
        sync_1m=figures("bulk", p50_ms=1, count=300, size=1_000_000),
        message_alone=figures("message", p50_ms=0.3),
        message_pipelined=figures("messages", p50_ms=9),
        path_alone=figures("path", p50_ms=0.4),
    )
    alone = figures("alone", p50_ms=0.8)
    many = figures("many", p50_ms=9, count=10_000, size=1000)
    report = Report(limits, (alone, many), reads=(), uvloop=True)
    assert report.share(alone)[0] == pytest.approx(0.4 / 0.8)
    assert report.share(many)[0] == pytest.approx(COPIES * 10 / 300)
