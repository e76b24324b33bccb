"""Running very many seeds: what was found, also when somebody ends it early.

A campaign runs its seeds in order. Its account can be kept in a file, which is replaced every half
minute: a campaign that was ended, however hard, has its figures there, and the same command goes on
behind what was done. Ctrl-C and SIGTERM end it in good order, with the report of what was run.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any, Final

from rich.table import Table

from tests.sim.chunks import run_job
from tests.sim.run import Result

CHUNK: Final = 10
SEEDS_PER_PROCESS: Final = 2000
SAVE_SECONDS: Final = 30.0
ENDING: Final = (signal.SIGINT, signal.SIGTERM)

Job = tuple[int, str]
"""A seed and its workload."""


@dataclass
class Summary:
    """What a campaign came to so far. `title` says what it is a campaign of."""

    title: str
    done: int = 0
    """Jobs, from the first."""
    seconds: float = 0.0
    stopped: bool = False
    verdicts: Counter[str] = field(default_factory=Counter)
    counters: Counter[str] = field(default_factory=Counter)
    steps: int = 0
    acks: int = 0
    virtual_seconds: float = 0.0
    failures: list[dict[str, Any]] = field(default_factory=list)

    def add(self, result: Result) -> None:
        self.done += 1
        self.verdicts[f"{result.workload} {result.verdict}"] += 1
        self.counters += result.counters
        self.steps += result.steps
        self.acks += result.acks
        self.virtual_seconds += result.virtual_seconds

    @property
    def bound(self) -> str:
        """What the campaign says about a seed that was not run, with 95 % confidence."""
        told = sum(n for verdict, n in self.verdicts.items() if not verdict.endswith("void"))
        if self.failures:
            return f"{len(self.failures)} in {told:,} runs failed"
        return f"0 in {told:,}: below {3 / told:.2g}" if told else "nothing was run"

    def save(self, path: Path) -> None:
        """Replace the account in a file, so that a reader sees an old one or this one."""
        draft = path.with_name(path.name + ".new")
        draft.write_text(json.dumps(vars(self), indent=2) + "\n")
        os.replace(draft, path)


def load(path: Path, title: str) -> Summary:
    """Return the account in a file; an empty one when there is no file.

    Raises `ValueError` when it is the account of another campaign.
    """
    if not path.exists():
        return Summary(title)
    fields = json.loads(path.read_text())
    counts = {name: Counter(fields[name]) for name in ("verdicts", "counters")}
    found = Summary(**{**fields, **counts, "stopped": False})
    if found.title != title:
        raise ValueError(f"{path} is the account of {found.title}, not of {title}")
    return found


def run_campaign(
    jobs: Iterable[Job],
    processes: int,
    summary: Summary,
    *,
    told: Callable[[Result], bool],
    path: Path | None = None,
) -> None:
    """Run the jobs that `summary` does not have yet and add them to it.

    `told` hears of every result; the campaign stops when it returns false. So it does at Ctrl-C.
    """
    began = time.monotonic() - summary.seconds
    saved = time.monotonic()
    with _ended_by_signals(summary):
        for result in _results(islice(jobs, summary.done, None), processes):
            summary.add(result)
            summary.seconds = time.monotonic() - began
            if path is not None and time.monotonic() - saved > SAVE_SECONDS:
                summary.save(path)
                saved = time.monotonic()
            if not told(result) or summary.stopped:
                break
    if path is not None:
        summary.save(path)


def _results(jobs: Iterator[Job], processes: int) -> Iterator[Result]:
    """Results in the order of the jobs, so that what is done is a beginning of them."""
    if processes == 1:
        yield from map(run_job, jobs)
        return
    context = multiprocessing.get_context("spawn")
    lives = SEEDS_PER_PROCESS // CHUNK
    with context.Pool(processes, let_the_parent_decide, maxtasksperchild=lives) as pool:
        yield from pool.imap(run_job, jobs, chunksize=CHUNK)


def let_the_parent_decide() -> None:
    """Ctrl-C reaches every process of the terminal; only the parent obeys."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _ended_by_signals(summary: Summary) -> Iterator[None]:
    """Stop behind the seed under way at Ctrl-C and SIGTERM; at once when it comes again."""

    def stop(number: int, frame: FrameType | None) -> None:
        if summary.stopped:
            raise KeyboardInterrupt
        summary.stopped = True

    before = {number: signal.signal(number, stop) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def table_of(summary: Summary) -> Table:
    """A campaign's figures for people."""
    runs = sum(summary.verdicts.values())
    word = "stopped after" if summary.stopped else "took"
    table = Table("what", "count", title=f"{summary.title}\n{word} {summary.seconds:,.1f} s")
    for name, count in sorted(summary.verdicts.items()):
        table.add_row(name, f"{count:,}")
    table.add_row("failing seeds", summary.bound)
    table.add_row("runs per second", f"{runs / max(summary.seconds, 1e-9):,.1f}")
    table.add_row("steps", f"{summary.steps:,}")
    table.add_row("acknowledged appends", f"{summary.acks:,}")
    table.add_row("virtual hours", f"{summary.virtual_seconds / 3600:,.1f}")
    for name, count in summary.counters.most_common():
        table.add_row(name, f"{count:,}")
    return table
