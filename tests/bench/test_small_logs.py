"""The benchmark of many small logs: its table, and a run of a few logs."""

from __future__ import annotations

import pytest

from benchmarks import small_logs
from benchmarks.small_logs import Figures, main, show


def test_a_row_has_the_medians_and_the_range_of_an_append() -> None:
    rounds = [Figures(1000, 200.0, 5.0, 1.4, 0.02, us, 1.5) for us in (900.0, 1000.0, 1300.0)]
    assert show(rounds) == "| 1,000 | 200 | 5.0 | 1.4 | 0.020 | 1000 [900, 1300] | 1.50 |"


def test_each_number_of_logs_takes_its_turn_in_each_round(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    turns: list[int] = []

    def measure(given: object, count: int) -> Figures:
        turns.append(count)
        return Figures(count, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)

    monkeypatch.setattr(small_logs, "measure_apart", measure)
    main(["--logs", "3,5", "--rounds", "2"])
    assert turns == [3, 5, 3, 5]
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert [line.count("|") for line in lines] == [8] * 4
