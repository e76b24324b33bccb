"""Simulated runs as histories: no anomaly, and every kind of operation is in them."""

from __future__ import annotations

import pytest

from tests.judges.anomalies import find_anomalies
from tests.judges.history import Kind, Outcome
from tests.judges.s2 import convert
from tests.judges.settle import settle
from tests.judges.simulated import WORKLOADS, simulate

SEEDS = range(5, 14)
"""As many as cost ten seconds together; `make judges` judges a thousand runs."""


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_is_a_history(seed: int, workload: str) -> None:
    run = simulate(seed, workload)
    assert run.result.verdict == "ok", run.result.error
    appends = [each for each in run.history if each.kind is Kind.APPEND]
    assert sum(each.is_ok for each in appends) >= run.result.acks > 0
    assert {each.kind for each in run.history} >= {Kind.APPEND, Kind.READ, Kind.END}
    assert all(each.returned is None for each in appends if each.outcome is Outcome.UNKNOWN)
    assert find_anomalies(run.history) == []
    settled = settle(run.history)
    assert settled.wrong == []
    fed = convert(run.history, settled)
    assert fed.files or "offset of an acknowledged append is not known" in fed.refusal
