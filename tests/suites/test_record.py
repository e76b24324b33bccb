"""The records of suites: what counts as a surprise, and that the documentation has them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.suites import durable_streams, franz_go, kafka_python, librdkafka
from tests.suites.__main__ import SUITES
from tests.suites.record import HERE, Outcome, Record, load

NAMES = sorted(path.stem for path in HERE.glob("*.json"))
GATEWAY = Path(__file__).resolve().parents[2] / "docs" / "gateway.md"
RECORD = Record("suite", "1", 1, 0, {"b": "forks"}, {"forks": "no forks"})


@pytest.mark.parametrize(
    ("passed", "failed", "said"),
    [
        (("a",), ("b",), []),
        (("a", "b"), (), ["it passed: b"]),
        (("a",), ("b", "c"), ["it failed: c"]),
        (("a",), (), ["it was not there: b"]),
    ],
)
def test_each_other_outcome_is_named(
    passed: tuple[str, ...], failed: tuple[str, ...], said: list[str]
) -> None:
    assert RECORD.surprises(Outcome(frozenset(passed), frozenset(failed), 0)) == said


def test_a_report_is_taken_apart() -> None:
    results = [
        {"ancestorTitles": ["A", "B"], "title": "c", "status": "passed"},
        {"ancestorTitles": [], "title": "d", "status": "failed"},
        {"ancestorTitles": ["A"], "title": "e", "status": "pending"},
    ]
    report = json.loads(json.dumps({"testResults": [{"assertionResults": results}]}))
    found = durable_streams.outcome_of(report)
    assert found == Outcome(frozenset({"A > B > c"}), frozenset({"d"}), 1)


def test_a_report_of_pytest_is_taken_apart() -> None:
    report = """<testsuites><testsuite>
        <testcase classname="test.integration.test_a" name="good"/>
        <testcase classname="test.integration.test_a.Kind" name="bad[1]"><failure/></testcase>
        <testcase classname="test.integration.test_a" name="unclean"/>
        <testcase classname="test.integration.test_a" name="unclean"><error/></testcase>
        <testcase classname="test.integration.test_a" name="off"><skipped/></testcase>
        </testsuite></testsuites>"""
    assert kafka_python.outcome_of(report) == Outcome(
        frozenset({"test_a.good"}), frozenset({"test_a.Kind.bad[1]", "test_a.unclean"}), 1
    )


def test_events_of_go_are_taken_apart_and_a_test_without_an_end_has_failed() -> None:
    events = [
        {"Action": "start", "Package": "p"},
        {"Action": "run", "Test": "TestA"},
        {"Action": "output", "Test": "TestA/one", "Output": "x"},
        {"Action": "pass", "Test": "TestA"},
        {"Action": "skip", "Test": "TestB"},
        {"Action": "fail", "Test": "TestC"},
    ]
    found = franz_go.outcome_of(json.dumps(each) for each in events)
    assert found == Outcome(frozenset({"TestA"}), frozenset({"TestA/one", "TestC"}), 1)


def test_tests_of_go_that_ask_a_server_are_found() -> None:
    source = """package kgo
func TestPure(t *testing.T) { check(t) }

func TestAsks(t *testing.T) {
	topic, cleanup := tmpTopic(t)
}
func helper() { newTestClient() }
func TestAsksToo(t *testing.T) { c := adm() }
"""
    assert franz_go.tests_of(source) == ["TestAsks", "TestAsksToo"]


def test_a_report_of_librdkafka_is_taken_apart_and_an_endless_test_has_failed() -> None:
    states = {
        "<MAIN>": "PASSED",
        "0001_good": "PASSED",
        "0002_bad": "FAILED",
        "0003_off": "SKIPPED",
        f"{librdkafka.ENDLESS[0]}_endless": "SKIPPED",
    }
    found = librdkafka.outcome_of(
        {"tests": {name: {"state": each} for name, each in states.items()}}
    )
    failed = frozenset({"0002_bad", f"{librdkafka.ENDLESS[0]}_endless"})
    assert found == Outcome(frozenset({"0001_good"}), failed, 1)


def test_each_suite_has_a_record() -> None:
    assert sorted(SUITES) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_each_refusal_has_a_reason_and_the_documentation_says_so(name: str) -> None:
    record = load(name)
    assert set(record.refused.values()) == set(record.reasons)
    text = GATEWAY.read_text(encoding="utf-8")
    assert text.count(f"<!-- suite: {name} -->") == 1
    written = text.partition(f"<!-- suite: {name} -->\n")[2].partition("\n<!-- end -->")[0]
    assert written == record.table(), f"write this into docs/gateway.md:\n{record.table()}"
