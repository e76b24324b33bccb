"""The tutorial's statistics count what was thrown: in a log, a stream and an Iceberg table."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

import quire.sync
from tutorial import statistics
from tutorial.dice import LOG

THROWN = [[6, 6, 1], [3, 3, 3, 3], [2]]
"""By leader."""


def test_the_statistics_of_the_dice(spark: SparkSession, cluster: str, tmp_path: Path) -> None:
    with quire.sync.connect(cluster) as client:
        for values in THROWN:
            with client.open_log(LOG) as leader:
                for value in values:
                    leader.append(bytes([value]))
    frame = statistics.throws(spark, cluster)
    assert statistics.missing(frame) == 0
    counts = [(row["face"], row["count"]) for row in statistics.faces(frame).collect()]
    assert counts == [(1, 1), (2, 1), (3, 4), (6, 2)]
    rows = statistics.leaders(frame).collect()
    assert [(row["epoch"], row["throws"]) for row in rows] == [(1, 3), (2, 4), (3, 1)]
    assert all(row["first"] <= row["last"] for row in rows)
    query = statistics.going_on(spark, cluster).writeStream.outputMode("complete")
    query = query.format("memory").queryName("dice").trigger(availableNow=True)
    query.option("checkpointLocation", str(tmp_path)).start().awaitTermination()
    streamed = spark.table("dice").orderBy("face").collect()
    assert [(row["face"], row["count"]) for row in streamed] == counts
    assert statistics.to_table(cluster, tmp_path / "table").appended == sum(map(len, THROWN))
    assert statistics.faces_in_table(tmp_path / "table") == counts
    assert statistics.to_table(cluster, tmp_path / "table").appended == 0
