"""A day of figures in memory: a series keeps its last minutes as they came, and a day in steps.

A step is five minutes and keeps the last figure in it, so a day has 288 of them: 4.6 KB a series,
and 9 MB for 2,000 of them. No database is needed, and a console that starts anew begins anew.

Pure: the caller says when.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

STEP_SECONDS: Final = 300.0
STEPS_MAX: Final = 288
"""A day."""

RECENT_MAX: Final = 24
"""Two minutes, at a look every five seconds."""

RATE_SECONDS: Final = 60.0
"""A rate is over so long a time, as far as there are figures."""


class Point(NamedTuple):
    """A figure at a time, in seconds."""

    at: float
    value: float


class Series:
    """The figures of one thing. Times may not fall; an earlier figure is left out."""

    __slots__ = ("_recent", "_times", "_values")

    def __init__(self) -> None:
        self._recent: deque[Point] = deque(maxlen=RECENT_MAX)
        self._times = array("d")
        self._values = array("d")

    def __len__(self) -> int:
        return len(self._times)

    @property
    def last(self) -> Point | None:
        """The newest figure."""
        return self._recent[-1] if self._recent else None

    def add(self, at: float, value: float) -> None:
        """Add a figure."""
        if self._recent and at < self._recent[-1].at:
            return
        self._recent.append(Point(at, value))
        if self._times and at // STEP_SECONDS == self._times[-1] // STEP_SECONDS:
            self._times[-1], self._values[-1] = at, value
            return
        self._times.append(at)
        self._values.append(value)
        if len(self._times) > STEPS_MAX:
            del self._times[0], self._values[0]

    def day(self) -> Sequence[Point]:
        """Return a figure for each step of the last day, oldest first."""
        return tuple(map(Point, self._times, self._values))

    def recent(self) -> Sequence[Point]:
        """Return the newest figures, oldest first."""
        return tuple(self._recent)

    def rate(self) -> float | None:
        """Return the growth a second over the last minute; None before the second figure. A figure
        that falls, as after a deletion, begins anew: the rate is 0.
        """
        if len(self._recent) < 2:
            return None
        newest = self._recent[-1]
        for point in self._recent:
            if newest.at - point.at <= RATE_SECONDS and point.at < newest.at:
                return max(0.0, (newest.value - point.value) / (newest.at - point.at))
        before = self._recent[-2]
        if before.at >= newest.at:
            return None
        return max(0.0, (newest.value - before.value) / (newest.at - before.at))


def growth(points: Sequence[Point]) -> Sequence[Point]:
    """Return the growth a second between each two points, at the later one."""
    return tuple(
        Point(now.at, max(0.0, (now.value - before.value) / (now.at - before.at)))
        for before, now in pairwise(points)
        if now.at > before.at
    )
