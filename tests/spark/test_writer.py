"""Writing logs from Spark: whole jobs or nothing, once, in order; real Spark, real bookies."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession

import quire.sync
from quire import LogOptions
from quire.errors import DecryptionError, DeposedError
from quire.log.records.keyring import read_key_file


def rows(spark: SparkSession, first: int, end: int, partitions: int = 3) -> DataFrame:
    return spark.range(first, end, 1, partitions).selectExpr("cast(id as string) as payload")


def save(frame: DataFrame, cluster: str, log: str, **options: str | int) -> None:
    writer = frame.write.format("quire").mode("append")
    writer.options(cluster=cluster, log=log, **options).save()


def content(cluster: str, log: str) -> list[int]:
    """What the log's own reader gives, checked for offsets without gaps."""
    with quire.sync.connect(cluster) as client:
        records = list(client.read_log(log))
    assert [record.offset for record in records] == list(range(len(records)))
    return [int(record.payload) for record in records]


def ledgers(cluster: str) -> list[int]:
    with quire.sync.connect(cluster) as client:
        return client.list_ledgers()


def test_a_job_comes_behind_what_was_there(spark: SparkSession, cluster: str) -> None:
    with quire.sync.connect(cluster) as client:
        leader = client.open_log("written")
        leader.append_many([b"%d" % n for n in range(5)])
        save(rows(spark, 5, 3000), cluster, "written", compression="zstd")
        with pytest.raises(DeposedError):
            leader.append(b"late")
        leader.close()
        with client.open_log("written", LogOptions()) as leader:
            leader.append(b"3000")
    assert content(cluster, "written") == list(range(3001))
    found = spark.read.format("quire").options(cluster=cluster, log="written").load()
    read = [int(bytes(row.payload)) for row in found.orderBy("offset").collect()]
    assert read == list(range(3001))
    assert {row.epoch for row in found.select("epoch").distinct().collect()} == {1, 2, 3}


def test_an_encrypted_log_is_written_and_read(
    spark: SparkSession, cluster: str, tmp_path: Path
) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"spark {bytes(range(32)).hex()}\n")
    save(rows(spark, 0, 500), cluster, "secret", keyFile=str(keys), compression="zstd")
    with quire.sync.connect(cluster) as client:
        with pytest.raises(DecryptionError, match="key 'spark'"):
            next(client.read_log("secret"))
        records = list(client.read_log("secret", keyring=read_key_file(str(keys))))
    assert [int(record.payload) for record in records] == list(range(500))
    found = spark.read.format("quire").options(cluster=cluster, log="secret", keyFile=str(keys))
    read = [int(bytes(row.payload)) for row in found.load().orderBy("offset").collect()]
    assert read == list(range(500))


def fail(row: Row) -> Row:
    if row.payload == "350":
        raise RuntimeError("by order of the test")
    return row


def die(row: Row) -> Row:
    if row.payload == "350":
        os.kill(os.getpid(), signal.SIGKILL)
    return row


@pytest.mark.parametrize("end", [fail, die])
def test_a_job_that_fails_leaves_nothing(
    spark: SparkSession, cluster: str, end: Callable[[Row], Row]
) -> None:
    log = f"failed-{end.__name__}"
    save(rows(spark, 0, 10), cluster, log)
    before = ledgers(cluster)
    broken = spark.createDataFrame(rows(spark, 10, 400).rdd.map(end), "payload string")
    with pytest.raises((PySparkException, Py4JJavaError)):
        save(broken, cluster, log)
    assert content(cluster, log) == list(range(10))
    assert ledgers(cluster) == before


def test_a_job_with_a_name_is_done_once(spark: SparkSession, cluster: str) -> None:
    for _ in range(2):
        save(rows(spark, 0, 100), cluster, "named", job="load", sequence=1)
    save(rows(spark, 100, 200), cluster, "named", job="load", sequence=2)
    for _ in range(2):
        save(rows(spark, 200, 250), cluster, "named")
    assert content(cluster, "named") == [*range(250), *range(200, 250)]


def pipe(
    spark: SparkSession, cluster: str, checkpoint: Path, source: str = "source", sink: str = "sink"
) -> None:
    """Stream one log into another until it has what there is now."""
    stream = spark.readStream.format("quire")
    stream = stream.options(cluster=cluster, log=source, maxRecordsPerTrigger=70)
    query = (
        stream.load()
        .select("payload")
        .writeStream.format("quire")
        .options(cluster=cluster, log=sink, job="pipe", checkpointLocation=str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(120)
    finally:
        query.stop()


def test_a_stream_writes_every_batch_once(
    spark: SparkSession, cluster: str, tmp_path: Path
) -> None:
    save(rows(spark, 0, 200, 1), cluster, "source")
    pipe(spark, cluster, tmp_path)
    assert content(cluster, "sink") == list(range(200))
    before = ledgers(cluster)
    commits = sorted((tmp_path / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    for path in commits[-1:]:
        path.unlink()  # as if the driver had died between the log's commit and Spark's
        (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
    pipe(spark, cluster, tmp_path)
    assert content(cluster, "sink") == list(range(200))
    assert ledgers(cluster) == before
    save(rows(spark, 200, 250, 1), cluster, "source")
    pipe(spark, cluster, tmp_path)
    assert content(cluster, "sink") == list(range(250))


def test_a_stream_whose_checkpoint_is_lost_or_old_ends_with_the_remedy(
    spark: SparkSession, cluster: str, tmp_path: Path
) -> None:
    """Its batches count from 0 again, or from where the copy was made."""
    save(rows(spark, 0, 100, 1), cluster, "lost")
    pipe(spark, cluster, tmp_path / "one", "lost", "found")
    shutil.copytree(tmp_path / "one", tmp_path / "copy")
    save(rows(spark, 100, 150, 1), cluster, "lost")
    pipe(spark, cluster, tmp_path / "one", "lost", "found")
    save(rows(spark, 150, 180, 1), cluster, "lost")
    before = ledgers(cluster)
    for checkpoint, reason in (("two", "another query"), ("copy", "with other records")):
        with pytest.raises(StreamingQueryException, match=reason) as raised:
            pipe(spark, cluster, tmp_path / checkpoint, "lost", "found")
        assert "start it with another job" in str(raised.value)
        assert content(cluster, "found") == list(range(150))
    assert ledgers(cluster) == before
    pipe(spark, cluster, tmp_path / "one", "lost", "found")
    assert content(cluster, "found") == list(range(180))


@pytest.mark.parametrize(
    ("options", "column", "message"),
    [
        ({"log": ""}, "payload", r"needs .option\('log'"),
        ({"log": "a*"}, "payload", r"log='a\*'"),
        ({"ensemble": "2", "writeQuorum": "3"}, "payload", "ensemble"),
        ({"jop": "x"}, "payload", "option 'jop' is not one of a write to"),
        ({}, "value", "column payload, binary or string, .*not .value string"),
    ],
)
def test_a_wrong_write_is_refused(
    spark: SparkSession, cluster: str, options: dict[str, str], column: str, message: str
) -> None:
    frame = rows(spark, 0, 10).withColumnRenamed("payload", column)
    with pytest.raises(PySparkException, match=message):
        save(frame, cluster, **({"log": "refused"} | options))
