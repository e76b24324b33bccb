"""Whole logs from a real Spark session, real bookie processes behind it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

import quire.sync
from quire import LogOptions
from quire.sync import local_cluster

ROLLED = LogOptions(roll_entries=50)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory: Path = tmp_path_factory.mktemp("cluster")
    with local_cluster(directory, bookies=3) as running:
        yield running.store_uri


def load(spark: SparkSession, cluster: str, log: str) -> DataFrame:
    return spark.read.format("quire").option("cluster", cluster).option("log", log).load()


def write(cluster: str, log: str, batches: list[list[bytes]], options: LogOptions) -> None:
    with quire.sync.connect(cluster) as client, client.open_log(log, options) as leader:
        for batch in batches:
            leader.append_many(batch)


def wait_until_visible(cluster: str, log: str, records: int) -> None:
    """Followers see a record a moment after its append returned; a snapshot is no different."""
    with quire.sync.connect(cluster) as client:
        follower = client.read_log(log, follow=True)
        for _ in range(records):
            next(follower)
        follower.close()


def test_a_whole_log_is_what_its_own_reader_gives(spark: SparkSession, cluster: str) -> None:
    batches = [[f"{n}-{i}".encode() for i in range(n % 7 + 1)] for n in range(160)]
    write(cluster, "whole", batches, ROLLED)
    with quire.sync.connect(cluster) as client:
        expected = [
            (str(record.position), record.offset, record.epoch, record.payload)
            for record in client.read_log("whole")
        ]
        segments = len(client.describe_log("whole").segments)
    frame = load(spark, cluster, "whole")
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
        assert frame.count() == 10, "a data frame is a snapshot"
        wait_until_visible(cluster, "live", 11)
        assert load(spark, cluster, "live").count() == 11


def test_a_trimmed_prefix_is_not_read(spark: SparkSession, cluster: str) -> None:
    write(cluster, "trimmed", [[b"a", b"b", b"c"] for _ in range(120)], ROLLED)
    with quire.sync.connect(cluster) as client:
        positions = [record.position for record in client.read_log("trimmed")]
        client.trim_log("trimmed", positions[200])
    row = load(spark, cluster, "trimmed").agg(sql.min("offset"), sql.count("*")).first()
    assert row is not None
    assert tuple(row) == (200, 160)


def test_columns_have_the_types_and_times_they_say(spark: SparkSession, cluster: str) -> None:
    write(cluster, "typed", [[b"x"]], LogOptions())
    row = load(spark, cluster, "typed").first()
    assert row is not None
    age = datetime.now(UTC) - row.timestamp.replace(tzinfo=UTC)
    assert abs(age.total_seconds()) < 600
    assert (row.log, row.offset, row.slot, row.epoch) == ("typed", 0, 0, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"log": "whole"}, r"needs .option\('cluster'"),
        ({"cluster": "CLUSTER"}, r"needs .option\('log'"),
        ({"cluster": "CLUSTER", "log": "absent"}, "'absent' does not exist"),
        ({"cluster": "CLUSTER", "log": "whole", "from": "1"}, "option 'from' is not one"),
    ],
)
def test_a_wrong_option_is_named(
    spark: SparkSession, cluster: str, options: dict[str, str], message: str
) -> None:
    given = {name: value.replace("CLUSTER", cluster) for name, value in options.items()}
    with pytest.raises(PySparkException, match=message):
        spark.read.format("quire").options(**given).load().count()
