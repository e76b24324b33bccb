"""Kafka's habits in options: where to begin and end, how large a batch is, which logs are meant."""

from __future__ import annotations

import pytest

from quire.errors import ConfigurationError
from quire.spark.holding import BatchMinimum, Holding
from quire.spark.offsets import EVERYWHERE_FIRST, End, Offsets, parse_ending, parse_starting
from quire.spark.options import ReadOptions

BASE = {"cluster": "c", "log": "a,b"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", EVERYWHERE_FIRST),
        (" Latest ", Offsets(End.LATEST)),
        ('{"b": 7, "a": -1}', Offsets(End.EARLIEST, (("a", End.LATEST), ("b", 7)))),
        ('{"a": "earliest", "b": -2}', Offsets(
            End.EARLIEST, (("a", End.EARLIEST), ("b", End.EARLIEST)))),
    ],
)  # fmt: skip
def test_offsets_are_what_kafka_says(text: str, expected: Offsets) -> None:
    assert parse_starting(text) == expected


def test_each_log_has_its_own_bounds() -> None:
    given = {"startingOffsets": '{"a": 5}', "endingOffsets": '{"a": 9, "b": 3}'}
    options = ReadOptions.parse(BASE | given)
    found = [(options.bounds_of(log).first_offset, options.bounds_of(log).end_offset)
             for log in ("a", "b")]  # fmt: skip
    assert found == [(5, 9), (0, 3)]
    assert not options.is_unbounded
    options.check_offsets(["a", "b"])
    with pytest.raises(ConfigurationError, match=r"endingOffsets names log 'b'.*choose a"):
        options.check_offsets(["a"])


@pytest.mark.parametrize("text", ["2020-01-01T00:00:00Z", "1577836800000"])
@pytest.mark.parametrize("option", ["startingTimestamp", "fromTime"])
def test_a_time_is_iso_or_milliseconds(option: str, text: str) -> None:
    assert ReadOptions.parse(BASE | {option: text}).bounds.first_ms == 1577836800000


def test_a_regular_expression_matches_whole_names() -> None:
    options = ReadOptions.parse({"cluster": "c", "subscribePattern": "orders-[0-9]+"})
    assert options.select(["orders-1", "orders-1x", "old-orders-1"]) == ["orders-1"]
    assert options.means("orders-22")
    assert not options.means("orders")
    both = ReadOptions.parse(BASE | {"subscribePattern": "c.*"})
    assert both.select(["c1", "d"]) == ["a", "b", "c1"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"startingOffsets": "first"}, "startingOffsets='first'.*earliest, latest, or JSON"),
        ({"startingOffsets": '{"a": 1, "b": 2, "a": 3}'}, "log 'a' is named twice: give one"),
        ({"startingOffsets": '{"a": {"0": 23}}'}, "no partitions: write one record number for 'a'"),
        ({"startingOffsets": '{"a": -3}'}, "-3 for 'a' is neither a record number"),
        ({"startingOffsets": '{"a": true}'}, "True for 'a' is neither a record number"),
        ({"startingOffsets": '{"a": 1.5}'}, "1.5 for 'a' is neither a record number"),
        ({"startingOffsets": '{"a": 99999999999999999999}'}, "is neither a record number"),
        ({"startingOffsets": "earliest", "fromOffset": "0"}, "startingOffsets and fromOffset"),
        ({"startingTimestamp": "1", "startingOffsets": "earliest"}, "startingTimestamp"),
        ({"startingTimestamp": "20261121"}, "a date or milliseconds"),
        ({"startingTimestamp": "9" * 30}, "milliseconds go up to"),
        ({"minOffsetsPerTrigger": "0"}, "minOffsetsPerTrigger='0'"),
        ({"minOffsetsPerTrigger": "9", "maxRecordsPerTrigger": "8"}, "=9 is above .*=8"),
        ({"minOffsetsPerTrigger": "9", "maxTriggerDelay": "900000"}, "maxTriggerDelay=.*unit"),
        ({"minOffsetsPerTrigger": "9", "maxTriggerDelay": "0s"}, "maxTriggerDelay=.*above 0"),
        ({"minOffsetsPerTrigger": "9", "maxTriggerDelay": "inf"}, "maxTriggerDelay=.*above 0"),
        ({"maxTriggerDelay": "5m"}, "give minOffsetsPerTrigger, too"),
        ({"subscribePattern": "("}, r"subscribePattern='\('.*regular expression"),
        ({"endingOffsets": "latest"}, "'endingOffsets' is not one of a streaming read"),
        ({"subscribe": "orders"}, "'subscribe' is not one of a streaming read .*: use log$"),
        ({"kafka.bootstrap.servers": "x"}, "use cluster$"),
        ({"maxoffsetspertrigger": "5"}, "use maxRecordsPerTrigger$"),
    ],
)
def test_a_wrong_option_is_named(given: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        ReadOptions.parse(BASE | given, streaming=True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"startingOffsets": "latest"}, "a batch that begins at 'latest'"),
        ({"startingOffsets": '{"a": -1}'}, "a batch that begins at 'latest'"),
        ({"endingOffsets": '{"a": -2}'}, "ends at 'earliest'"),
        ({"endingOffsets": "latest", "toTime": "1"}, "endingOffsets and toTime"),
    ],
)
def test_a_batch_without_records_by_its_options_is_an_error(
    given: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        ReadOptions.parse(BASE | given)


def test_latest_is_the_usual_end() -> None:
    assert parse_ending("latest") == ReadOptions.parse(BASE).ending


def test_a_batch_waits_until_it_is_large_or_late() -> None:
    holding = Holding(BatchMinimum(100, 60.0))
    assert not holding.holds(1, 10.0), "the first batch comes at once"
    assert holding.holds(99, 69.0)
    assert not holding.holds(100, 69.5), "it is large"
    assert holding.holds(99, 129.0), "the delay counts from the last batch"
    assert not holding.holds(99, 129.5), "it is late"
    assert not holding.holds(0, 300.0)
    assert not holding.holds(1, 301.0), "an empty look is no batch"


def test_without_a_minimum_nothing_is_held_back() -> None:
    holding = Holding(BatchMinimum())
    assert not any(holding.holds(records, 1.0) for records in (0, 1, 0, 7))
