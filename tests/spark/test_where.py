"""A condition on a log is a part of it: the same records as the filter leaves, and no reading."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

import quire.spark
import quire.sync
from quire.errors import ConfigurationError, InvalidRequestError, NoSuchLogError
from quire.spark import reading
from quire.spark.batch import LogBatchReader
from quire.spark.options import ReadOptions
from quire.spark.reading import count
from quire.spark.where import COLUMNS, ColumnRange, Condition, parse_where
from quire.sync import SyncClient

TEN = 1795255200000
"""2026-11-21T10:00:00Z, in milliseconds."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Condition()),
        ("offset = 17", Condition(offset=ColumnRange(17, 18))),
        ("`offset` == +17", Condition(offset=ColumnRange(17, 18))),
        (
            "OFFSET>=5 AND offset<9 and segment > 2",
            Condition(ColumnRange(5, 9), segment=ColumnRange(3)),
        ),
        ("offset between 3 and 7 and offset > 4", Condition(offset=ColumnRange(5, 8))),
        ("offset > -5", Condition(offset=ColumnRange())),
        ("txid <= 9", Condition(txid=ColumnRange(0, 10))),
        ("timestamp >= '2026-11-21T10:00:00Z'", Condition(timestamp=ColumnRange(TEN))),
        (
            "timestamp > timestamp '2026-11-21T11:00:00+01:00'",
            Condition(timestamp=ColumnRange(TEN + 1)),
        ),
        ("timestamp > '2026-11-21T10:00:00.0005Z'", Condition(timestamp=ColumnRange(TEN + 1))),
        ("timestamp >= '2026-11-21T10:00:00.0005Z'", Condition(timestamp=ColumnRange(TEN + 1))),
        ("timestamp < '2026-11-21T10:00:00.0005Z'", Condition(timestamp=ColumnRange(0, TEN + 1))),
        ("timestamp <= '2026-11-21T10:00:00.0005Z'", Condition(timestamp=ColumnRange(0, TEN + 1))),
        ("timestamp <= '2026-11-21T10:00:00Z'", Condition(timestamp=ColumnRange(0, TEN + 1))),
    ],
)
def test_a_condition_is_a_stretch_of_each_column(text: str, expected: Condition) -> None:
    assert parse_where(text) == expected


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("offset = 1 or offset = 2", "'or offset = 2'"),
        ("offset != 3", "'offset != 3'"),
        ("payload = 'x'", "payload"),
        ("offset >= 3 and", "''"),
        ("offset >= 3 andoffset < 9", "'andoffset < 9'"),
        ("offset in (1, 2)", "'offset in"),
        ("length(payload) > 3", "'length"),
        ("offset > 1.5", "'.5'"),
        ("offset = '3'", "offset cannot be compared with '3'"),
        ("timestamp = 3", "timestamp cannot be compared with 3"),
        ("timestamp = '2026-11-21'", "no time zone"),
        ("timestamp = 'noon'", "'noon' is not a time"),
    ],
)
def test_a_condition_of_another_form_is_refused_with_its_place(text: str, place: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        parse_where(text)
    assert place in str(refused.value)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("offset >= 3 and offset < 3", {"toOffset": "0"}),
        ("segment < 4", {"toPosition": "4.0.0"}),
        ("timestamp > '9999-12-31T23:59:59.999Z'", {"fromTime": "253402300800000"}),
        ("timestamp = '1970-01-01T05:00:00Z'", {
            "fromTime": "0000018000000", "toTime": "0000018000001"}),
    ],
)  # fmt: skip
def test_a_stretch_is_options_that_a_read_takes(text: str, options: dict[str, str]) -> None:
    found = parse_where(text).options()
    assert found == options
    ReadOptions.parse({"cluster": "c", "log": "l", **found})


class Row(NamedTuple):
    offset: int
    segment: int
    timestamp: datetime
    txid: int | None


@pytest.fixture(scope="module")
def client(cluster: str) -> Iterator[SyncClient]:
    with quire.sync.connect(cluster) as found:
        yield found


@pytest.fixture(scope="module")
def log(client: SyncClient) -> list[Row]:
    """A log of small and large entries, with ids from its fifth record on; trimmed inside one."""
    rng, txid = random.Random(4), None
    with client.open_log("parts") as leader:
        for number in range(60):
            if number and number % 9 == 0:
                leader.roll()
            if number > 3:
                txid = (txid or 0) + rng.choice((0, 0, 1, 5))
            leader.append_many([b"x"] * rng.choice((1, 3, 8)), txid=txid)
    client.trim_log("parts", next(client.read_log("parts", 3)).position)
    rows = [
        Row(
            each.offset,
            each.position.segment,
            EPOCH + timedelta(milliseconds=each.timestamp_ms),
            each.txid,
        )
        for each in client.read_log("parts")
    ]
    assert len({row.segment for row in rows}) > 5
    assert rows[0].txid is None
    return rows


