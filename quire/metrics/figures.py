"""A histogram of durations as plain numbers. Pure."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

BOUNDS: Final = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025),
    *(0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)
"""Upper bounds of the buckets in seconds: from a sync of a fast disk to a disk that hangs."""


class Durations:
    """A histogram: how many took at most so long, and all of them together."""

    __slots__ = ("counts", "seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        """By bucket, not added up; the last is for what took longer than every bound."""
        self.seconds = 0.0

    @property
    def count(self) -> int:
        """How many were added."""
        return sum(self.counts)

    def add(self, seconds: float, times: int = 1) -> None:
        """Add a duration; `times` of them at once, for work that is done in bundles."""
        self.counts[bisect_left(BOUNDS, seconds)] += times
        self.seconds += seconds * times

    def merge(self, other: Durations) -> None:
        """Add all durations of another histogram."""
        self.counts = [one + two for one, two in zip(self.counts, other.counts, strict=True)]
        self.seconds += other.seconds
