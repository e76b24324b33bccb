"""The health of a cluster: each reason, and the order of reasons."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quire.healing.summary import State, Summary
from quire.healing.switch import Pause, Switch
from quire.healing.verdict import ClusterFacts, Severity, duration, health
from tests.healing.scene import AWAY, DRAIN, GONE, NOW, bookie, cluster

OK, WARNING, CRITICAL = Severity


def summary(
    state: State = State.IDLE, why: str = "", counts: dict[str, int] | None = None, age: float = 9.0
) -> Summary:
    return Summary(NOW - round(age * 1000), "b1", 1, state, why, counts=counts or {})


UPS = (bookie("b2"), bookie("b3"), bookie("b4"))

TABLE: dict[str, tuple[ClusterFacts, Severity, set[str]]] = {
    "all up": (cluster(*UPS), OK, set()),
    "gone and forgotten": (cluster(bookie(up=False, standing=GONE), *UPS), OK, set()),
    "silent": (cluster(bookie(up=False), *UPS), WARNING, {"silent"}),
    "lost": (cluster(bookie(up=False, heard=9e9), *UPS), CRITICAL, {"lost"}),
    "away": (cluster(bookie(standing=AWAY, writable=False), *UPS), WARNING, {"away"}),
    "draining": (cluster(bookie(standing=DRAIN, writable=False), *UPS), WARNING, {"draining"}),
    "read-only": (cluster(bookie(writable=False), *UPS), WARNING, {"read-only"}),
    "mute": (cluster(bookie(silence="hung"), *UPS), WARNING, {"no-answer"}),
    "limbo": (cluster(bookie(in_limbo=3), *UPS), WARNING, {"limbo"}),
    "full": (cluster(bookie(free=14), *UPS), WARNING, {"room"}),
    "roomy": (cluster(bookie(free=15), *UPS), OK, set()),
    "older": (cluster(bookie(heard=None), *UPS), WARNING, {"no-heartbeat"}),
    "back to an older program": (
        cluster(replace(bookie(), version="unknown"), *UPS),
        WARNING,
        {"no-heartbeat", "versions"},
    ),
    "versions": (cluster(bookie(version="0.9"), *UPS), WARNING, {"versions"}),
    "damaged": (cluster(bookie(damaged=("CRC",)), *UPS), WARNING, {"damaged-record"}),
    "gone serves": (cluster(bookie(standing=GONE), *UPS), WARNING, {"gone-serves"}),
    "two silent": (
        cluster(bookie("b1", up=False), bookie("b5", up=False), *UPS),
        CRITICAL,
        {"silent", "many-missing"},
    ),
    "no spare": (
        cluster(bookie(writable=False), *UPS, ensemble=3),
        WARNING,
        {"read-only", "no-spare"},
    ),
    "a cluster of the size of an ensemble": (cluster(*UPS, ensemble=3), OK, set()),
    "too few": (cluster(*UPS, ensemble=4), CRITICAL, {"too-few-writable"}),
    "short": (cluster(*UPS, summary=summary(counts={"short": 3})), WARNING, {"short"}),
    "one copy left": (
        cluster(*UPS, summary=summary(counts={"one-copy": 3})),
        CRITICAL,
        {"one-copy"},
    ),
    "lost entries": (cluster(*UPS, summary=summary(counts={"no-copy": 1})), CRITICAL, {"no-copy"}),
    "a drain, holes and open ledgers are no reasons": (
        cluster(*UPS, summary=summary(counts={"drain": 3, "holes": 2, "waiting": 1, "asked": 5})),
        OK,
        set(),
    ),
    "no room": (
        cluster(*UPS, summary=summary(State.STUCK, "no room: full", {"unplaced": 3})),
        WARNING,
        {"no-room"},
    ),
    "no domain": (
        cluster(*UPS, summary=summary(State.STUCK, "no domain: r1", {"unplaced": 3})),
        WARNING,
        {"no-domain"},
    ),
    "mass loss": (
        cluster(*UPS, summary=summary(State.MASS_LOSS, "2 of 5 are missing")),
        CRITICAL,
        {"mass-loss"},
    ),
    "damaged records of ledgers": (
        cluster(*UPS, summary=summary(counts={"unreadable": 1})),
        WARNING,
        {"unreadable"},
    ),
    "an auditor that reports": (cluster(*UPS, summary=summary(age=300.0)), OK, set()),
    "an auditor that is gone": (cluster(*UPS, summary=summary(age=301.0)), WARNING, {"no-auditor"}),
    "an auditor that reports by a clock that is ahead": (
        cluster(*UPS, summary=summary(age=-301.0)),
        WARNING,
        {"no-auditor"},
    ),
    "clocks that differ a little": (cluster(*UPS, summary=summary(age=-300.0)), OK, set()),
    "paused": (
        cluster(*UPS, switch=Switch(Pause("x", "anna", NOW - 1000, NOW + 1000))),
        WARNING,
        {"healing-paused"},
    ),
    "a pause that is over": (
        cluster(*UPS, switch=Switch(Pause("x", "anna", NOW - 1000, NOW))),
        OK,
        set(),
    ),
    "a damaged switch": (cluster(*UPS, damaged=["CRC"]), WARNING, {"damaged-switch"}),
    "empty": (cluster(), CRITICAL, {"no-bookies"}),
    "restored": (cluster(*UPS, is_adopted=False), CRITICAL, {"not-adopted"}),
    "a server down": (
        cluster(*UPS, servers=[("zoo1:2181", True), ("zoo2:2181", False)]),
        WARNING,
        {"store-server"},
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_the_table_of_reasons(name: str) -> None:
    facts, severity, codes = TABLE[name]
    verdict = health(facts)
    assert verdict.severity is severity
    assert {each.code for each in verdict.findings} == codes
    assert all(each.remedy and each.text for each in verdict.findings)


def test_the_worst_reason_comes_first_and_stands_in_the_summary() -> None:
    facts = cluster(bookie(free=1), bookie("b9", up=False, heard=9e9), bookie("b2"))
    verdict = health(facts)
    assert [each.severity for each in verdict.findings] == [CRITICAL, WARNING]
    assert verdict.summary.startswith("critical: bookie b9 (h-b9) is lost, silent for ")
    assert verdict.summary.endswith(" (and 1 more)")
    assert health(cluster(bookie())).summary == "ok"


def test_a_missing_bookie_comes_before_one_with_little_room() -> None:
    found = health(cluster(bookie("b1", free=14), *UPS, bookie("b9", up=False)))
    assert [each.code for each in found.findings] == ["silent", "room"]
    assert "b9" in found.summary


def test_a_reason_names_its_operator_and_its_end() -> None:
    (found,) = health(cluster(bookie(standing=AWAY), *UPS)).findings
    assert found.text == "bookie b1 (h-b1) is away for 1 min more, by anna@desk: new fan"
    assert found.remedy == "`quire bookie back b1` ends it"
    assert found.bookie == "b1"


def test_a_store_that_nobody_adopted_is_named() -> None:
    (found,) = health(cluster(bookie(), is_adopted=False)).findings
    assert "`quire metadata adopt`" in found.remedy


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.4, "0 s"),
        (59.6, "1 min"),
        (61, "1 min 1 s"),
        (3600, "1 h"),
        (3661, "1 h 1 min"),
        (90_000, "1 d 1 h"),
        (86_401, "1 d"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
