"""Scraped values over time, as Prometheus keeps them: samples by name and labels, and the marks of
series that are not there any more. Pure.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

LOOKBACK_SECONDS: Final = 300.0
"""A value is current for so long, unless its series ended."""

Labels: TypeAlias = tuple[tuple[str, str], ...]
"""Sorted by name; the name of the metric is not among them."""


def labels_of(found: Mapping[str, str]) -> Labels:
    """Return labels as a key. An empty label is none."""
    return tuple(sorted((name, value) for name, value in found.items() if value))


class Sample(NamedTuple):
    """A value at a time. The value of a series that ended is None."""

    at: float
    value: float | None


class Series:
    """See the module. Times ascend."""

    def __init__(self) -> None:
        self._samples: dict[str, dict[Labels, list[Sample]]] = {}

    def add(self, at: float, name: str, labels: Labels, value: float | None) -> None:
        """Add a value; None says that the series ended."""
        self._samples.setdefault(name, {}).setdefault(labels, []).append(Sample(at, value))

    def named(self, name: str) -> Mapping[Labels, list[Sample]]:
        """Return the series of a name."""
        return self._samples.get(name, {})

    def names(self) -> Iterable[str]:
        """Return all names, sorted."""
        return sorted(self._samples)

    def at(self, name: str, time: float) -> Iterator[tuple[Labels, float]]:
        """Yield the current values of a name."""
        for labels, samples in self.named(name).items():
            before = bisect_right(samples, time, key=lambda it: it.at)
            if not before:
                continue
            last = samples[before - 1]
            if last.value is not None and last.at > time - LOOKBACK_SECONDS:
                yield labels, last.value

    def within(
        self, name: str, time: float, seconds: float
    ) -> Iterator[tuple[Labels, list[tuple[float, float]]]]:
        """Yield the values of a name after `time` - `seconds`, until `time`."""
        for labels, samples in self.named(name).items():
            first = bisect_right(samples, time - seconds, key=lambda it: it.at)
            after = bisect_right(samples, time, key=lambda it: it.at)
            found = [
                (each.at, each.value) for each in samples[first:after] if each.value is not None
            ]
            if found:
                yield labels, found
