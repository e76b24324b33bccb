"""Running seeds without a safeguard until enough of them fail."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import Final, NamedTuple

from tests.sim.ablations.misfit import MISFITS
from tests.sim.ablations.patch import WITHOUT_END, Ablation
from tests.sim.ablations.writing import kept
from tests.sim.history import Violation
from tests.sim.run import run_seed

FAILURES_SHOWN: Final = 3


def is_blunt(checker: str) -> bool:
    """Return whether no invariant spoke: a run did not end, or an error has no checker."""
    return checker in WITHOUT_END or (checker[0].isupper() and checker.isidentifier())


@dataclass
class Finding:
    """What an ablation came to."""

    ablation: Ablation
    seeds: int
    failures: list[int]
    checkers: Counter[str]
    refused: list[int]
    """Seeds whose traces the specification refused, whether or not a checker spoke."""
    seconds: float

    @property
    def is_blunt(self) -> bool:
        """Whether the loss showed by runs without an end or by errors alone.

        The patch may break more than the safeguard then. The ablation says where that is right.
        """
        expected = any(checker in self.ablation.shows for checker in self.checkers)
        return bool(self.checkers) and not expected and all(map(is_blunt, self.checkers))


class Hunt(NamedTuple):
    """What a process of its own is to hunt."""

    ablation: Ablation
    seeds: range
    failures_max: int


def carry_out(task: Hunt) -> Finding:
    """Hunt. Not beside the command: a new process does not know what is in its `__main__`."""
    return hunt(*task)


def hunt(ablation: Ablation, seeds: range, failures_max: int = FAILURES_SHOWN) -> Finding:
    """Run seeds without a safeguard until enough of them fail.

    Raises AssertionError when the patch that removes it does not fit the code any more.
    """
    failures: list[int] = []
    checkers: Counter[str] = Counter()
    refused: list[int] = []
    began, done = time.monotonic(), 0
    with ablation.removed() as misfits:
        for seed in seeds:
            result = run_seed(seed, ablation.workload, adjust=ablation.adjust)
            kept.clear()
            done += 1
            if result.refusal is not None:
                refused.append(seed)
            if isinstance(result.error, MISFITS):
                misfits.append(result.error)
            if misfits:
                raise AssertionError(f"{ablation.name}: its patch does not fit") from misfits[0]
            if result.error is not None:
                failures.append(seed)
                checkers[_speaker(result.error)] += 1
                if len(failures) >= failures_max:
                    break
    return Finding(ablation, done, failures, checkers, refused, time.monotonic() - began)


def _speaker(error: BaseException) -> str:
    return error.name if isinstance(error, Violation) else type(error).__name__
