"""Request ids, stages, and the log of slow requests: values, on a clock of the test."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest

from quire.requests import (
    LINES_BURST,
    REQUEST_ID,
    SlowRequests,
    Trace,
    checked_id,
    new_request_id,
    requesting,
    run_id,
)

LOG = logging.getLogger("quire.slow")


def trace(**moments: float) -> Trace:
    made = Trace(moments.pop("arrived", 0.0))
    for name, moment in moments.items():
        setattr(made, name, moment)
    return made


def test_calls_of_one_piece_of_work_share_an_id() -> None:
    assert not REQUEST_ID.get()
    with requesting() as outer:
        with requesting() as inner:
            assert inner == outer == REQUEST_ID.get()
        with requesting("given") as given:
            assert given == REQUEST_ID.get() == "given"
        assert REQUEST_ID.get() == outer
    assert not REQUEST_ID.get()


def test_ids_differ_and_name_runs_by_their_streams() -> None:
    assert len({new_request_id() for _ in range(1000)}) == 1000
    assert checked_id(new_request_id())
    assert run_id("5e", 7) == "5e-7"
    assert run_id("", 7) == ""


@pytest.mark.parametrize("text", ["a b", "a\nERROR forged", "x" * 65, "", 7, None, "é"])
def test_a_peer_cannot_write_into_a_log_by_its_id(text: object) -> None:
    assert checked_id(text) == ""


@pytest.mark.parametrize(
    ("moments", "stages"),
    [
        (
            {"accepted": 1.0, "begun": 3.0, "durable": 6.0},
            {"accept": 1.0, "queue": 2.0, "journal": 3.0, "answer": 4.0},
        ),
        ({"accepted": 1.0, "worked": 9.0}, {"accept": 1.0, "work": 8.0, "answer": 1.0}),
        ({"worked": 10.0}, {"work": 10.0}),
        ({}, {"answer": 10.0}),
        ({"begun": 4.0}, {"queue": 4.0, "answer": 6.0}),
    ],
)
def test_stages_are_what_lies_between_moments(
    moments: Mapping[str, float], stages: Mapping[str, float]
) -> None:
    found = trace(**moments).stages(10.0)
    assert found == stages
    assert sum(found.values()) == 10.0


def test_a_wait_that_was_asked_for_is_no_stage() -> None:
    waited = trace(accepted=1.0)
    waited.begin_again(300.0)
    waited.worked = 301.0
    assert waited.stages(301.0) == {"work": 1.0}


def test_only_requests_over_the_threshold_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    slow = SlowRequests(LOG, 1.0)
    slow.tell("add", trace(arrived=5.0), 5.999, "5e-1", {})
    assert not caplog.records
    about = {"ledger": 7, "entry": 0, "peer": "", "bookie": None}
    slow.tell("add", trace(arrived=5.0, accepted=5.25), 6.5, "5e-2", about)
    (record,) = caplog.records
    assert record.getMessage() == (
        "slow add: 1.500 s (accept 0.250, answer 1.250), request 5e-2, ledger 7, entry 0"
    )
    said = vars(record)
    assert (said["request"], said["ledger"], said["entry"]) == ("5e-2", 7, 0)
    assert said["stages"] == {"accept": 0.25, "answer": 1.25}
    assert "bookie" not in said


def test_a_slow_disk_does_not_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    slow = SlowRequests(LOG, 1.0)
    for number in range(1000):
        slow.tell("add", trace(), 100.0, f"5e-{number}", {})
    assert len(caplog.records) == LINES_BURST
    slow.tell("add", trace(), 101.0, "5e-1000", {})
    assert caplog.messages[-1].endswith(f"{1000 - LINES_BURST} more since the last line")
    slow.tell("add", trace(), 101.5, "5e-1001", {})
    assert len(caplog.records) == LINES_BURST + 1


def test_infinity_turns_the_log_off(caplog: pytest.LogCaptureFixture) -> None:
    SlowRequests(LOG, float("inf")).tell("add", trace(), 1e9, "5e-1", {})
    assert not caplog.records


def test_zero_logs_each_request(caplog: pytest.LogCaptureFixture) -> None:
    SlowRequests(LOG, 0.0).tell("add", trace(arrived=5.0), 5.0, "5e-1", {})
    assert len(caplog.records) == 1
