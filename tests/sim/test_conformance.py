"""Simulated runs are behaviours of the specification, and stop being so without a safeguard."""

from __future__ import annotations

import pytest

from tests.sim.ablations.catalog import ABLATIONS
from tests.sim.run import run_seed, workload_of

PLANTED = {
    "recovery reads fence": 20,
    "an error is not a negative": 240,
    "absence needs Qw − Qa + 1 negatives": 20,
}
"""Safeguards of which the specification misses the first wrong step, and seeds to find it in."""


@pytest.mark.parametrize("name", PLANTED)
def test_a_run_without_a_safeguard_is_refused(name: str) -> None:
    ablation = next(each for each in ABLATIONS if each.name == name)
    with ablation.removed():
        seeds = range(PLANTED[name])
        results = (run_seed(seed, "ledger", adjust=ablation.adjust) for seed in seeds)
        assert any(result.refusal is not None for result in results)


def test_a_refusal_fails_the_run() -> None:
    ablation = next(each for each in ABLATIONS if each.name in PLANTED)
    with ablation.removed():
        for seed in range(PLANTED[ablation.name]):
            result = run_seed(seed, "ledger", adjust=ablation.adjust)
            if result.refusal is not None:
                assert result.failed
                assert result.refusal.name == "a trace is a behaviour of the specification"
                return
    pytest.fail("no run was refused")


@pytest.mark.parametrize("seed", range(20))
def test_runs_of_all_workloads_are_accepted(seed: int) -> None:
    assert run_seed(seed, workload_of(seed)).refusal is None
