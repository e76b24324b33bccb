"""`python -m quire.testing.sim MODULE:SCENARIO`: a campaign over many seeds, or one seed again.

    python -m quire.testing.sim examples.simulated_bank:scenario --seeds 10000 --jobs 2
    python -m quire.testing.sim examples.simulated_bank:scenario --seed 4711

A campaign runs seeds in processes of its own. Ctrl-C ends it with the report of the runs so far.
The exit code is 1 when a run failed.
"""

from __future__ import annotations

import importlib
import itertools
import json
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from functools import partial
from typing import Any, Final, NamedTuple

import click

from quire.testing.sim.run import BOOKIES, Scenario, SimRun, run

TELL_SECONDS: Final = 5.0
"""A campaign tells its progress this often."""

AHEAD: Final = 4
"""Seeds that wait for each worker: an end of the campaign has no more to wait for."""

STORY_EVENTS: Final = 30
"""The last events of a run that failed are shown; `--seed` shows all."""


class _Brief(NamedTuple):
    """The end of a run, as a worker sends it."""

    seed: int
    error: str | None
    faults: Counter[str]
    seconds: float
    story: str


def scenario_of(target: str) -> Scenario:
    """Return the scenario that `MODULE:NAME` means.

    Raises:
        click.BadParameter: the module or the name does not exist.
    """
    module, _, name = target.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found: Any = getattr(importlib.import_module(module), name or "scenario")
    except (ImportError, AttributeError, ValueError) as error:
        raise click.BadParameter(f"{target}: {error}; write MODULE:SCENARIO") from None
    if not callable(found):
        raise click.BadParameter(f"{target} is not a coroutine function of a world")
    scenario: Scenario = found
    return scenario


def _brief(target: str, bookies: int, seed: int) -> _Brief:
    found = run(scenario_of(target), seed, bookies=bookies)
    error = None if found.error is None else repr(found.error)
    story = found.story(STORY_EVENTS) if found.failed else ""
    return _Brief(seed, error, found.faults, found.seconds, story)


def _ends(target: str, bookies: int, seeds: range, jobs: int) -> Iterator[_Brief]:
    """Yield the runs as they end."""
    work = partial(_brief, target, bookies)
    if jobs == 1:
        yield from map(work, seeds)
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, context, _ignore_interrupts)
    waiting: deque[Future[_Brief]] = deque()
    left = iter(seeds)
    try:
        for seed in itertools.islice(left, AHEAD * jobs):
            waiting.append(pool.submit(work, seed))
        while waiting:
            yield waiting.popleft().result()
            for seed in itertools.islice(left, 1):
                waiting.append(pool.submit(work, seed))
    finally:
        pool.shutdown(cancel_futures=True)


def _ignore_interrupts() -> None:
    """Let the parent decide what Ctrl-C ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class _Campaign:
    """The report of a campaign, so far."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0
        self.failures: list[_Brief] = []
        self.faults: Counter[str] = Counter()
        self.virtual_seconds = 0.0
        self._told = time.monotonic()

    def add(self, end: _Brief) -> None:
        self.done += 1
        self.faults += end.faults
        self.virtual_seconds += end.seconds
        if end.error is not None:
            self.failures.append(end)
        if time.monotonic() - self._told >= TELL_SECONDS:
            self._told = time.monotonic()
            told = f"{self.done} of {self.total} seeds, {len(self.failures)} failed"
            click.echo(told, err=True)

    def fields(self) -> dict[str, Any]:
        """Return the report as JSON has it."""
        failures = [{"seed": each.seed, "error": each.error} for each in self.failures]
        return {
            "seeds": self.done,
            "failures": failures,
            "faults": dict(sorted(self.faults.items())),
            "virtual_seconds": round(self.virtual_seconds, 1),
        }

    def tell(self, target: str) -> None:
        """Print the report."""
        for each in self.failures:
            click.echo(f"{each.story}\n")
        faults = ", ".join(f"{count} × {name}" for name, count in sorted(self.faults.items()))
        hours = self.virtual_seconds / 3600
        click.echo(f"{self.done} seeds, {hours:.2f} virtual hours; {faults or 'no faults'}")
        if not self.failures:
            click.echo("None failed.")
        for each in self.failures:
            click.echo(f"Seed {each.seed} failed: {each.error}")
            again = f"python -m quire.testing.sim {target} --seed {each.seed}"
            click.echo(f"    again: {again}")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("target", metavar="MODULE:SCENARIO")
@click.option("--seeds", type=click.IntRange(1), default=1000, show_default=True, help="How many.")
@click.option("--first", type=click.IntRange(0), default=0, show_default=True, help="From here on.")
@click.option("--seed", type=click.IntRange(0), help="Run one seed, and show all its events.")
@click.option(
    "--jobs", type=click.IntRange(1), default=os.cpu_count() or 1, help="Processes; all cores."
)
@click.option("--bookies", type=click.IntRange(1), default=BOOKIES, show_default=True)
@click.option("--failures", type=click.IntRange(1), default=1, show_default=True,
              help="End after so many seeds have failed.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def main(
    target: str,
    seeds: int,
    first: int,
    seed: int | None,
    jobs: int,
    bookies: int,
    failures: int,
    as_json: bool,
) -> None:
    """Run a scenario in many simulated worlds, and tell which ones it fails in."""
    scenario = scenario_of(target)
    if seed is not None:
        sys.exit(_show(run(scenario, seed, bookies=bookies), as_json))
    campaign = _Campaign(seeds)
    try:
        for end in _ends(target, bookies, range(first, first + seeds), jobs):
            campaign.add(end)
            if len(campaign.failures) >= failures:
                break
    except KeyboardInterrupt:
        click.echo("Interrupted: the report of the runs so far.", err=True)
    if as_json:
        click.echo(json.dumps(campaign.fields()))
    else:
        campaign.tell(target)
    sys.exit(1 if campaign.failures else 0)


def _show(found: SimRun, as_json: bool) -> int:
    if as_json:
        error = None if found.error is None else repr(found.error)
        fields = {"seed": found.seed, "error": error, "trace": found.trace}
        click.echo(json.dumps({**fields, "events": list(found.events)}))
    else:
        click.echo(found.story())
        click.echo(f"trace {found.trace}")
        if found.error is not None:
            traceback.print_exception(found.error)
    return 1 if found.failed else 0
