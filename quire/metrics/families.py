"""Figures as families of prometheus_client, named and described by the table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)

from quire.metrics.figures import BOUNDS, Durations
from quire.metrics.table import BY_NAME, Kind

_BUCKETS: Final = (*(f"{bound:g}" for bound in BOUNDS), "+Inf")

_FAMILIES: Final = {Kind.COUNTER: CounterMetricFamily, Kind.GAUGE: GaugeMetricFamily}

Labels = tuple[str, ...]


def values(name: str, found: Mapping[Labels, float]) -> Metric:
    """Return a counter or a gauge with a value for each tuple of labels."""
    row = BY_NAME[name]
    family: CounterMetricFamily | GaugeMetricFamily = _FAMILIES[row.kind](
        row.family, row.meaning, labels=row.labels
    )
    for labels, value in found.items():
        family.add_metric(labels, value)
    return family


def value(name: str, number: float) -> Metric:
    """Return a counter or a gauge without labels."""
    return values(name, {(): number})


def histogram(name: str, found: Mapping[Labels, Durations]) -> Metric:
    """Return a histogram with durations for each tuple of labels."""
    row = BY_NAME[name]
    family = HistogramMetricFamily(row.family, row.meaning, labels=row.labels)
    for labels, durations in found.items():
        counts = map(float, accumulate(durations.counts))
        buckets = list(zip(_BUCKETS, counts, strict=True))
        family.add_metric(labels, buckets, durations.seconds)
    return family


def information(name: str, facts: Mapping[str, str]) -> Metric:
    """Return facts as labels of a metric that is always 1."""
    row = BY_NAME[name]
    assert set(facts) == set(row.labels), (name, facts)
    return InfoMetricFamily(row.family, row.meaning, dict(facts))


def single(found: Mapping[str, float]) -> dict[Labels, float]:
    """Return values by one label as `values` takes them."""
    return {(label,): number for label, number in found.items()}


def pairs(found: Iterable[tuple[str, float]]) -> dict[Labels, float]:
    """Return the values by one label; the largest where a label comes twice."""
    most: dict[Labels, float] = {}
    for label, number in found:
        most[(label,)] = max(number, most.get((label,), number))
    return most
