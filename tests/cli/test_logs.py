"""The log of a server: lines for people, objects for programs."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from quire.cli.logs import JsonLines, keys_of
from quire.requests import SlowRequests, Trace, requesting


def line(record: logging.LogRecord) -> dict[str, object]:
    text = JsonLines().format(record)
    assert "\n" not in text
    found = json.loads(text)
    assert isinstance(found, dict)
    return found


def test_a_record_is_an_object() -> None:
    values = {"name": "quire.x", "levelno": 30, "levelname": "WARNING", "created": 1.5}
    record = logging.makeLogRecord({**values, "msg": "ledger %d is late", "args": (7,)})
    found = line(record)
    assert found.pop("pid")
    assert found == {
        "time": "1970-01-01T00:00:01.500Z",
        "level": "warning",
        "logger": "quire.x",
        "message": "ledger 7 is late",
        "ledger": 7,
    }


def test_what_a_message_is_about_has_keys_of_its_own() -> None:
    found = line(logging.makeLogRecord({"msg": "late", "ledger": 7, "peer": object}))
    assert found["ledger"] == 7
    assert found["peer"] == "<class 'object'>"


def test_an_exception_is_one_string() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError:
        record = logging.makeLogRecord({"msg": "failed", "exc_info": sys.exc_info()})
    assert str(line(record)["exception"]).endswith("ValueError: two\nlines")


@pytest.mark.parametrize(
    ("template", "values", "keys"),
    [
        ("log %r: leads at epoch %d, from %d on", ("a", 3, 9), {"log": "a", "epoch": 3}),
        ("bookie %s replayed %d records, %.1f MB", ("b1", 7, 0.5), {"bookie": "b1"}),
        ("ledger %d is 100%% lost, bookie %s", (7, "b1"), {"ledger": 7, "bookie": "b1"}),
        ("catalog %d", (7,), {}),
        ("ledger %d", (), {}),
        ("ledger %d", {"x": 1}, {}),
        ("ledger %*d", (3, 7), {}),
        (ValueError("ledger %d"), (7,), {}),
    ],
)
def test_a_message_is_about_the_values_that_follow_a_key(
    template: object, values: object, keys: dict[str, object]
) -> None:
    assert keys_of(template, values) == keys


def test_a_line_of_a_request_has_its_id_and_that_of_the_process() -> None:
    lines = JsonLines()
    lines.always["bookie"] = "b1"
    with requesting("5e"):
        found = json.loads(lines.format(logging.makeLogRecord({"msg": "late"})))
    assert (found["request"], found["bookie"]) == ("5e", "b1")
    assert "request" not in json.loads(lines.format(logging.makeLogRecord({"msg": "late"})))


def test_a_slow_request_is_one_line_of_json_with_all_keys(
    caplog: pytest.LogCaptureFixture,
) -> None:
    about = {"bookie": "b1", "ledger": 7, "entry": 3, "peer": "10.0.0.1:5"}
    SlowRequests(logging.getLogger("quire.slow")).tell("add", Trace(0.0), 2.0, "5e-1", about)
    found = line(caplog.records[0])
    assert found | about == found
    assert (found["request"], found["seconds"]) == ("5e-1", 2.0)
    assert found["stages"] == {"answer": 2.0}
