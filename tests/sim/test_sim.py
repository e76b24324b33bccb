"""Seeds in the default test run, and the proof that a seed says all there is to say about a run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.sim.regressions import SEEDS
from tests.sim.run import Result, run_seed

ROOT = Path(__file__).resolve().parents[2]

LEDGER_SEEDS = range(200)
LOG_SEEDS = range(100)
BLOCK = 25
VOID_MAX = 0.2
"""A share of void runs above this means that the faults leave no room for work."""

DETERMINISM = """
import sys
from tests.sim.run import run_seed
for seed in range(12):
    for workload in ("ledger", "log"):
        result = run_seed(seed, workload)
        print(seed, workload, result.verdict, result.steps, result.trace)
"""


def blocks(seeds: range) -> list[range]:
    return [seeds[start : start + BLOCK] for start in range(0, len(seeds), BLOCK)]


def explain(result: Result) -> str:
    return (
        f"python -m tests.sim --workload {result.workload} --seed {result.seed} --trace\n"
        f"{result.mix}\n{type(result.error).__name__}: {result.error}"
    )


def run_block(workload: str, seeds: range) -> Counter[str]:
    seen: Counter[str] = Counter()
    for seed in seeds:
        result = run_seed(seed, workload)
        if result.error is not None:
            raise AssertionError(explain(result)) from result.error
        seen[result.verdict] += 1
    return seen


@pytest.mark.parametrize("seeds", blocks(LEDGER_SEEDS), ids=str)
def test_ledger(seeds: range) -> None:
    assert run_block("ledger", seeds)["void"] <= 2 * VOID_MAX * len(seeds)


@pytest.mark.parametrize("seeds", blocks(LOG_SEEDS), ids=str)
def test_log(seeds: range) -> None:
    assert run_block("log", seeds)["void"] <= 2 * VOID_MAX * len(seeds)


@pytest.mark.parametrize(("seed", "workload", "found"), SEEDS)
def test_regression(seed: int, workload: str, found: str) -> None:
    result = run_seed(seed, workload)
    assert not result.failed, f"{found}\n{explain(result)}"


def test_faults_really_happen() -> None:
    fired: Counter[str] = Counter()
    for seed in range(1000, 1060):
        fired += run_seed(seed, "ledger").counters
    expected = {
        "crash",
        "power cut",
        "pause",
        "cut",
        "isolate",
        "slow disk",
        "hung disk",
        "sync error",
        "expire session",
        "kill client",
        "pause client",
        "break streams",
        "answer lost",
        "request lost",
        "request repeated",
        "late add",
        "stream broken",
        "message at a cut",
        "store answer lost",
        "store change lost",
        "store unavailable",
        "watch lost",
        "bookie gave up",
    }
    assert expected <= set(fired)


def traces(hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    found = subprocess.run(
        [sys.executable, "-c", DETERMINISM],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return found.stdout


def test_equal_seeds_give_equal_traces_in_other_processes() -> None:
    first = traces("0")
    assert len(first.splitlines()) == 24
    assert traces("1") == first
    assert traces("random") == first


def test_a_run_is_the_same_with_and_without_its_event_log() -> None:
    quiet, loud = run_seed(5, "ledger"), run_seed(5, "ledger", events=True)
    assert quiet.trace == loud.trace
    assert loud.events
