"""The evaluator agrees with Prometheus: on the cases that promtool judges, and on examples."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest

from tests.alerts.promql import UnknownSyntaxError, evaluate, series_of
from tests.alerts.rules import SCRAPE_SECONDS, AlertState, cases, rules, seconds_of
from tests.alerts.series import Series, labels_of

_VALUES: Final = re.compile(r"(-?[\d.]+|_)(?:([+-][\d.]+)?x(\d+))?")
RULES: Final = rules()


def values_of(text: str) -> list[float | None]:
    """Return the values of a series as promtool expands them; None where nothing was scraped."""
    found: list[float | None] = []
    for part in text.split():
        match = _VALUES.fullmatch(part)
        assert match is not None, part
        first, step, more = match[1], float(match[2] or 0), int(match[3] or 0)
        if first == "_":
            found += [None] * max(1, more)
        else:
            found += [float(first) + step * each for each in range(more + 1)]
    return found


def planted(case: dict[str, Any]) -> Series:
    made = Series()
    columns = [
        (*series_of(row["series"]), values_of(row["values"])) for row in case["input_series"]
    ]
    for step in range(max(len(values) for _, _, values in columns)):
        for name, labels, values in columns:
            if step < len(values) and values[step] is not None:
                made.add(step * SCRAPE_SECONDS, name, labels, values[step])
    return made


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: case["name"])
def test_a_case_of_promtool_comes_out_as_there(case: dict[str, Any]) -> None:
    series = planted(case)
    for test in case["alert_rule_test"]:
        state, end = AlertState(RULES[test["alertname"]]), seconds_of(test["eval_time"])
        for step in range(int(end // SCRAPE_SECONDS) + 1):
            state.look(series, step * SCRAPE_SECONDS)
        expected = [labels_of(each["exp_labels"]) for each in test["exp_alerts"]]
        assert sorted(state.firing) == sorted(expected)


def counter(*values: float) -> Series:
    made = Series()
    for number, value in enumerate(values):
        made.add(number * 60.0, "c_total", (), value)
    return made


@pytest.mark.parametrize(
    ("query", "value"),
    [
        # Four values in (0, 300]: an increase of 30 in 180 s, and 60 s more at both ends.
        ("increase(c_total[5m])", 30 * (240 + 60) / 240),
        ("rate(c_total[5m])", 30 * (240 + 60) / 240 / 300),
        ("changes(c_total[5m])", 3.0),
        ("max_over_time(c_total[5m])", 40.0),
        ("min_over_time(c_total[5m])", 10.0),
        ("sum(c_total) * 2 - 1", 79.0),
    ],
)
def test_functions_over_time(query: str, value: float) -> None:
    series = counter(10, 10, 10, 20, 30, 40)
    found = evaluate(query, series, 300.0)
    assert isinstance(found, dict)
    assert found[()] == pytest.approx(value)


def test_a_counter_that_began_again_has_not_fallen() -> None:
    found = evaluate("increase(c_total[5m])", counter(0, 100, 200, 0, 10, 20), 300.0)
    assert isinstance(found, dict)
    assert found[()] == pytest.approx(120 * 300 / 240)


def test_a_line_is_followed_into_the_future() -> None:
    found = evaluate("predict_linear(c_total[10m], 600)", counter(60, 50, 40, 30, 20, 10), 300.0)
    assert isinstance(found, dict)
    assert found[()] == pytest.approx(-90.0)


def test_a_series_that_ended_is_not_looked_at() -> None:
    series = Series()
    series.add(0.0, "g", (), 1.0)
    assert evaluate("g", series, 299.0) == {(): 1.0}
    assert evaluate("g", series, 300.0) == {}
    series.add(15.0, "g", (), None)
    assert evaluate("g", series, 15.0) == {}


def test_a_quantile_is_on_the_line_of_its_bucket() -> None:
    series = Series()
    for bound, count in (("0.1", 50.0), ("0.5", 90.0), ("+Inf", 100.0)):
        series.add(0.0, "h_bucket", labels_of({"le": bound}), count)
    found = evaluate("histogram_quantile(0.7, h_bucket)", series, 0.0)
    assert isinstance(found, dict)
    assert found[()] == pytest.approx(0.3)
    assert evaluate("histogram_quantile(0.99, h_bucket)", series, 0.0) == {(): 0.5}


@pytest.mark.parametrize("query", ["avg(g)", "g offset 5m", "abs(g)", "sum without (a) (g)"])
def test_what_no_rule_uses_is_refused(query: str) -> None:
    with pytest.raises(UnknownSyntaxError):
        evaluate(query, Series(), 0.0)
