"""Growth over a day, from the figures that the console has kept since its start. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quire.console import words
from quire.console.looks import LEDGERS, LOGS, RECORDS, USED, ClusterLook
from quire.console.ring import Point, growth
from quire.console.views.troubles import quickest_logs

QUICKEST = 10


@dataclass(frozen=True, slots=True)
class Curve:
    """A figure over time."""

    name: str
    title: str
    unit: str
    """`bytes`, `count` or `rate`."""
    points: Sequence[Point]
    now: str
    change: str
    """The growth since the first point."""


@dataclass(frozen=True, slots=True)
class LogCurve:
    """A log that grows, and its records a second over time."""

    log: str
    per_second: float
    share: float
    points: Sequence[Point]


@dataclass(frozen=True, slots=True)
class GrowthPage:
    """The page of growth."""

    since: str
    curves: Sequence[Curve]
    logs: Sequence[LogCurve]
    at_ms: int


def growth_page(snapshot: ClusterLook) -> GrowthPage:
    """Return the page of growth."""
    records = growth(snapshot.figures.get(RECORDS, ()))
    curves = (
        _curve(snapshot, USED, "Space used on disks", "bytes"),
        Curve(
            *("append_rate", "Records a second, all logs", "rate", records),
            words.rate(records[-1].value) if records else words.NONE,
            "",
        ),
        _curve(snapshot, RECORDS, "Records in all logs", "count"),
        _curve(snapshot, LEDGERS, "Ledgers", "count"),
        _curve(snapshot, LOGS, "Logs", "count"),
    )
    quick = quickest_logs(snapshot)
    whole = sum(each.per_second or 0.0 for each in quick) or 1.0
    logs = tuple(
        LogCurve(
            each.view.name,
            each.per_second or 0.0,
            (each.per_second or 0.0) / whole,
            growth(snapshot.log_days.get(each.view.name, ())),
        )
        for each in quick[:QUICKEST]
    )
    return GrowthPage(words.moment(snapshot.since_ms), curves, logs, snapshot.at_ms)


def _curve(snapshot: ClusterLook, name: str, title: str, unit: str) -> Curve:
    points = snapshot.figures.get(name, ())
    say = words.size if unit == "bytes" else words.number
    if not points:
        return Curve(name, title, unit, points, words.NONE, "")
    change = points[-1].value - points[0].value
    sign = "+" if change >= 0 else "−"
    return Curve(name, title, unit, points, say(points[-1].value), f"{sign}{say(abs(change))}")
