"""How long to pause between attempts: one policy for every loop that tries again.

Pauses double from `first` seconds up to `last`. With a random generator they are jittered: two
clients that collided do not collide in step again. Pure: no clock and no asyncio.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

_DOUBLINGS_MAX: Final = 30
"""More would only make the numbers larger: 1 ms doubled so often is twelve days."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """The pauses after failures that follow each other."""

    first: float
    """Seconds after the first failure."""
    last: float
    """The longest pause, in seconds."""
    spread: float = 0.5
    """The share of a pause that jitter may take away: 0 none, 1 all of it."""

    def __post_init__(self) -> None:
        assert 0 < self.first <= self.last, f"pauses cannot grow from {self.first} to {self.last} s"
        assert 0 <= self.spread <= 1, f"the spread {self.spread} is not a share"

    def seconds(self, failures: int, rng: Random | None = None) -> float:
        """Return how long to pause.

        Args:
            failures: the failures before the last one, 0 for the first.
            rng: the source of the jitter; None: no jitter.
        """
        pause = min(self.first * 2.0 ** min(failures, _DOUBLINGS_MAX), self.last)
        return pause if rng is None else pause * rng.uniform(1 - self.spread, 1.0)

    def pauses(self, rng: Random | None = None) -> Pauses:
        """Return the pauses of a loop that has not failed yet."""
        return Pauses(self, rng)


class Pauses:
    """The pauses of one loop, which counts its failures since the last success."""

    __slots__ = ("_backoff", "_failures", "_rng")

    def __init__(self, backoff: Backoff, rng: Random | None = None) -> None:
        self._backoff = backoff
        self._rng = rng
        self._failures = 0

    def reset(self) -> None:
        """Note a success: the next pause is the first one again."""
        self._failures = 0

    def next(self) -> float:
        """Note a failure, and return how many seconds to pause."""
        seconds = self._backoff.seconds(self._failures, self._rng)
        self._failures += 1
        return seconds
