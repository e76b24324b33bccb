"""A campaign that is ended early says what it did, and goes on behind it."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.sim import campaign
from tests.sim.ablations.catalog import ABLATIONS
from tests.sim.campaign import Job, Summary, load, run_campaign
from tests.sim.chunks import run_job
from tests.sim.run import Result

JOBS: list[Job] = [(seed, "ledger") for seed in range(10)]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that take no time: every third of them is void."""

    def run_job(job: Job) -> Result:
        return Result(*job, verdict="ok" if job[0] % 3 else "void", steps=10, acks=1)

    monkeypatch.setattr(campaign, "run_job", run_job)


def test_a_campaign_that_is_ended_early_goes_on_where_it_was(tmp_path: Path) -> None:
    path, seen = tmp_path / "account.json", list[int]()

    def interrupt(result: Result) -> bool:
        seen.append(result.seed)
        if result.seed == 4:
            signal.raise_signal(signal.SIGTERM)
        return True

    first = Summary("ten")
    run_campaign(JOBS, 1, first, told=interrupt, path=path)
    assert (first.stopped, first.done, first.steps) == (True, 5, 50)

    again = load(path, "ten")
    assert (again.stopped, again.done) == (False, 5)
    run_campaign(JOBS, 1, again, told=interrupt, path=path)
    assert seen == list(range(10))
    assert (again.stopped, again.steps) == (False, 100)
    assert again.verdicts == {"ledger ok": 6, "ledger void": 4}


def refused_job(job: Job) -> Result:
    """A run of a worker process, as `run_job` returns it, that lacks a safeguard of recovery."""
    ablation = next(each for each in ABLATIONS if each.name == "recovery reads fence")
    with ablation.removed():
        return run_job((job[0], ablation.workload))


def test_a_refusal_travels_from_a_worker_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found on two cores: what could not be read by the parent made a campaign hang."""
    monkeypatch.setattr(campaign, "run_job", refused_job)
    refused: list[Result] = []

    def tell(result: Result) -> bool:
        refused.extend([result] if result.refusal is not None else [])
        return not refused

    run_campaign([(seed, "ledger") for seed in range(40)], 2, Summary("forty"), told=tell)
    (result,) = refused
    assert result.failed
    assert "did not deny" in str(result.refusal)


def test_the_bound_counts_no_void_run() -> None:
    summary = Summary("ten")
    assert summary.bound == "nothing was run"
    run_campaign(JOBS, 1, summary, told=lambda _: True)
    assert summary.bound == "0 in 6: below 0.5"
    summary.failures.append({})
    assert summary.bound == "1 in 6 runs failed"


def test_another_campaign_is_not_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "account.json"
    Summary("ten").save(path)
    with pytest.raises(ValueError, match="is the account of ten, not of twenty"):
        load(path, "twenty")
