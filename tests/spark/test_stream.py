"""Streaming queries over logs: limits, restarts, failures, cursors; real Spark, real bookies."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pyspark.sql.datasource
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import quire.sync
from quire import LogOptions
from quire.errors import PositionTrimmedError
from quire.log.records.position import Position
from quire.spark import stream
from quire.spark.beginning import check_beginning
from quire.spark.errors import find_error
from quire.spark.options import ReadOptions
from quire.spark.stream import LogStreamReader

HAS_LIMITS = hasattr(pyspark.sql.datasource.DataSourceStreamReader, "getDefaultReadLimit")
"""Whether Spark keeps to the limits of a source, from 4.2 on."""

Batches = dict[int, list[tuple[str, int]]]


def append(cluster: str, log: str, first: int, records: int) -> None:
    """Append numbered records, three to an entry, in small segments."""
    options = LogOptions(roll_entries=40)
    with quire.sync.connect(cluster) as client, client.open_log(log, options) as leader:
        for start in range(first, first + records, 3):
            stop = min(start + 3, first + records)
            leader.append_many([b"%d" % number for number in range(start, stop)])


def run(
    spark: SparkSession,
    checkpoint: Path,
    sink: Callable[[DataFrame, int], None],
    **options: str | int,
) -> None:
    """Run a query until it has read what there is now."""
    frame = spark.readStream.format("quire").options(**options).load()
    query = (
        frame.select("log", "offset", "payload")
        .writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(120)
    finally:
        query.stop()


def test_a_query_begins_in_front_of_what_is_appended_while_it_looks(
    cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with quire.sync.connect(cluster) as client:
        client.open_log("young").close()
    reader = LogStreamReader(
        ReadOptions.parse({"cluster": cluster, "log": "young"}, streaming=True)
    )

    def late(*given: Any) -> None:  # between its two looks
        append(cluster, "young", 0, 3)
        check_beginning(*given)

    monkeypatch.setattr(stream, "check_beginning", late)
    assert reader.initialOffset()["young"]["offset"] == 0


def collect(batches: Batches) -> Callable[[DataFrame, int], None]:
    """A sink that knows its batches by their number: a batch that comes again replaces itself."""

    def sink(frame: DataFrame, number: int) -> None:
        rows = frame.collect()
        assert all(int(bytes(row.payload)) == row.offset for row in rows)
        batches[number] = [(row.log, row.offset) for row in rows]

    return sink


def read(batches: Batches, log: str) -> list[int]:
    return [offset for number in sorted(batches) for name, offset in batches[number] if name == log]


def test_a_query_reads_on_where_it_stopped(
    spark: SparkSession, cluster: str, tmp_path: Path
) -> None:
    append(cluster, "flow-a", 0, 200)
    append(cluster, "flow-b", 0, 30)
    batches: Batches = {}
    options: dict[str, str | int] = {
        "cluster": cluster, "log": "flow-*", "maxRecordsPerTrigger": 80, "cursor": "spark"
    }  # fmt: skip
    run(spark, tmp_path, collect(batches), **options)
    sizes = [80, 80, 70] if HAS_LIMITS else [230]
    assert [len(batches[number]) for number in sorted(batches)] == sizes
    assert read(batches, "flow-a") == list(range(200))
    assert read(batches, "flow-b") == list(range(30))
    append(cluster, "flow-a", 200, 50)
    append(cluster, "flow-c", 0, 10)
    run(spark, tmp_path, collect(batches), **options)
    assert read(batches, "flow-a") == list(range(250))
    assert read(batches, "flow-c") == list(range(10))
    with quire.sync.connect(cluster) as client:
        (state,) = client.log_cursors("flow-a").list()
        offset = next(client.read_log("flow-a", state.position)).offset
    assert state.name == "spark"
    assert 150 <= offset <= 250


def test_failing_again_and_again_costs_and_doubles_nothing(
    spark: SparkSession, cluster: str, tmp_path: Path
) -> None:
    append(cluster, "crashing", 0, 400)
    batches: Batches = {}
    keep, calls, crashes = collect(batches), count(), 0

    def sink(frame: DataFrame, number: int) -> None:
        call = next(calls)
        if call in (0, 3):
            raise RuntimeError("before")
        keep(frame, number)
        if call == 1:
            raise RuntimeError("after")

    options: dict[str, str | int] = {
        "cluster": cluster, "log": "crashing", "maxRecordsPerTrigger": 110
    }  # fmt: skip
    for _ in range(5):
        try:
            run(spark, tmp_path, sink, **options)
        except StreamingQueryException:
            crashes += 1
        else:
            break
    assert crashes == (3 if HAS_LIMITS else 2), "without limits there is one batch"
    assert read(batches, "crashing") == list(range(400))


def test_what_was_trimmed_before_it_was_read_is_an_error(
    spark: SparkSession, cluster: str, tmp_path: Path
) -> None:
    append(cluster, "lossy", 0, 30)
    batches: Batches = {}
    options: dict[str, str | int] = {"cluster": cluster, "log": "lossy"}
    run(spark, tmp_path, collect(batches), **options)
    append(cluster, "lossy", 30, 60)
    with quire.sync.connect(cluster) as client:
        positions = [record.position for record in client.read_log("lossy")]
        client.trim_log("lossy", positions[40])
    with pytest.raises(
        StreamingQueryException, match="offset 30 of log 'lossy' was trimmed"
    ) as end:
        run(spark, tmp_path, collect(batches), **options)
    error = find_error(end.value)
    assert isinstance(error, PositionTrimmedError)
    assert (error.log, error.position) == ("lossy", "offset 30")
    run(spark, tmp_path, collect(batches), **options, failOnDataLoss="false")
    assert read(batches, "lossy") == [*range(30), *range(40, 90)]
    assert positions[0] == Position(1, 0, 0)


def test_a_query_may_begin_in_the_middle(spark: SparkSession, cluster: str, tmp_path: Path) -> None:
    append(cluster, "middle", 0, 60)
    batches: Batches = {}
    run(
        spark,
        tmp_path,
        collect(batches),
        cluster=cluster,
        subscribePattern="midd.e",
        startingOffsets='{"middle": 31}',
        minOffsetsPerTrigger=1000,
    )
    assert read(batches, "middle") == list(range(31, 60))
