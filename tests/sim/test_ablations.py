"""The safeguards whose loss shows at once, removed in every test run; `make ablations` has all."""

from __future__ import annotations

import pytest

from tests.sim.ablations.catalog import ABLATIONS
from tests.sim.ablations.hunt import hunt
from tests.sim.ablations.patch import Ablation
from tests.sim.run import run_seed

QUICK = {
    "a bookie refuses adds to a fenced ledger": "B6 no add after a fence",
    "an add is durable before it is acked": "",
    "directories are synced": "",
    "limbo answers unknown": "",
    "an ack needs Qa copies": "L3 acknowledged entries reach the ack quorum",
    "followers wait for CLOSED": "followers reach the end",
    "a take-over is a compare-and-set": "C4 the manifest goes forward",
}
SEEDS = range(150)


@pytest.mark.parametrize(
    "ablation", [each for each in ABLATIONS if each.name in QUICK], ids=lambda each: each.name
)
def test_a_missing_safeguard_is_noticed(ablation: Ablation) -> None:
    expected = QUICK[ablation.name]
    # Which checker speaks first depends on the schedule; the one that is meant must speak soon.
    found = hunt(ablation, SEEDS, failures_max=5 if expected else 1)
    assert found.failures, f"nobody noticed in {len(SEEDS)} seeds"
    assert not expected or expected in found.checkers


def test_every_quick_ablation_exists() -> None:
    assert set(QUICK) <= {each.name for each in ABLATIONS}


def test_nothing_stays_removed() -> None:
    before = run_seed(3, "ledger").trace
    for ablation in ABLATIONS:
        with ablation.removed():
            pass
    assert run_seed(3, "ledger").trace == before
