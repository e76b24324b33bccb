"""What Spark's filters say about where to look.

Only what narrows a stretch of the log is of use: comparisons of `offset`, `timestamp` and `segment`
with a value, and of `log`. Spark evaluates every filter again on what was read, so that taking one
for wider than it is can cost time and nothing else.

Pure: no clock and no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from quire.log.bounds import EVERYTHING, Bounds
from quire.log.position import Position, to_ms

_LOWER = (GreaterThan, GreaterThanOrEqual, EqualTo, EqualNullSafe)
_UPPER = (LessThan, LessThanOrEqual, EqualTo, EqualNullSafe)


def bounds_of(filters: Iterable[Filter]) -> Bounds:
    """Return bounds that hold every record for which all filters hold."""
    bounds = EVERYTHING
    for each in filters:
        bounds &= _bounds(each)
    return bounds


def logs_of(filters: Iterable[Filter]) -> frozenset[str] | None:
    """Return the only logs that can pass all filters; None when they do not say."""
    chosen: frozenset[str] | None = None
    for each in filters:
        if isinstance(each, EqualTo | EqualNullSafe | In) and each.attribute == ("log",):
            values = each.value if isinstance(each, In) else (each.value,)
            names = frozenset(value for value in values if isinstance(value, str))
            chosen = names if chosen is None else chosen & names
    return chosen


def _bounds(given: Filter) -> Bounds:
    attribute = getattr(given, "attribute", None)
    value = getattr(given, "value", None)
    if isinstance(given, In) and given.value and None not in given.value:
        low, high = min(given.value), max(given.value)
        return _narrow(attribute, low, None) & _narrow(attribute, None, high)
    low = value if isinstance(given, _LOWER) else None
    high = value if isinstance(given, _UPPER) else None
    return _narrow(attribute, low, high)


def _narrow(attribute: Any, low: Any, high: Any) -> Bounds:
    """Bounds from the lowest to the highest value of a column, both included."""
    if attribute == ("offset",) and _all(int, low, high):
        return Bounds(
            first_offset=EVERYTHING.first_offset if low is None else low,
            end_offset=EVERYTHING.end_offset if high is None else high + 1,
        )
    if attribute == ("segment",) and _all(int, low, high):
        return Bounds(
            first=EVERYTHING.first if low is None else Position(low, 0, 0),
            end=EVERYTHING.end if high is None else Position(high + 1, 0, 0),
        )
    if attribute == ("timestamp",) and _all(datetime, low, high):
        return Bounds(
            first_ms=EVERYTHING.first_ms if low is None else to_ms(low.astimezone(UTC)),
            end_ms=EVERYTHING.end_ms if high is None else to_ms(high.astimezone(UTC)) + 1,
        )
    return EVERYTHING


def _all(kind: type, *values: Any) -> bool:
    return all(value is None or isinstance(value, kind) for value in values)
