"""One drill in small, on real processes: every bookie and every worker is killed."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from tests.judges.anomalies import find_anomalies
from tests.judges.drills import hurt, run_drill
from tests.judges.history import load


def test_nothing_acknowledged_is_lost_when_all_are_killed(tmp_path: Path) -> None:
    report = asyncio.run(run_drill("crash-of-all", tmp_path, size=20, rounds=1))
    history = load(sorted(tmp_path.glob("*.ndjson")))
    assert report.wrong == []
    assert find_anomalies(history) == []
    assert sum(each.kind == "append" and each.is_ok for each in history) >= 40


def test_each_kind_of_file_is_hurt(tmp_path: Path) -> None:
    for name in ("journal/1.journal", "entries/1.entries", "checkpoint-0", "checkpoint-1", "LOCK"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(bytes(8192))
    harmed = hurt(tmp_path, lambda path, _: path.unlink(), random.Random(1))
    assert len(harmed) == 3
    assert (tmp_path / "LOCK").stat().st_size == 8192
