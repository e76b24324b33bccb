"""Whole logs from a real Spark session, real bookie processes behind it."""

from __future__ import annotations

from datetime import UTC, datetime

import pyspark
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

import quire.sync
from tests.spark.segments import append_in_segments

KEEPS_PLANS = not pyspark.__version__.startswith("4.0.")
"""Spark 4.0 plans a data frame again for every action."""

ROLLED = 50
"""Entries of a segment."""


def load(spark: SparkSession, cluster: str, log: str, **options: str | int) -> DataFrame:
    return spark.read.format("quire").options(cluster=cluster, log=log, **options).load()


def wait_until_visible(cluster: str, log: str, records: int) -> None:
    """Followers see a record a moment after its append returned; a snapshot is no different."""
    with quire.sync.connect(cluster) as client:
        follower = client.read_log(log, follow=True)
        for _ in range(records):
            next(follower)
        follower.close()


def test_a_whole_log_is_what_its_own_reader_gives(spark: SparkSession, cluster: str) -> None:
    batches = [[f"{n}-{i}".encode() for i in range(n % 7 + 1)] for n in range(160)]
    append_in_segments(cluster, "whole", batches, ROLLED)
    with quire.sync.connect(cluster) as client:
        expected = [
            (str(record.position), record.offset, record.epoch, record.payload)
            for record in client.read_log("whole")
        ]
        segments = len(client._logs.describe("whole").segments)
    frame = load(spark, cluster, "whole", minPartitions=segments)
    found = [
        (f"{row.segment}.{row.entry}.{row.slot}", row.offset, row.epoch, bytes(row.payload))
        for row in frame.orderBy("offset").collect()
    ]
    assert found == expected
    assert frame.rdd.getNumPartitions() == segments > 2


def test_reading_never_disturbs_the_writer(spark: SparkSession, cluster: str) -> None:
    with quire.sync.connect(cluster) as client, client.open_log("live") as leader:
        leader.append_many([b"before"] * 10)
        wait_until_visible(cluster, "live", 10)
        frame = load(spark, cluster, "live")
        assert frame.count() == 10
        leader.append(b"after")
        wait_until_visible(cluster, "live", 11)
        assert frame.count() == (10 if KEEPS_PLANS else 11), "a data frame is a snapshot"
        assert load(spark, cluster, "live").count() == 11


@pytest.fixture(scope="module")
def trimmed(cluster: str) -> str:
    """A log of 360 records, of which the first 200 were trimmed, the last two within a batch."""
    append_in_segments(cluster, "trimmed", [[b"a", b"b", b"c"] for _ in range(120)], ROLLED)
    with quire.sync.connect(cluster) as client:
        positions = [record.position for record in client.read_log("trimmed")]
        client.trim_log("trimmed", positions[200])
    return "trimmed"


def test_a_trimmed_prefix_is_not_read(spark: SparkSession, cluster: str, trimmed: str) -> None:
    row = load(spark, cluster, trimmed).agg(sql.min("offset"), sql.count("*")).first()
    assert row is not None
    assert tuple(row) == (200, 160)


@pytest.mark.parametrize(
    ("start", "records", "message"),
    [
        ({"fromOffset": 199}, 0, r"offset 199 \(option fromOffset\) of log 'trimmed' was trimmed"),
        ({"fromOffset": 100}, 0, r"offset 100 \(option fromOffset\) of log 'trimmed' was trimmed"),
        ({"fromPosition": "1.1.2"}, 0, r"1\.1\.2 \(option fromPosition\) of log 'trimmed' was"),
        ({"fromOffset": 100, "failOnDataLoss": "false"}, 160, ""),
        ({"fromOffset": 200}, 160, ""),
        ({"fromOffset": 359}, 1, ""),
        ({"fromOffset": 400}, 0, ""),
    ],
)
def test_a_beginning_that_was_trimmed_is_an_error(
    spark: SparkSession,
    cluster: str,
    trimmed: str,
    start: dict[str, str | int],
    records: int,
    message: str,
) -> None:
    frame = load(spark, cluster, trimmed, **start)
    if message:
        with pytest.raises(PySparkException, match=f"PositionTrimmedError: position {message}"):
            frame.count()
    else:
        assert frame.count() == records


