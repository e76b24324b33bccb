"""Which faults a run has, how often, and for how long: drawn from its seed. Pure.

A run that has every fault all the time shows few defects: nothing goes well for long enough. So
each kind is on in half of the runs, with a rate of its own, and some runs have none.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class Trouble(StrEnum):
    """A kind of fault."""

    CRASH = "process crashed"
    PAUSE = "process paused"
    CUT_STORE = "process cut off from the metadata store"
    CUT_BOOKIE = "process cut off from a bookie"
    CUT_PROCESS = "process cut off from another"
    BOOKIE_DOWN = "bookie killed"
    BOOKIE_SILENT = "bookie paused"
    EXPIRE = "session expired"


RATES: Final[Mapping[Trouble, float]] = {
    Trouble.CRASH: 0.4,
    Trouble.PAUSE: 0.2,
    Trouble.CUT_STORE: 0.2,
    Trouble.CUT_BOOKIE: 0.4,
    Trouble.CUT_PROCESS: 0.2,
    Trouble.BOOKIE_DOWN: 0.1,
    Trouble.BOOKIE_SILENT: 0.2,
    Trouble.EXPIRE: 0.1,
}
"""Events in a virtual second, on average, where a kind is on."""

SECONDS: Final = (0.05, 0.5, 2.0, 15.0)
"""How long a fault lasts, on average: shorter than a request, or longer than a session."""


@dataclass(frozen=True, slots=True)
class Weather:
    """The faults of a run.

    Args:
        rates: events in a virtual second of each kind; a kind that is missing never comes.
        latency: seconds that a message takes, on average.
        stalls: how many of a thousand messages take a hundred times as long.
    """

    rates: Mapping[Trouble, float] = field(default_factory=dict)
    latency: float = 0.001
    stalls: int = 0

    @classmethod
    def draw(cls, rng: random.Random) -> Weather:
        """Return the weather of a run.

        Args:
            rng: the run's chance.

        Returns:
            Each kind of fault with a probability of one half; no fault in one run of ten.
        """
        if rng.random() < 0.1:
            return cls(latency=rng.choice((0.0, 0.001)))
        rates = {
            kind: rate * rng.choice((0.3, 1.0, 3.0))
            for kind, rate in RATES.items()
            if rng.random() < 0.5
        }
        return cls(rates, rng.choice((0.0002, 0.001, 0.01)), rng.choice((0, 0, 3, 20)))

    def next_trouble(self, rng: random.Random) -> tuple[float, Trouble] | None:
        """Return when the next fault comes, in seconds from now, and its kind; None: never."""
        total = sum(self.rates.values())
        if not total:
            return None
        kinds = sorted(self.rates)
        weights = [self.rates[kind] for kind in kinds]
        return rng.expovariate(total), rng.choices(kinds, weights)[0]

    def seconds(self, rng: random.Random) -> float:
        """Return how long a fault lasts."""
        return rng.expovariate(1 / rng.choice(SECONDS))

    def travel(self, rng: random.Random) -> float:
        """Return the seconds that a message takes."""
        slow = 100.0 if self.stalls and rng.random() * 1000 < self.stalls else 1.0
        return slow * self.latency * (0.5 + rng.random())
