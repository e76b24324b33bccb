"""The safeguards whose loss shows at once, removed in every test run; `make ablations` has all."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from quire.storage.node import BookieNode
from tests.sim.ablations.catalog import ABLATIONS
from tests.sim.ablations.hunt import hunt
from tests.sim.ablations.patch import Ablation
from tests.sim.run import run_seed
from tests.support.command import is_running

ROOT = Path(__file__).parents[2]
ENDED_SECONDS_MAX = 60.0
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


def test_a_patch_that_does_not_fit_any_more_notices_nothing() -> None:
    async def read(self: object, *given: object, **more: object) -> bytes:
        raise AttributeError("a name that was changed")

    misfit = Ablation("a name was changed", "ledger", lambda: [(BookieNode, "read_tail", read)])
    with pytest.raises(AssertionError, match="a name was changed: its patch does not fit"):
        hunt(misfit, SEEDS)


def test_every_quick_ablation_exists() -> None:
    assert set(QUICK) <= {each.name for each in ABLATIONS}


def test_nothing_stays_removed() -> None:
    before = run_seed(3, "ledger").trace
    for ablation in ABLATIONS:
        with ablation.removed():
            pass
    assert run_seed(3, "ledger").trace == before


def test_nothing_is_left_of_a_hunt_that_is_told_to_end() -> None:
    command = [sys.executable, "-m", "tests.sim.ablations", "--jobs", "2", "--seeds", "1000000"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as hunting:
        impatience = threading.Timer(ENDED_SECONDS_MAX, hunting.kill)
        impatience.start()
        try:
            assert hunting.stdout is not None
            assert hunting.stdout.readline(), "no row came in time"
            processes = Path(f"/proc/{hunting.pid}/task/{hunting.pid}/children").read_text()
            children = [int(child) for child in processes.split()]
            assert len(children) >= 2
            hunting.terminate()
            assert hunting.wait() == 128 + signal.SIGTERM
        finally:
            impatience.cancel()
            hunting.kill()
    end = time.monotonic() + ENDED_SECONDS_MAX
    while left := [child for child in children if is_running(child)]:
        assert time.monotonic() < end, f"processes {left} go on"
        time.sleep(0.01)
