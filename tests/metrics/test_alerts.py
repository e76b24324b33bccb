"""Alerts and the dashboard ask for metrics that exist, and lead to a runbook that exists.

Whether the rules are right is promtool's to say (`make alerts`). Here their queries are compared
with the table of metrics, and each alert with its section, its test and the metrics in that test.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from quire.metrics.table import METRICS, PROCESS

ROOT: Final = Path(__file__).resolve().parents[2]
PROMETHEUS: Final = ROOT / "deploy" / "prometheus"

TARGET: Final = {"job", "instance"}
"""Labels that Prometheus gives to every series of a target."""

KNOWN: Final = {
    **{sample: {*each.labels} for each in METRICS for sample in each.samples},
    **{name: set[str]() for name in ("up", *PROCESS)},
}
"""The labels of each sample that a query may name."""

WORDS: Final = frozenset(
    {
        *("sum", "max", "min", "count", "by", "and", "or", "unless"),
        *("rate", "increase", "delta", "changes", "predict_linear", "time"),
        *("max_over_time", "min_over_time", "histogram_quantile"),
    }
)

SERIES: Final = re.compile(r"([a-z_][a-z0-9_]*)\s*(?:\{([^}]*)\})?")
MATCHER: Final = re.compile(r'\s*([a-z_]+)\s*(?:=~|!=|!~|=)\s*"[^"]*"\s*')


class WrongQueryError(Exception):
    """A query asks for something that no program shows."""


def check_query(query: str) -> None:
    """Raise `WrongQueryError` unless every metric and label of a query exists."""
    labels = {"le", *TARGET}
    plain = re.sub(r"\[[0-9]+[smhd]\]", "", query)
    grouped = [each for found in re.findall(r"\bby\s*\(([^)]*)\)", plain) for each in _list(found)]
    plain = re.sub(r"\bby\s*\([^)]*\)", "", plain)
    for name, matchers in SERIES.findall(plain):
        if name in WORDS:
            continue
        if name not in KNOWN:
            raise WrongQueryError(f"{name} is no metric: {query}")
        labels |= KNOWN[name]
        for matcher in filter(None, map(str.strip, matchers.split(","))):
            found = MATCHER.fullmatch(matcher)
            if found is None or found[1] not in KNOWN[name] | TARGET | {"le"}:
                raise WrongQueryError(f"{name} has no label for {matcher}: {query}")
    if missing := set(grouped) - labels:
        raise WrongQueryError(f"nothing has the labels {sorted(missing)}: {query}")


def _list(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def rules() -> dict[str, dict[str, Any]]:
    """Return the alerts by name."""
    groups = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def cases() -> Iterator[dict[str, Any]]:
    """Yield the tests of alerts."""
    yield from yaml.safe_load((PROMETHEUS / "alerts_test.yml").read_text())["tests"]


def anchors() -> set[str]:
    """Return the anchors of the headings of docs/operations.md."""
    headings = re.findall(r"^#+ (.+)$", (ROOT / "docs/operations.md").read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


@pytest.mark.parametrize("name", rules())
def test_an_alert_asks_for_metrics_that_exist_and_names_its_runbook(name: str) -> None:
    rule = rules()[name]
    check_query(rule["expr"])
    assert rule["labels"]["severity"] in ("warning", "critical")
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    assert page == "docs/operations.md"
    assert anchor in anchors(), f"{page} has no section #{anchor}"
    assert rule["annotations"]["summary"]


def test_every_alert_fires_in_a_test_on_series_that_exist() -> None:
    fired: set[str] = set()
    for case in cases():
        for row in case["input_series"]:
            check_query(row["series"])
        for expected in case["alert_rule_test"]:
            if expected["exp_alerts"]:
                fired.add(expected["alertname"])
    assert fired == set(rules())


def test_the_runbook_has_no_section_without_an_alert() -> None:
    named = {rule["annotations"]["runbook"].partition("#")[2] for rule in rules().values()}
    assert {each for each in anchors() if each.startswith("alert-")} == named


def test_the_runbook_names_every_alert() -> None:
    text = (ROOT / "docs/operations.md").read_text()
    assert not [name for name in rules() if f"`{name}`" not in text]


def test_the_dashboard_asks_for_metrics_that_exist() -> None:
    board = json.loads((ROOT / "deploy/grafana/quire.json").read_text())
    targets = [each for panel in board["panels"] for each in panel.get("targets", ())]
    assert len(targets) > 20
    for target in targets:
        check_query(target["expr"])


def test_panels_do_not_overlap() -> None:
    board = json.loads((ROOT / "deploy/grafana/quire.json").read_text())
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        cells = {
            (place["x"] + column, place["y"] + row)
            for column in range(place["w"])
            for row in range(place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


@pytest.mark.parametrize(
    "query",
    [
        "sum(quire_bookie_writeable)",
        'quire_append_total{result="ok"}',
        "sum by (bookie) (rate(quire_append_total[5m]))",
        "rate(quire_append_seconds[5m])",
    ],
)
def test_a_query_for_what_does_not_exist_is_found(query: str) -> None:
    with pytest.raises(WrongQueryError):
        check_query(query)