def test_columns_have_the_types_and_times_they_say(spark: SparkSession, cluster: str) -> None:
    append_in_segments(cluster, "typed", [[b"x"]], None)
    row = load(spark, cluster, "typed").first()
    assert row is not None
    age = datetime.now(UTC) - row.timestamp.replace(tzinfo=UTC)
    assert abs(age.total_seconds()) < 600
    assert (row.log, row.offset, row.slot, row.epoch) == ("typed", 0, 0, 1)


def offsets(frame: DataFrame) -> list[int]:
    return [row.offset for row in frame.select("offset").collect()]


def test_options_say_which_logs_and_which_part_of_them(spark: SparkSession, cluster: str) -> None:
    for name in ("part-a", "part-b"):
        batches = [[f"{n}-{i}".encode() for i in range(3)] for n in range(120)]
        append_in_segments(cluster, name, batches, ROLLED)
    with quire.sync.connect(cluster) as client:
        records = list(client.read_log("part-a"))
    frame = load(spark, cluster, "part-*, part-a", fromOffset=10, toOffset=200)
    found = [(row.log, row.offset) for row in frame.select("log", "offset").collect()]
    assert found == [(log, n) for log in ("part-a", "part-b") for n in range(10, 200)]
    here, there = records[100].position, records[250].position
    frame = load(
        spark, cluster, "part-a", fromPosition=str(here), toPosition=str(there), columns="offset"
    )
    assert frame.columns == ["offset"]
    assert offsets(frame) == list(range(100, 250))
    moment = datetime.fromtimestamp(records[150].timestamp_ms / 1000, UTC).isoformat()
    expected = [each.offset for each in records if each.timestamp_ms >= records[150].timestamp_ms]
    assert offsets(load(spark, cluster, "part-a", fromTime=moment)) == expected


def test_segments_are_split_and_stay_in_order(spark: SparkSession, cluster: str) -> None:
    append_in_segments(cluster, "split", [[bytes(1000)] * 10 for _ in range(100)], None)
    frame = load(spark, cluster, "split", splitBytes=200_000)
    assert frame.rdd.getNumPartitions() == 6
    assert offsets(frame) == list(range(1000))


def test_a_frame_is_used_several_times(spark: SparkSession, cluster: str) -> None:
    """No use sees what another one filtered for."""
    append_in_segments(cluster, "filtered", [[f"{n}".encode()] for n in range(160)], ROLLED)
    frame = load(spark, cluster, "filtered")
    first, last = frame.where("offset < 10"), frame.where("offset >= 150")
    assert offsets(first.union(last)) == [*range(10), *range(150, 160)]
    assert offsets(first) == list(range(10))
    assert frame.count() == 160
    shifted = last.selectExpr("offset - 150 as offset")
    assert first.select("offset").join(shifted, "offset").count() == 10


def test_a_raw_ledger_is_read_entry_by_entry(spark: SparkSession, cluster: str) -> None:
    with quire.sync.connect(cluster) as client, client.create_ledger() as writer:
        ledger = writer.ledger
        writer.append_many([f"entry {n}".encode() * 100 for n in range(50)])
    reading = spark.read.format("quire")
    frame = reading.options(cluster=cluster, ledger=ledger, splitBytes=10_000).load()
    assert frame.rdd.getNumPartitions() > 2
    rows = [(row.ledger, row.entry, bytes(row.payload)) for row in frame.collect()]
    assert rows == [(ledger, n, f"entry {n}".encode() * 100) for n in range(50)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"log": "whole"}, r"needs .option\('cluster'"),
        ({"cluster": "CLUSTER"}, r"needs .option\('log'"),
        ({"cluster": "CLUSTER", "log": "absent"}, "'absent' does not exist"),
        ({"cluster": "CLUSTER", "log": "whole", "from": "1"}, "option 'from' is not one of"),
    ],
)
def test_a_wrong_option_is_named(
    spark: SparkSession, cluster: str, options: dict[str, str], message: str
) -> None:
    given = {name: value.replace("CLUSTER", cluster) for name, value in options.items()}
    with pytest.raises(PySparkException, match=message):
        spark.read.format("quire").options(**given).load().count()
