"""The rules of deploy/prometheus/alerts.yml, and the state of alerts as Prometheus keeps it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from tests.alerts.promql import evaluate
from tests.alerts.series import Labels, Series, labels_of

ROOT: Final = Path(__file__).resolve().parents[2]
PROMETHEUS: Final = ROOT / "deploy" / "prometheus"
SCRAPE_SECONDS: Final = 15.0
"""Between two scrapes and evaluations, as in deploy/prometheus/prometheus.yml."""

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def seconds_of(text: str) -> float:
    """Return a duration as rules have it, such as `1h30m`."""
    parts = re.findall(r"(\d+)([smhd])", text)
    assert "".join(map("".join, parts)) == text, text
    return float(sum(int(count) * _UNITS[unit] for count, unit in parts))


@dataclass(frozen=True)
class Rule:
    """A rule of the file."""

    alert: str
    expr: str
    seconds: float
    """How long its expression must hold."""
    labels: dict[str, str]
    annotations: dict[str, str]

    @property
    def anchor(self) -> str:
        """The section of docs/operations.md to read."""
        return self.annotations["runbook"].partition("#")[2]


def rules() -> dict[str, Rule]:
    """Return the rules by the name of the alert."""
    groups = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    found = [
        Rule(
            each["alert"],
            each["expr"],
            seconds_of(each["for"]),
            each["labels"],
            each["annotations"],
        )
        for group in groups
        for each in group["rules"]
    ]
    assert len({each.alert for each in found}) == len(found), "an alert has two rules"
    return {each.alert: each for each in found}


def cases() -> Iterator[dict[str, Any]]:
    """Yield the tests of promtool."""
    yield from yaml.safe_load((PROMETHEUS / "alerts_test.yml").read_text(encoding="utf-8"))["tests"]


@dataclass
class AlertState:
    """Since when the expression of a rule holds, by labels."""

    rule: Rule
    since: dict[Labels, float] = field(default_factory=dict)
    firing: list[Labels] = field(default_factory=list)

    def look(self, series: Series, time: float) -> None:
        """Evaluate the rule at a time."""
        found = evaluate(self.rule.expr, series, time)
        assert isinstance(found, dict), f"{self.rule.alert} is a number"
        named = (labels_of({**dict(labels), **self.rule.labels}) for labels in found)
        self.since = {labels: self.since.get(labels, time) for labels in sorted(named)}
        held = self.rule.seconds
        self.firing = [labels for labels, since in self.since.items() if time - since >= held]


def fired(states: Iterable[AlertState]) -> list[str]:
    """Return the alerts that fire, sorted."""
    return sorted(each.rule.alert for each in states if each.firing)
