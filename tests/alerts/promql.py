"""The part of PromQL that the rules use, evaluated on scraped series.

A library parses; the functions here are Prometheus' own, with its extrapolation of rates. What the
rules do not use is refused. Two proofs that it agrees with Prometheus: every case of
deploy/prometheus/alerts_test.yml comes out as there (`test_promql.py`; `make alerts` has promtool
judge the same file), and promtool replays the series of the drills where it is present.

Pure.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, TypeAlias

import promql_parser as syntax

from tests.alerts.series import Labels, Series, labels_of

Vector: TypeAlias = dict[Labels, float]
"""Values by labels, without the name of the metric."""

Points: TypeAlias = Sequence[tuple[float, float]]
"""Values with their times, at least one."""


class UnknownSyntaxError(Exception):
    """An expression uses something that no rule used so far."""


def evaluate(text: str, series: Series, time: float) -> Vector | float:
    """Return the value of an expression at a time."""
    return _value(syntax.parse(text), series, time)


def _value(node: Any, series: Series, time: float) -> Vector | float:
    match node:
        case syntax.NumberLiteral():
            return float(node.val)
        case syntax.ParenExpr():
            return _value(node.expr, series, time)
        case syntax.UnaryExpr():
            return _arithmetic(lambda one, two: two - one, _value(node.expr, series, time), 0.0)
        case syntax.VectorSelector():
            matches = _matcher(node)
            found = series.at(node.name or "", time)
            return {labels: value for labels, value in found if matches(labels)}
        case syntax.AggregateExpr():
            return _aggregate(node, _vector(node.expr, series, time))
        case syntax.Call():
            return _call(node, series, time)
        case syntax.BinaryExpr():
            one, two = _value(node.lhs, series, time), _value(node.rhs, series, time)
            return _binary(str(node.op), one, two)
    raise UnknownSyntaxError(f"{type(node).__name__}: {node}")


def _vector(node: Any, series: Series, time: float) -> Vector:
    found = _value(node, series, time)
    if isinstance(found, float):
        raise UnknownSyntaxError(f"a number where a vector is expected: {node}")
    return found


def _matcher(node: Any) -> Callable[[Labels], bool]:
    if node.offset is not None or node.at is not None or node.matchers.or_matchers:
        raise UnknownSyntaxError(str(node))
    wanted = [(each.name, str(each.op), each.value) for each in node.matchers.matchers]

    def matches(labels: Labels) -> bool:
        found = dict(labels)
        return all(_match(op, value, found.get(name, "")) for name, op, value in wanted)

    return matches


def _match(op: str, wanted: str, found: str) -> bool:
    is_same = bool(re.fullmatch(wanted, found)) if op.endswith(("Re", "~")) else wanted == found
    if op in ("MatchOp.Equal", "MatchOp.Re"):
        return is_same
    if op in ("MatchOp.NotEqual", "MatchOp.NotRe"):
        return not is_same
    raise UnknownSyntaxError(op)


# Operators

_COMPARE: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "<": lambda one, two: one < two,
    "<=": lambda one, two: one <= two,
    ">": lambda one, two: one > two,
    ">=": lambda one, two: one >= two,
    "==": lambda one, two: one == two,
    "!=": lambda one, two: one != two,
}

_COMPUTE: Final[Mapping[str, Callable[[float, float], float]]] = {
    "+": lambda one, two: one + two,
    "-": lambda one, two: one - two,
    "*": lambda one, two: one * two,
    "/": lambda one, two: (
        one / two if two else math.nan if not one else math.copysign(math.inf, one)
    ),
}


def _binary(op: str, one: Vector | float, two: Vector | float) -> Vector | float:
    if op in _COMPUTE:
        return _arithmetic(_COMPUTE[op], one, two)
    if op in ("and", "or", "unless") and isinstance(one, dict) and isinstance(two, dict):
        if op == "or":
            return {**two, **one}
        return {labels: value for labels, value in one.items() if (labels in two) == (op == "and")}
    if op in _COMPARE and isinstance(one, dict):
        other = two if isinstance(two, dict) else dict.fromkeys(one, two)
        holds = _COMPARE[op]
        return {
            labels: value
            for labels, value in one.items()
            if labels in other and holds(value, other[labels])
        }
    raise UnknownSyntaxError(op)


def _arithmetic(
    compute: Callable[[float, float], float], one: Vector | float, two: Vector | float
) -> Vector | float:
    if isinstance(one, float) and isinstance(two, float):
        return compute(one, two)
    if isinstance(one, float):
        assert isinstance(two, dict)
        return {labels: compute(one, value) for labels, value in two.items()}
    if isinstance(two, float):
        return {labels: compute(value, two) for labels, value in one.items()}
    return {labels: compute(value, two[labels]) for labels, value in one.items() if labels in two}


_AGGREGATE: Final[Mapping[str, Callable[[Sequence[float]], float]]] = {
    "sum": math.fsum,
    "min": min,
    "max": max,
    "count": lambda found: float(len(found)),
}


def _aggregate(node: Any, found: Vector) -> Vector:
    kept: set[str] = set()
    if node.modifier is not None:
        if node.modifier.type != syntax.AggModifierType.By:
            raise UnknownSyntaxError(str(node))
        kept = set(node.modifier.labels)
    groups: dict[Labels, list[float]] = {}
    for labels, value in found.items():
        group = tuple(each for each in labels if each[0] in kept)
        groups.setdefault(group, []).append(value)
    combine = _AGGREGATE.get(str(node.op))
    if combine is None:
        raise UnknownSyntaxError(str(node.op))
    return {labels: combine(values) for labels, values in groups.items()}


# Functions


def _call(node: Any, series: Series, time: float) -> Vector | float:
    name, given = node.func.name, list(node.args)
    if name == "time":
        return time
    if name == "histogram_quantile":
        share = _value(given[0], series, time)
        assert isinstance(share, float)
        return _quantiles(share, _vector(given[1], series, time))
    over = _OVER_TIME.get(name)
    if over is None or not isinstance(given[0], syntax.MatrixSelector):
        raise UnknownSyntaxError(str(node))
    more = [_value(each, series, time) for each in given[1:]]
    selector, matches = given[0].vector_selector, _matcher(given[0].vector_selector)
    seconds = _seconds(given[0].range)
    found: Vector = {}
    for labels, points in series.within(selector.name or "", time, seconds):
        if matches(labels) and (value := over(points, time, seconds, *more)) is not None:
            found[labels] = value
    return found


def _seconds(found: timedelta) -> float:
    return found.total_seconds()


def _extrapolated(
    points: Points, time: float, seconds: float, *, is_counter: bool = True
) -> float | None:
    """Return the increase over a range as Prometheus does: beyond the first and the last value, up
    to the ends of the range or half the distance of two values.
    """
    if len(points) < 2:
        return None
    (begun, first), (ended, last) = points[0], points[-1]
    grown = last - first
    if is_counter:
        grown += sum(one for (_, one), (_, two) in itertools.pairwise(points) if two < one)
    sampled = ended - begun
    distance = sampled / (len(points) - 1)
    before, after = begun - (time - seconds), time - ended
    if before >= distance * 1.1:
        before = distance / 2
    if is_counter and grown > 0 and first >= 0:
        before = min(before, sampled * (first / grown))
    if after >= distance * 1.1:
        after = distance / 2
    return grown * (sampled + before + after) / sampled


def _delta(points: Points, time: float, seconds: float) -> float | None:
    return _extrapolated(points, time, seconds, is_counter=False)


def _rate(points: Points, time: float, seconds: float) -> float | None:
    grown = _extrapolated(points, time, seconds)
    return None if grown is None else grown / seconds


def _changes(points: Points, time: float, seconds: float) -> float:
    values = [value for _, value in points]
    return float(sum(one != two for one, two in itertools.pairwise(values)))


def _predicted(points: Points, time: float, seconds: float, ahead: float) -> float | None:
    """Return the value of the line of least squares, so many seconds ahead."""
    if len(points) < 2:
        return None
    middle = math.fsum(at for at, _ in points) / len(points)
    mean = math.fsum(value for _, value in points) / len(points)
    spread = math.fsum((at - middle) ** 2 for at, _ in points)
    slope = math.fsum((at - middle) * (value - mean) for at, value in points) / spread
    return mean + slope * (time + ahead - middle)


_OVER_TIME: Final[Mapping[str, Callable[..., float | None]]] = {
    "increase": _extrapolated,
    "delta": _delta,
    "rate": _rate,
    "changes": _changes,
    "predict_linear": _predicted,
    "max_over_time": lambda points, *_: max(value for _, value in points),
    "min_over_time": lambda points, *_: min(value for _, value in points),
}


def _quantiles(share: float, found: Vector) -> Vector:
    histograms: dict[Labels, list[tuple[float, float]]] = {}
    for labels, value in found.items():
        bound = float(dict(labels)["le"])
        rest = tuple(each for each in labels if each[0] != "le")
        histograms.setdefault(rest, []).append((bound, value))
    return {labels: _quantile(share, sorted(each)) for labels, each in histograms.items()}


def _quantile(share: float, buckets: Sequence[tuple[float, float]]) -> float:
    """Return a quantile by the buckets of a histogram, a line within the bucket."""
    total = buckets[-1][1]
    if not total or buckets[-1][0] != math.inf or len(buckets) < 2:
        return math.nan
    rank = share * total
    at = next(number for number, (_, count) in enumerate(buckets) if count >= rank)
    if at == len(buckets) - 1:
        return buckets[-2][0]
    start, below = buckets[at - 1] if at else (0.0, 0.0)
    end, upto = buckets[at]
    return start + (end - start) * (rank - below) / (upto - below)


def series_of(text: str) -> tuple[str, Labels]:
    """Return the name and the labels of a series as `up{job="x"}` writes it."""
    node = syntax.parse(text)
    assert isinstance(node, syntax.VectorSelector), text
    assert node.name is not None, text
    return node.name, labels_of({each.name: each.value for each in node.matchers.matchers})
