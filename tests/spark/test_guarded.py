"""A log whose reads need its password, in Spark: written, read, streamed, and shown nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import quire.sync
from quire.sync import SyncLocalCluster

LOG, COPY = "accounts", "accounts-copy"
PASSWORD = "a-long-and-well-kept-word"
SECONDS_MAX = 120


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A cluster with TLS, without which no log has the option."""
    directory = tmp_path_factory.mktemp("guarded") / "cluster"
    with SyncLocalCluster(directory, bookies=3, tls=True):
        with quire.sync.connect(str(directory)) as client:
            for log in (LOG, COPY):
                client.create_log(log, {"read_needs_password": "true"})
        yield str(directory)


def save(frame: DataFrame, cluster: str, **options: str) -> None:
    frame.write.format("quire").mode("append").options(cluster=cluster, log=LOG, **options).save()


def load(spark: SparkSession, cluster: str, **options: str) -> DataFrame:
    return spark.read.format("quire").options(cluster=cluster, log=LOG, **options).load()


def payloads(cluster: str, log: str) -> list[int]:
    with quire.sync.connect(cluster) as client:
        return [int(each.payload) for each in client.read_log(log, password=PASSWORD.encode())]


@pytest.mark.timeout(400)
def test_jobs_and_streams_give_the_password(
    spark: SparkSession, guarded: str, tmp_path: Path
) -> None:
    rows = spark.range(0, 300, 1, 3).selectExpr("cast(id as string) as payload")
    with pytest.raises(PySparkException, match="password"):
        save(rows, guarded)
    save(rows, guarded, password=PASSWORD)
    assert payloads(guarded, LOG) == list(range(300))
    with quire.sync.connect(guarded) as client:
        ledgers = client.list_ledgers()
        assert ledgers
        assert all(client.ledger_info(each).read_needs_password for each in ledgers)

    with pytest.raises(PySparkException, match="UnauthorizedError"):
        load(spark, guarded).collect()
    found = load(spark, guarded, password=PASSWORD, splitBytes="1KiB")
    assert sorted(int(bytes(row.payload)) for row in found.collect()) == list(range(300))

    streamed = spark.readStream.format("quire")
    streamed = streamed.options(cluster=guarded, log=LOG, password=PASSWORD)
    sink = streamed.load().select("payload").writeStream.format("quire")
    sink = sink.options(cluster=guarded, log=COPY, password=PASSWORD, job="copy")
    checkpoint = tmp_path / "checkpoint"
    query = sink.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(SECONDS_MAX)
    assert sorted(payloads(guarded, COPY)) == list(range(300))
    progress = [each.json if hasattr(each, "json") else str(each) for each in query.recentProgress]
    assert PASSWORD not in "".join(progress)
    kept = [each for each in checkpoint.rglob("*") if each.is_file()]
    assert kept
    assert not [each for each in kept if PASSWORD.encode() in each.read_bytes()]


def test_plans_and_texts_do_not_show_the_password(
    spark: SparkSession, guarded: str, capfd: pytest.CaptureFixture[str]
) -> None:
    found = load(spark, guarded, password=PASSWORD)
    found.explain(mode="extended")
    shown = capfd.readouterr().out
    assert "Physical Plan" in shown
    execution = found._jdf.queryExecution()
    for text in (shown, str(found), execution.toString(), execution.stringWithStats()):
        assert PASSWORD not in text