def conditions(rows: list[Row], rng: random.Random) -> tuple[str, list[Row]]:
    """A condition, and the rows for which it holds."""
    terms, left = [], rows
    for name in rng.sample(COLUMNS, rng.choice((1, 1, 2, 3))):
        known = [value for value in (getattr(row, name) for row in rows) if value is not None]
        for sign in rng.choice(([">="], ["<"], ["="], [">", "<="], [">=", "<"])):
            value = rng.choice(known)
            shown = f"'{value.isoformat()}'" if name == "timestamp" else str(value)
            terms.append(f"{name} {sign} {shown}")
            left = [row for row in left if _holds(getattr(row, name), sign, value)]
    return " and ".join(terms), left


def _holds(found: Any, sign: str, value: Any) -> bool:
    if found is None:
        return False
    return bool(
        {
            ">=": found >= value, ">": found > value, "<": found < value,
            "<=": found <= value, "=": found == value,
        }[sign]
    )  # fmt: skip


def offsets(cluster: str, where: str, **options: object) -> list[int]:
    """The records of a read, as workers would give them."""
    given = reading._options("parts", cluster, where, {"columns": "offset", **options})
    reader = LogBatchReader(ReadOptions.parse(given))
    return [
        row["offset"]
        for partition in reader.partitions()
        for batch in reader.read(partition)
        for row in batch.to_pylist()
    ]


def test_a_condition_reads_and_counts_what_its_filter_leaves(cluster: str, log: list[Row]) -> None:
    rng, sizes = random.Random(11), set()
    for _ in range(40):
        where, expected = conditions(log, rng)
        assert offsets(cluster, where) == [row.offset for row in expected], where
        assert count("parts", cluster=cluster, where=where) == len(expected), where
        sizes.add(len(expected))
    assert len(sizes) > 12, "all conditions are the same"


def test_counting_reads_the_ends_only(
    cluster: str, log: list[Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    entry = reading._entry

    def noted(*given: Any) -> Any:
        read.append(given[2].segment)
        return entry(*given)

    monkeypatch.setattr(reading, "_entry", noted)
    assert count("parts", cluster=cluster) == len(log)
    assert read == [log[0].segment], "its first entry was trimmed in part"
    read.clear()
    middle = len(log) // 2
    wanted = f"offset >= {log[middle].offset} and offset < {log[-5].offset}"
    assert count("parts", cluster=cluster, where=wanted) == len(log) - middle - 5
    assert read == [], "offsets are in the manifest"
    times = f"timestamp >= '{log[middle].timestamp.isoformat()}'"
    count("parts", cluster=cluster, where=times)
    assert len(read) <= 2


def test_records_that_were_trimmed_are_no_error_for_a_condition(
    cluster: str, log: list[Row]
) -> None:
    assert log[0].offset == 3
    assert offsets(cluster, "offset < 5") == [3, 4]
    assert offsets(cluster, "offset >= 1 and offset < 5") == [3, 4]
    with pytest.raises(quire.errors.PositionTrimmedError):
        offsets(cluster, "offset >= 1", failOnDataLoss=True)


@pytest.mark.parametrize(
    ("where", "options", "message"),
    [
        ("offset > 3", {"fromOffset": 1}, "not in both"),
        ("txid > 3", {"log": "parts*"}, "name one log"),
        ("", {"pushdown": True}, "'pushdown' is not one of"),
    ],
)
def test_what_a_condition_cannot_go_with_is_named(
    cluster: str, log: list[Row], where: str, options: dict[str, object], message: str
) -> None:
    name = str(options.pop("log", "parts"))
    with pytest.raises(ConfigurationError, match=message):
        count(name, cluster=cluster, where=where, **options)
    with pytest.raises(NoSuchLogError):
        count("absent", cluster=cluster)


def test_a_frame_holds_the_part_and_filters_no_more(
    spark: SparkSession, cluster: str, log: list[Row]
) -> None:
    middle = log[len(log) // 2]
    since, txid = f"timestamp <= '{middle.timestamp.isoformat()}'", middle.txid
    where = f"{since} and offset between 9 and 5000 and txid <= {txid}"
    frame = quire.spark.read(spark, "parts", cluster=cluster, where=where, columns=["offset"])
    expected = [
        row.offset
        for row in log
        if row.timestamp <= middle.timestamp
        and row.offset >= 9
        and row.txid is not None
        and row.txid <= (txid or 0)
    ]
    assert frame.columns == ["offset"]
    assert sorted(row.offset for row in frame.collect()) == expected
    assert len(expected) > 20
    whole = quire.spark.read(spark, "parts", cluster=cluster)
    assert (whole.count(), whole.columns[0]) == (len(log), "log")
