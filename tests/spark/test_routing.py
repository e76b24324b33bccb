"""Rows go to the logs that a column names: each log whole, each batch once in each log."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructType

import quire.sync
from quire.errors import ConfigurationError, InvalidRequestError, JobReusedError, LogSealedError
from quire.spark import LogDataSource, routing
from quire.spark.options import WriteOptions
from quire.spark.routing import Routed, RoutedStreamWriter, RoutedWriter
from quire.spark.writer import SENT_BYTES_MAX

Rows = list[tuple[str | None, bytes]]


def options(cluster: str, job: str, **given: str) -> WriteOptions:
    return WriteOptions.parse({"cluster": cluster, "job": job, **given}, routed=True)


def batches(rows: Rows) -> Any:
    """The rows of a task, in Arrow batches of three."""
    schema = pa.schema([("payload", pa.binary()), ("log", pa.string())])
    for some in (rows[at : at + 3] for at in range(0, len(rows), 3)):
        logs, payloads = [log for log, _ in some], [payload for _, payload in some]
        yield pa.record_batch([payloads, logs], schema=schema)


def content(cluster: str, log: str) -> list[bytes]:
    with quire.sync.connect(cluster) as client:
        return [record.payload for record in client.read_log(log)]


def ledgers(cluster: str) -> list[int]:
    with quire.sync.connect(cluster) as client:
        return client.list_ledgers()


def rows(*logs: str, first: int = 0) -> Rows:
    return [(log, b"%d" % number) for number, log in enumerate(logs, first)]


def test_each_log_gets_its_rows_in_order_and_once(cluster: str) -> None:
    writer = RoutedWriter(options(cluster, "routes"))
    given = [rows("route-a", "route-b", "route-a", "route-a"), [], rows("route-b", first=10)]
    for _ in range(2):
        writer.commit([writer.write(batches(each)) for each in given])
    assert content(cluster, "route-a") == [b"0", b"2", b"3"]
    assert content(cluster, "route-b") == [b"1", b"10"]
    again = writer.write(batches(given[0]))
    assert isinstance(again, Routed)
    assert not any(parts.batches or parts.ledgers for _, parts in again.by_log), "it is done"


def test_a_log_that_fails_leaves_the_others_whole_and_is_written_by_a_repetition(
    cluster: str,
) -> None:
    with quire.sync.connect(cluster) as client:
        with client.open_log("half-b") as leader:
            leader.seal()
        writer = RoutedStreamWriter(options(cluster, "halves"))
        sent = [writer.write(batches(rows("half-a", "half-b", "half-c")))]
        before = ledgers(cluster)
        with pytest.raises(LogSealedError) as failed:
            writer.commit(list(sent), 0)
        assert "2 of 3 logs were written" in "".join(failed.value.__notes__)
        writer.abort(list(sent), 0)
        assert content(cluster, "half-a") == [b"0"]
        assert len(ledgers(cluster)) == len(before) + 2
        client.delete_log("half-b")
        writer.commit(list(sent), 0)
    assert [content(cluster, f"half-{each}") for each in "abc"] == [[b"0"], [b"1"], [b"2"]]
    other = [writer.write(batches(rows("half-a", first=9)))]
    with pytest.raises(JobReusedError):
        writer.commit(list(other), 0)


def test_an_abort_finds_the_ledgers_of_tasks_that_said_nothing(
    cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = ledgers(cluster)
    monkeypatch.setattr(routing, "WAITING_BYTES_MAX", 10)
    writer = RoutedWriter(options(cluster, "silent"))
    broken: Rows = [("silent-a", b"x" * 100), ("silent-b", b"y" * 100), (None, b"")]
    with pytest.raises(InvalidRequestError, match="column log is None"):
        writer.write(batches([*broken[:2], *broken[:2], broken[2]]))
    assert len(ledgers(cluster)) > len(before)
    writer.abort([None])
    assert ledgers(cluster) == before


def test_a_task_bounds_what_it_keeps(cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "WAITING_BYTES_MAX", 2 * SENT_BYTES_MAX)
    large = [("full-a" if n % 4 else "full-b", bytes([n]) * 40_000) for n in range(20)]
    writer = RoutedWriter(options(cluster, "full"))
    writer.commit([writer.write(batches(list(large)))])
    for log in ("full-a", "full-b"):
        assert content(cluster, log) == [payload for name, payload in large if name == log]


@pytest.mark.parametrize("name", ["", "a*", " a", "a,b"])
def test_a_row_names_one_log(name: str) -> None:
    with pytest.raises(InvalidRequestError, match="a row names one log"):
        list(routing.rows_by_log(next(batches([(name, b"x")]))))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "needs .option.'job'"),
        ({"job": "j", "log": "a"}, "leave out option log"),
        ({"job": "j", "after": "3"}, "leave out option after"),
    ],
)
def test_a_column_takes_the_place_of_the_option(given: dict[str, str], message: str) -> None:
    schema = StructType().add("log", StringType()).add("payload", StringType())
    source = LogDataSource({"cluster": "c", **given})
    for writer in (source.writer, source.streamWriter):
        with pytest.raises(ConfigurationError, match=message):
            writer(schema, False)


def test_spark_routes_a_frame(spark: SparkSession, cluster: str) -> None:
    frame = spark.range(0, 9, 1, 2).selectExpr(
        "cast(id as string) as payload", "concat('spark-route-', id % 2) as log"
    )
    frame.write.format("quire").mode("append").options(cluster=cluster, job="route").save()
    for rest in (0, 1):
        found = content(cluster, f"spark-route-{rest}")
        assert found == [b"%d" % n for n in range(9) if n % 2 == rest]
