"""What worker processes run: seeds one by one, or in chunks for which the test run waits.

Not in `__main__`: a process that is spawned cannot find what is defined there.
"""

from __future__ import annotations

import gc
import multiprocessing
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tests.sim.run import Result, run_seed

PROCESSES: Final = 2


class Chunk(NamedTuple):
    """A workload's seeds from `start` to before `stop`."""

    workload: str
    start: int
    stop: int

    def __str__(self) -> str:
        return f"{self.workload}-{self.start}"


@dataclass
class Outcome:
    """What became of a chunk."""

    verdicts: Counter[str] = field(default_factory=Counter)
    counters: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    """What each run came to, in the order of seeds (`line_of`)."""


def explain(result: Result) -> str:
    """How to repeat a run that failed."""
    return (
        f"python -m tests.sim --workload {result.workload} --seed {result.seed} --trace\n"
        f"{result.mix}\n{type(result.error).__name__}: {result.error}"
    )


def line_of(result: Result) -> str:
    """Return what a run came to: equal for equal seeds, in each process."""
    return f"{result.workload} {result.seed} {result.verdict} {result.steps} {result.trace}"


def run_job(job: tuple[int, str]) -> Result:
    """Run one seed of a campaign in a worker; its error comes back as text that can travel."""
    gc.disable()  # run_seed collects now and then
    result = run_seed(*job)
    if result.error is not None:
        result.error = AssertionError(f"{type(result.error).__name__}: {result.error}")
    return result


def run_chunk(chunk: Chunk) -> Outcome:
    """Run all seeds of a chunk."""
    gc.disable()
    outcome = Outcome()
    for seed in range(chunk.start, chunk.stop):
        result = run_seed(seed, chunk.workload)
        outcome.verdicts[result.verdict] += 1
        outcome.counters += result.counters
        outcome.lines.append(line_of(result))
        if result.failed:
            outcome.failures.append(explain(result))
    return outcome


class Chunks:
    """The chunks of a test run, handed to worker processes at once. A context manager."""

    def __init__(self, chunks: Iterable[Chunk]) -> None:
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(PROCESSES, mp_context=context)
        self._outcomes: dict[Chunk, Future[Outcome]] = {}
        for chunk in chunks:
            self._start(chunk)

    def _start(self, chunk: Chunk) -> Future[Outcome]:
        if chunk not in self._outcomes:
            self._outcomes[chunk] = self._pool.submit(run_chunk, chunk)
        return self._outcomes[chunk]

    def outcome(self, chunk: Chunk) -> Outcome:
        """Wait for a chunk; one that was not announced is run now."""
        return self._start(chunk).result()

    def line(self, workload: str, seed: int) -> str:
        """Return what a run came to, of the chunk that has it if there is one."""
        found = [
            each
            for each in self._outcomes
            if each.workload == workload and each.start <= seed < each.stop
        ]
        chunk = found[0] if found else Chunk(workload, seed, seed + 1)
        return self.outcome(chunk).lines[seed - chunk.start]

    def __enter__(self) -> Chunks:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)
