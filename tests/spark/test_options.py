"""Options: understood as documented, and every error names the option that is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from quire.errors import ConfigurationError
from quire.log.reading.bounds import Bounds
from quire.log.records.position import Position
from quire.spark.jobs.copy import Place
from quire.spark.options import ReadOptions, WriteOptions, read_schema

BASE = {"cluster": "c", "log": "orders"}


def test_names_and_patterns_choose_logs() -> None:
    options = ReadOptions.parse({"cluster": "c", "log": "b, x-*, absent"})
    assert options.select(["x-2", "x-1", "a", "b"]) == ["b", "x-1", "x-2", "absent"]


def test_bounds_are_what_the_options_say() -> None:
    given = {
        "fromposition": "2.3.4",
        "tooffset": "0",
        "fromtime": "2020-01-01T00:00:00Z",
        "totime": "2020-01-01T01:00:00+01:00",
    }
    bounds = ReadOptions.parse(BASE | given).bounds
    assert bounds == Bounds(
        first=Position(2, 3, 4), end_offset=0, first_ms=1577836800000, end_ms=1577836800000
    )
    assert bounds.is_empty


def test_the_schema_is_that_of_the_columns() -> None:
    assert read_schema(BASE | {"columns": "payload,offset"}) == "payload binary, offset long"
    assert read_schema({"cluster": "c", "ledger": "3"}) == (
        "ledger long, entry long, payload binary"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cluster": ""}, "'cluster'"),
        ({"ledger": "1"}, "'ledger'"),
        ({"fromoffset": "-1"}, "fromOffset='-1'"),
        ({"fromposition": "1.2"}, "fromPosition='1.2'"),
        ({"totime": "2020-01-01T00:00:00"}, "toTime=.*time zone"),
        ({"splitbytes": "0"}, "splitBytes='0'"),
        ({"splitbytes": "1k"}, "splitBytes='1k'.*KiB"),
        ({"columns": "offset,colour"}, "columns=.*'colour' is not one of"),
        ({"pushdown": "true"}, "'pushdown' is not one of"),
        ({"maxrecordspertrigger": "5"}, "'maxrecordspertrigger' is not one of a read of"),
        ({"transactionid": "5"}, "'transactionid' is not one of"),
        ({"log": " , "}, "log=' , '.*at least one name"),
        ({"columns": ""}, "columns=''.*at least one name"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        ReadOptions.parse(BASE | options)


@pytest.mark.parametrize(("what", "name"), [(ReadOptions, "cursor"), (WriteOptions, "job")])
def test_a_name_that_was_left_empty_is_no_name(what: Any, name: str) -> None:
    """As of a variable that is not set: without its job a write that is repeated is done twice."""
    streaming = {"streaming": True} if what is ReadOptions else {}
    with pytest.raises(ConfigurationError, match=f"{name}=''"):
        what.parse(BASE | {name: ""}, **streaming)


def test_a_write_names_the_log_as_a_read_does() -> None:
    with pytest.raises(ConfigurationError, match="log=' orders'"):
        WriteOptions.parse({"cluster": "c", "log": " orders"})


def test_a_password_is_not_shown() -> None:
    assert "secret" not in repr(Place("c", "orders", "secret"))


def test_times_between_two_milliseconds_are_behind_the_first() -> None:
    """Records have whole milliseconds: none of before `fromTime` is read, all before `toTime`."""
    time = "2020-01-01T00:00:00.0005Z"
    bounds = ReadOptions.parse(BASE | {"fromtime": time, "totime": time}).bounds
    assert (bounds.first_ms, bounds.end_ms) == (1577836800001, 1577836800001)
