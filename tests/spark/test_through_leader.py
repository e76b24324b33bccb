"""Spark writes beside a live leader: real Spark, a gateway as a process, real bookies."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

import quire.sync
from quire.errors import RowsChangedError
from quire.log.records.attributes import NO_ATTRIBUTES
from quire.spark.asking_gateways import Asking, Connections
from quire.spark.chunks import CHUNK_RECORDS, Row
from quire.spark.errors import typed_errors
from quire.spark.through_leader import ChunkSender, LeaderOptions, SentChunks
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


def attempt(gateway: str, log: str, rows: Iterable[Row]) -> SentChunks:
    """Run an attempt of one task, with a connection of its own."""
    options = {"mode": "through-leader", "gateway": gateway, "log": log, "job": "load"}
    parsed = LeaderOptions.parse(options)
    connections = Connections()
    try:
        return ChunkSender(Asking(parsed.gateways, connections), parsed, "p", 0).send(rows)
    finally:
        connections.close()


CHUNKS = 40


def payloads(changed: int | None = None) -> list[Row]:
    found = [(b"row-%d" % n, NO_ATTRIBUTES) for n in range(CHUNKS * CHUNK_RECORDS)]
    if changed is not None:
        found[changed] = (b"changed", NO_ATTRIBUTES)
    return found


def in_step(rows: list[Row], barrier: threading.Barrier) -> Iterator[Row]:
    """Rows of which no chunk is sent before the other attempt sends the same one."""
    for number, row in enumerate(rows):
        if number % CHUNK_RECORDS == 0:
            barrier.wait(60)
        yield row


def test_two_attempts_at_the_same_time_write_each_row_once(cluster: str, gateway: str) -> None:
    rows, barrier = payloads(), threading.Barrier(2)
    with ThreadPoolExecutor() as pool:
        sent = list(pool.map(lambda _: attempt(gateway, "twins", in_step(rows, barrier)), range(2)))
    assert records_of(cluster, "twins") == [payload.decode() for payload, _ in rows]
    assert [each.chunks for each in sent] == [CHUNKS] * 2
    assert sum(each.repeated for each in sent) == CHUNKS, "each chunk was written by one attempt"


@pytest.mark.parametrize("in_turn", [True, False], ids=["in step", "one outruns the other"])
def test_other_rows_of_an_attempt_at_the_same_time_are_an_error(
    cluster: str, gateway: str, in_turn: bool
) -> None:
    log, at = f"unlike-{in_turn}", 7 * CHUNK_RECORDS + 3
    barrier = threading.Barrier(2)
    has_ended = threading.Event()

    def outrun(rows: list[Row]) -> Iterator[Row]:
        """Pause after the first chunk until the other attempt has ended."""
        for number, row in enumerate(rows):
            if number == CHUNK_RECORDS + 1:
                assert has_ended.wait(60)
            yield row

    def first() -> SentChunks:
        rows = payloads()
        try:
            return attempt(gateway, log, in_step(rows, barrier) if in_turn else rows)
        finally:
            has_ended.set()
            barrier.abort()

    def second() -> SentChunks:
        rows = payloads(changed=at)
        try:
            return attempt(gateway, log, in_step(rows, barrier) if in_turn else outrun(rows))
        finally:
            barrier.abort()

    with ThreadPoolExecutor() as pool:
        ends = [pool.submit(first), pool.submit(second)]
        errors = [each.exception(120) for each in ends]
    assert any(isinstance(each, RowsChangedError) for each in errors), errors
    assert "chunk 7 " in str(next(each for each in errors if isinstance(each, RowsChangedError)))
    found = records_of(cluster, log)
    histories = [[payload.decode() for payload, _ in payloads(each)] for each in (None, at)]
    assert found in [each[: len(found)] for each in histories], "one history"
    assert len(found) >= 8 * CHUNK_RECORDS
