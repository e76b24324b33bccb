"""The pace of copying beside appends: it is halved while appends are slow, and comes back. Pure.

A copy takes the same journal and the same disk as an append. The rate in bytes a second bounds its
share of a healthy disk only: on a slow one, or under load, the same rate makes every writer wait.
So appends are watched. While more than one of a hundred waits longer than the bound, each second of
copying halves the rate; a second without adds an eighth of the full rate back. A thirty-second part
is left always: a disk that is slow by itself must not stop healing, and entries with few copies
are in more danger than a writer that waits.

Not here: copying (read_repair.py), and the arrival of appends (engine.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

STEP_SECONDS: Final = 1.0
"""The rate changes so often at most: long enough for appends to feel the last change."""

SLOW_SHARE_MAX: Final = 0.01
"""More slow appends than this change the rate: the bound is for the 99th percentile."""

RISE: Final = 0.125
"""The share that comes back in a step: from the least to the full rate in 8 s."""

SHARE_MIN: Final = 1 / 32
"""The least share of the rate: 1 MiB a second of 32."""


@dataclass(slots=True)
class PaceCounts:
    """Counters of the guard since the start."""

    halved: int = 0
    """Times that the rate was halved."""
    percent: int = 100
    """The present share of the full rate."""


class CopyPace:
    """The rate of copying. Times are seconds of one clock."""

    def __init__(self, bytes_per_second: float, append_seconds_max: float) -> None:
        """`append_seconds_max` bounds the wait of an append; longer ones count as slow."""
        self._bytes_per_second = bytes_per_second
        self._bound = append_seconds_max
        self._share = 1.0
        self._appends = 0
        self._slow = 0
        self._stepped = float("-inf")
        self.counts: Final = PaceCounts()

    def waited(self, seconds: float, appends: int = 1) -> None:
        """Note appends that became durable together, and how long the first of them took."""
        self._appends += appends
        if seconds > self._bound:
            self._slow += appends

    def pause(self, size: int, now: float) -> float:
        """Return for how many seconds to copy nothing after so many bytes."""
        if now - self._stepped >= STEP_SECONDS:
            self._step(now)
        return size / (self._bytes_per_second * self._share)

    def _step(self, now: float) -> None:
        """Change the rate by the appends since the last step."""
        if self._slow > SLOW_SHARE_MAX * self._appends:
            self._share = max(SHARE_MIN, self._share / 2)
            self.counts.halved += 1
        else:
            self._share = min(1.0, self._share + RISE)
        self.counts.percent = round(100 * self._share)
        self._appends = self._slow = 0
        self._stepped = now
