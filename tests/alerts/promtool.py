"""The series of a drill as a test of promtool: Prometheus itself must let the same alerts fire.

Times of promtool are whole scrapes since the first. A scrape of a drill that came later, because
work took its time, counts at the next whole one.
"""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.alerts.monitor import DrillError, Monitor
from tests.alerts.rules import PROMETHEUS, SCRAPE_SECONDS
from tests.alerts.series import Labels, Sample


def _step(monitor: Monitor, at: float) -> int:
    return math.ceil(round((at - monitor.began) / SCRAPE_SECONDS, 3))


def _values(samples: Sequence[Sample], monitor: Monitor) -> str:
    """Return values as promtool reads them, one a step."""
    found: dict[int, str] = {}
    for each in samples:
        text = "stale" if each.value is None else _number(each.value)
        found[_step(monitor, each.at)] = text
    return " ".join(found.get(step, "_") for step in range(max(found) + 1))


def _number(value: float) -> str:
    if math.isinf(value):
        return "Inf" if value > 0 else "-Inf"
    return repr(float(value))


def _name(name: str, labels: Labels) -> str:
    named = ",".join(f"{key}={json.dumps(value)}" for key, value in labels)
    return f"{name}{{{named}}}"


def test_of(monitor: Monitor, names: Mapping[str, str]) -> dict[str, Any]:
    """Return a test of promtool. `names` are the alerts with the expression of their rule: only
    series that one of them names are given.
    """
    asked = " ".join(names.values())
    rows = [
        {"series": _name(name, labels), "values": _values(samples, monitor)}
        for name in monitor.series.names()
        if name in asked
        for labels, samples in monitor.series.named(name).items()
    ]
    expressions = [
        {
            "expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) > bool 0',
            "eval_time": f"{(_step(monitor, monitor.began + at) + 1) * SCRAPE_SECONDS:.0f}s",
            "exp_samples": [{"labels": "{}", "value": 1}],
        }
        for alert, at in monitor.fired.items()
    ]
    return {
        "interval": f"{SCRAPE_SECONDS:.0f}s",
        "input_series": rows,
        "promql_expr_test": expressions,
    }


def judge(program: Path, monitor: Monitor, directory: Path) -> None:
    """Let promtool replay a drill.

    Raises `DrillError` if an alert does not fire there.
    """
    exprs = {each.rule.alert: each.rule.expr for each in monitor.states}
    text = {
        "rule_files": [str(PROMETHEUS / "alerts.yml")],
        "evaluation_interval": f"{SCRAPE_SECONDS:.0f}s",
        "tests": [test_of(monitor, exprs)],
    }
    file = directory / "drill.yml"
    file.write_text(json.dumps(text), encoding="utf-8")  # JSON is YAML, and no value is folded
    done = subprocess.run(
        [str(program), "test", "rules", str(file)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise DrillError(f"promtool disagrees: {(done.stderr or done.stdout).strip()[-600:]}")
