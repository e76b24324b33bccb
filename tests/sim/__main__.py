"""Running seeds from the command line.

    python -m tests.sim --seed 7 --trace                 one seed, with everything that happened
    python -m tests.sim --seeds 10000 --jobs 2           a campaign; exit code 1 when one fails
    python -m tests.sim --seeds 10000 --from 20000 --json

Ctrl-C ends a campaign with the report of what was run; with `--account FILE` it can go on later.
A seed runs the workload that is its own (`workload_of`) unless `--workload` names one or several.
What is printed about a failure is enough to repeat it: seed, commit, Python version, mix.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.sim.campaign import Job, Summary, load, run_campaign, table_of
from tests.sim.run import WORKLOADS, Result, run_seed, workload_of

EVENTS_SHOWN: Final = 60
INTERRUPTED: Final = 130


def commit() -> str:
    """The commit that is checked out, with a plus when files differ from it."""
    here = Path(__file__).parent
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty=+"],
            cwd=here,
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return found.stdout.strip()


def account(result: Result) -> dict[str, Any]:
    """What to print about a run, ready for JSON."""
    found = {
        "seed": result.seed,
        "workload": result.workload,
        "verdict": result.verdict,
        "commit": commit(),
        "python": platform.python_version(),
        "mix": result.mix,
        "acks": result.acks,
        "steps": result.steps,
        "virtual_seconds": round(result.virtual_seconds, 3),
        "trace": result.trace,
    }
    if result.error is not None:
        found["error"] = f"{type(result.error).__name__}: {result.error}"
    return found


def show(console: Console, result: Result, events: int | None) -> None:
    """Print a run for people; `events` None means all of them."""
    color = {"ok": "green", "void": "yellow", "failed": "red"}[result.verdict]
    facts = account(result)
    title = f"{facts.pop('workload')} seed {facts.pop('seed')}: {facts.pop('verdict')}"
    console.print(f"[bold {color}]{title}[/]")
    for name, value in facts.items():
        console.print(f"  {name:16} {value}", markup=False, highlight=False)
    shown = result.events if events is None else result.events[-events:]
    if len(shown) < len(result.events):
        console.print(f"  … {len(result.events) - len(shown)} events before these (--trace)")
    for event in shown:
        console.print(event, markup=False, highlight=False, soft_wrap=True)
    if result.error is not None:
        lines = traceback.format_exception(result.error, limit=-6)
        console.print("".join(lines), markup=False, highlight=False)


def replay(job: Job) -> Result:
    """Run a seed again, this time writing down what happens."""
    return run_seed(*job, events=True)


def campaign(
    console: Console,
    jobs: list[Job],
    processes: int,
    failures_max: int,
    summary: Summary,
    path: Path | None,
) -> None:
    """Run many seeds and show the failures as they come."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[failed]} failed"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task(
            "simulating", total=len(jobs), completed=summary.done, failed=len(summary.failures)
        )

        def told(result: Result) -> bool:
            if result.failed:
                again = replay((result.seed, result.workload))
                show(console, again, EVENTS_SHOWN)
                summary.failures.append(account(again))
            progress.update(bar, advance=1, failed=len(summary.failures))
            return len(summary.failures) < failures_max

        run_campaign(jobs, processes, summary, told=told, path=path)
    console.print(table_of(summary))


@click.command(help=__doc__)
@click.option("--seed", type=int, help="Run this one seed.")
@click.option("--seeds", type=int, default=300, show_default=True, help="How many seeds to run.")
@click.option("--from", "start", type=int, default=0, show_default=True, help="The first seed.")
@click.option("--jobs", type=int, default=1, show_default=True, help="Processes.")
@click.option("--workload", type=click.Choice(sorted(WORKLOADS)), multiple=True)
@click.option("--trace", is_flag=True, help="With --seed: print every event.")
@click.option("--failures", type=int, default=5, show_default=True, help="Stop after so many.")
@click.option(
    "--account",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep the figures in this file, and go on behind what it has.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead.")
def main(
    seed: int | None,
    seeds: int,
    start: int,
    jobs: int,
    workload: tuple[str, ...],
    trace: bool,
    failures: int,
    path: Path | None,
    as_json: bool,
) -> None:
    console = Console(stderr=as_json)
    if seed is not None:
        results = [replay((seed, name)) for name in workload or (workload_of(seed),)]
        for result in results:
            show(console, result, None if trace else EVENTS_SHOWN if result.failed else 0)
        if as_json:
            click.echo(json.dumps([account(result) for result in results], indent=2))
        sys.exit(any(result.failed for result in results))
    jobs_of = [
        (number, name)
        for number in range(start, start + seeds)
        for name in workload or (workload_of(number),)
    ]
    names = ", ".join(sorted({name for _, name in jobs_of}))
    title = f"seeds {start}–{start + seeds - 1} of {names} at {commit()}"
    try:
        summary = Summary(title) if path is None else load(path, title)
    except (ValueError, TypeError, KeyError) as error:
        raise click.ClickException(f"cannot go on with {path}: {error}") from error
    campaign(console, jobs_of, jobs, failures, summary, path)
    if as_json:
        document = {**vars(summary), "bound": summary.bound, "python": platform.python_version()}
        click.echo(json.dumps(document, indent=2))
    sys.exit(1 if summary.failures else INTERRUPTED if summary.stopped else 0)


if __name__ == "__main__":
    main()
