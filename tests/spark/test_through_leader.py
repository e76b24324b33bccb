"""Spark writes beside a live leader: real Spark, a gateway as a process, real bookies."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

import quire.sync
from quire.errors import RowsChangedError
from quire.spark.errors import typed_errors
from tests.gateway.process import GatewayProcess


@pytest.fixture(scope="module")
def gateway(cluster: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a gateway."""
    process = GatewayProcess(cluster, tmp_path_factory.mktemp("gateway") / "log")
    yield process.start().http
    process.end()


PAUSE_SECONDS = 0.02
"""Of the service between two appends: Spark shares its processors."""


class Service:
    """Writes to a log over HTTP until it is told to end, and fails if an append does."""

    def __init__(self, gateway: str, log: str) -> None:
        self.written: list[str] = []
        self.failure: BaseException | None = None
        self._url = f"{gateway}/v1/logs/{log}/records"
        self._is_ending = threading.Event()
        self._has_begun = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Service:
        self._thread.start()
        assert self._has_begun.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._is_ending.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._is_ending.wait(PAUSE_SECONDS):
                self._append(f"live-{len(self.written)}")
        except BaseException as error:
            self.failure = error
        finally:
            self._has_begun.set()

    def _append(self, text: str) -> None:
        body = json.dumps({"value": text}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self._url, body, headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.status == 201
        self.written.append(text)
        self._has_begun.set()


def records_of(cluster: str, log: str) -> list[str]:
    with quire.sync.connect(cluster) as client:
        return [record.payload.decode() for record in client.read_log(log)]


def epochs_of(cluster: str, log: str) -> set[int]:
    with quire.sync.connect(cluster) as client:
        return {record.epoch for record in client.read_log(log)}


def write(frame: DataFrame, gateway: str, log: str, job: str, sequence: int = 0) -> None:
    options = {"mode": "through-leader", "gateway": gateway, "log": log, "job": job}
    writer = frame.write.format("quire").mode("append").options(**options)
    with typed_errors():
        writer.option("sequence", sequence).save()


def numbers(spark: SparkSession, name: str, rows: int) -> DataFrame:
    text = sql.concat(sql.lit(f"{name}-"), sql.col("id").cast("string"))
    return spark.range(rows, numPartitions=3).select(text.alias("payload"))


def follow(spark: SparkSession, cluster: str, gateway: str, checkpoint: Path) -> list[int]:
    """Copy log `source` to log `shared` in micro-batches, and return their numbers."""
    options = {"cluster": cluster, "log": "source", "maxRecordsPerTrigger": "200"}
    query = (
        spark.readStream.format("quire")
        .options(**options)
        .load()
        .select("payload")
        .writeStream.format("quire")
        .options(mode="through-leader", gateway=gateway, log="shared", job="follow")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(120)
    finally:
        query.stop()
    assert query.exception() is None
    return [progress["batchId"] for progress in query.recentProgress if progress["numInputRows"]]


def forget_last_commit(checkpoint: Path) -> int:
    """Let Spark repeat the last micro-batch, as after a crash before its commit."""
    last = max(int(each.name) for each in (checkpoint / "commits").iterdir() if each.name.isdigit())
    for name in (f"{last}", f".{last}.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)
    return last


def test_a_batch_and_a_stream_beside_a_live_writer(
    spark: SparkSession, cluster: str, gateway: str, tmp_path: Path
) -> None:
    rows, checkpoint = 4_000, tmp_path / "checkpoint"
    with quire.sync.connect(cluster) as client, client.open_log("source") as leader:
        leader.append_many([b"stream-%d" % n for n in range(500)])
    with Service(gateway, "shared") as service:
        write(numbers(spark, "batch", rows), gateway, "shared", "load")
        assert follow(spark, cluster, gateway, checkpoint)
        write(numbers(spark, "batch", rows), gateway, "shared", "load")
        last = forget_last_commit(checkpoint)
        assert follow(spark, cluster, gateway, checkpoint)[:1] == [last], "it was repeated"
    assert service.failure is None
    found = records_of(cluster, "shared")
    expected = [f"batch-{n}" for n in range(rows)] + [f"stream-{n}" for n in range(500)]
    assert Counter(found) == Counter(expected + service.written), "each row once"
    assert [each for each in found if each.startswith("live-")] == service.written
    of_spark = [at for at, each in enumerate(found) if not each.startswith("live-")]
    of_service = [at for at, each in enumerate(found) if each.startswith("live-")]
    assert of_service[0] < of_spark[-1], "the service had begun before the jobs ended"
    assert of_spark[0] < of_service[-1], "and went on"
    assert epochs_of(cluster, "shared") == {1}, "no leader was deposed"


def test_a_repetition_with_other_rows_is_an_error(
    spark: SparkSession, cluster: str, gateway: str
) -> None:
    write(numbers(spark, "first", 300), gateway, "changed", "load", 1)
    with pytest.raises(RowsChangedError, match="row 0 of chunk 0"):
        write(numbers(spark, "other", 300), gateway, "changed", "load", 1)
    with pytest.raises(RowsChangedError, match="has come to number 1") as caught:
        write(numbers(spark, "first", 300), gateway, "changed", "load", 0)
    assert isinstance(caught.value.__cause__, PySparkException)
    write(numbers(spark, "first", 300), gateway, "changed", "load", 2)
    found = Counter(records_of(cluster, "changed"))
    assert found == Counter({f"first-{n}": 2 for n in range(300)})
