"""The benchmark runs, says what it found, and leaves nothing."""

from __future__ import annotations

from pathlib import Path

from tests.support.command import quire


def test_a_short_benchmark_of_logs(tmp_path: Path) -> None:
    done = quire("bench", "log", "--seconds", "0.2", "--data", str(tmp_path), "--json")
    assert done.code == 0, done.err
    found = done.json[0]
    assert [each["name"] for each in found["figures"]] == [
        "100 B, 20,000 in flight",
        "100 B by 100, as many",
        "1 KiB, as many",
        "one at a time",
        "rolling every 50",
        "ack to follower",
    ]
    for each in found["figures"]:
        assert each["per_second"] > 0
        assert 0 <= each["p50_ms"] <= each["p99_ms"]
    for name in ("catch_up_mb_s", "handoff_ms", "take_over_ms", "crash_ms"):
        assert found[name] > 0
    assert found["metadata_operations_per_append"] == 0
    assert 4 <= found["metadata_operations_per_roll"] < 10
    assert "Warning" not in done.err
    assert list(tmp_path.iterdir()) == []


def test_a_short_benchmark(tmp_path: Path) -> None:
    done = quire("bench", "--seconds", "0.2", "--data", str(tmp_path), "--json")
    assert done.code == 0, done.err
    found = done.json[0]
    assert [each["name"] for each in found["appends"]] == [
        "one at a time",
        "64 in flight",
        "1,000 in flight",
        "4,000 in flight",
        "100 ledgers, one at a time",
        "100 ledgers, each after 50 ms",
    ]
    assert len(found["limits"]) == 5
    assert [each["name"] for each in found["reads"]] == ["in order"]
    for each in found["appends"] + found["limits"] + found["reads"]:
        assert each["per_second"] > 0
        assert 0 < each["p50_ms"] <= each["p99_ms"]
    assert list(tmp_path.iterdir()) == []
