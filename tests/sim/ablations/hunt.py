"""Running seeds without a safeguard until enough of them fail."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import Final, NamedTuple

from tests.sim.ablations.patch import Ablation
from tests.sim.ablations.writing import kept
from tests.sim.history import Violation
from tests.sim.run import run_seed

FAILURES_SHOWN: Final = 3

MISFITS: Final = (AttributeError, ImportError, NameError, TypeError)
"""Errors of a patch that does not fit the code any more. They notice no missing safeguard."""


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
    with ablation.removed():
        for seed in seeds:
            result = run_seed(seed, ablation.workload, adjust=ablation.adjust)
            kept.clear()
            done += 1
            if result.refusal is not None:
                refused.append(seed)
            if isinstance(result.error, MISFITS):
                raise AssertionError(f"{ablation.name}: its patch does not fit") from result.error
            if result.error is not None:
                failures.append(seed)
                checkers[_speaker(result.error)] += 1
                if len(failures) >= failures_max:
                    break
    return Finding(ablation, done, failures, checkers, refused, time.monotonic() - began)


def _speaker(error: BaseException) -> str:
    return error.name if isinstance(error, Violation) else type(error).__name__
