"""The log of a server: lines for people, objects for programs."""

from __future__ import annotations

import json
import logging
import sys

from quire.cli.logs import JsonLines


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
