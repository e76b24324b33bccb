"""Simulated logs are behaviours of the specification, and stop being so without a safeguard."""

from __future__ import annotations

import pytest

from tests.sim.ablations.catalog import ABLATIONS
from tests.sim.log_conformance import LogConformance
from tests.sim.run import run_seed
from tests.spec.events import Event, Kind

NAME = "what happens to a log is a behaviour of the specification"
PLANTED = {
    "a segment is sealed when closed": 5,
    "a log is fenced before it goes": 5,
}
"""Safeguards of a log, and seeds in which the specification misses the first wrong step."""


@pytest.mark.parametrize("name", PLANTED)
def test_a_run_without_a_safeguard_is_refused(name: str) -> None:
    ablation = next(each for each in ABLATIONS if each.name == name)
    with ablation.removed():
        for seed in range(PLANTED[name]):
            result = run_seed(seed, ablation.workload, adjust=ablation.adjust)
            if result.refusal is not None and result.refusal.name == NAME:
                assert result.failed
                return
    pytest.fail("no run was refused")


def test_a_ledger_of_no_log_is_not_judged() -> None:
    conformance = LogConformance(lambda ledger: None)
    conformance.told(1, Event(Kind.ADDED, "b0", 0, 0))
    conformance.told(1, Event(Kind.DELETED))
    assert conformance.refusal() is None


@pytest.mark.parametrize("workload", ["log", "deletion", "election", "service"])
def test_runs_are_accepted(workload: str) -> None:
    for seed in range(2):
        assert run_seed(seed, workload).refusal is None
