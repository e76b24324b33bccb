"""Keys, headers and event times on the command line."""

from __future__ import annotations

from typing import Any

import pytest

from quire.cli.attributes import KeyOptions, given_attributes
from quire.cli.template import Template
from quire.errors import ConfigurationError
from quire.log.records.attributes import NewRecord
from quire.log.records.position import Position, Record


def given(**options: Any) -> KeyOptions:
    fields: dict[str, Any] = {"key": None, "separator": None, "headers": (), "event_time": None}
    return given_attributes(**{**fields, **options})


def test_records_get_what_the_options_say() -> None:
    assert given().attach([b"a"]) == [b"a"]
    assert given(key="k").attach([b"a"]) == [NewRecord(b"a", key=b"k")]
    headers = given(headers=("h=1=2", "h="), event_time="1970-01-01T01:00:01+01:00")
    pairs = [("h", b"1=2"), ("h", b"")]
    assert headers.attach([b"a"]) == [NewRecord(b"a", headers=pairs, event_time=1000)]


def test_a_record_can_name_its_key() -> None:
    records = given(separator=": ").attach([b"a: 1: 2", b": 3"])
    assert records == [NewRecord(b"1: 2", key=b"a"), NewRecord(b"3", key=b"")]
    with pytest.raises(ConfigurationError, match="record 'nothing' has no key"):
        given(separator=": ").attach([b"nothing"])


@pytest.mark.parametrize(
    "options",
    [
        {"key": "a", "separator": ":"},
        {"separator": ""},
        {"headers": ("h",)},
        {"headers": ("=v",)},
        {"event_time": "yesterday"},
        {"event_time": "2026-07-31T09:30:00"},
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="--"):
        given(**options)


def test_a_template_shows_them() -> None:
    template = Template("{key}|{headers}|{event_time}")
    plain = Record(Position(1, 0, 0), 0, 1, 0, b"p")
    assert template.line(plain, b"p") == b"-||-"
    given_ = plain._replace(key=b"k\xff", headers=(("h", b"1"), ("n", None)), event_time_ms=1500)
    assert template.line(given_, b"p") == b"k\\xff|h=1,n=|1970-01-01T00:00:01.500Z"
    assert template.line(plain._replace(event_time_ms=2**60), b"p") == b"-||%d" % 2**60
