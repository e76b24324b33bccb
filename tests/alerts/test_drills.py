"""Each alert fires once, by its drill, on figures that programs really show.

Here are the drills in virtual time. Those on processes are played by `make alerts`; one of them is
here as well.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from tests.alerts.__main__ import play, play_all
from tests.alerts.drill import AlertDrill
from tests.alerts.monitor import DrillError, Monitor
from tests.alerts.process_drills import few_descriptors
from tests.alerts.promtool import judge
from tests.alerts.rules import rules
from tests.alerts.table import BEGIN, DRILLS, END, PAGE, markdown

HOURS: Final = frozenset({"two-versions", "idle-bookies", "long-pause"})
"""Some seconds of work each: not in `make quick`."""

VIRTUAL: Final = [
    pytest.param(each, marks=[pytest.mark.slow] if each.name in HOURS else [], id=each.name)
    for each in DRILLS.values()
    if not each.is_real
]


def test_every_alert_has_one_drill() -> None:
    drilled = [alert for each in DRILLS.values() for alert in each.alerts]
    assert sorted(drilled) == sorted(rules())


def test_the_page_lists_every_alert_with_its_drill_and_runbook() -> None:
    """`python -m tests.alerts.table` renews it."""
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    assert rest.partition(END)[0].strip() == markdown().strip()


@pytest.mark.parametrize("drill", VIRTUAL)
def test_the_alerts_of_a_drill_fire_and_not_before_their_cause(drill: AlertDrill) -> None:
    assert sorted(play(drill).fired) == sorted(drill.alerts)


@pytest.mark.slow
def test_an_alert_fires_on_the_figures_of_a_process() -> None:
    assert play(few_descriptors).fired.keys() == {"QuireDescriptors"}


async def idle(monitor: Monitor) -> None:
    """Nothing happens."""
    await monitor.until_all_fired()


async def broken(monitor: Monitor) -> None:
    """A drill with a mistake in it."""
    raise ValueError("a mistake")


def test_a_drill_whose_alert_stays_silent_fails_and_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    alerts = ("QuireNoLeader",)
    made = {it.__name__: AlertDrill(it.__name__, alerts, it) for it in (idle, broken)}
    assert play_all(["idle", "broken"], made, as_json=True) == 2
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["outcome"] for each in found] == ["FAILED", "FAILED"]
    assert found[0]["trouble"] == "DrillError: QuireNoLeader did not fire"
    assert found[1]["trouble"] == "ValueError: a mistake"


def test_an_alert_that_fires_before_its_cause_fails_a_drill() -> None:
    async def gone() -> None:
        return None

    async def hasty(monitor: Monitor) -> None:
        """The bookie is down before anything happens."""
        monitor.add("quire-bookie", "b1", gone)
        await monitor.calm(3600.0)

    with pytest.raises(DrillError, match="QuireBookieDown fires before its cause"):
        play(AlertDrill("hasty", ("QuireBookieDown",), hasty))


def test_people_read_when_an_alert_fired(capsys: pytest.CaptureFixture[str]) -> None:
    assert play_all(["unknown-outcome"], DRILLS) == 0
    assert "QuireUnknownOutcomes fired 5 min after the first scrape" in capsys.readouterr().out


def program(tmp_path: Path, code: int) -> Path:
    """A promtool that prints its file to another, and ends with a code."""
    made = tmp_path / "promtool"
    made.write_text(f'#!/bin/sh\ncat "$3" > {tmp_path}/seen\necho "it is so" >&2\nexit {code}\n')
    made.chmod(0o755)
    return made


def test_promtool_is_given_the_series_of_the_rule_and_its_word_counts(tmp_path: Path) -> None:
    monitor = play(DRILLS["unknown-outcome"])
    judge(program(tmp_path, 0), monitor, tmp_path)
    (test,) = json.loads((tmp_path / "seen").read_text())["tests"]
    names = {each["series"].partition("{")[0] for each in test["input_series"]}
    assert names == {"quire_append_total"}
    (row,) = [each for each in test["input_series"] if 'outcome="unknown"' in each["series"]]
    assert row["values"].split()[0] == "0.0"
    assert row["values"].split()[-1] == "1.0"
    assert "QuireUnknownOutcomes" in test["promql_expr_test"][0]["expr"]
    with pytest.raises(DrillError, match="it is so"):
        judge(program(tmp_path, 1), monitor, tmp_path)
