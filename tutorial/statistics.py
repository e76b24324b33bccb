"""The dice in Spark: are they fair, who threw how often, and how it goes on.

    python -m tutorial.statistics --store ./dice-cluster            # what was thrown so far
    python -m tutorial.statistics --store ./dice-cluster --follow   # …and from now on, until Ctrl-C

Read it as a notebook: every step is a few lines that can be pasted into a PySpark shell.
"""

from __future__ import annotations

import argparse

from pyspark.sql import DataFrame, SparkSession

from quire.client import resolve_store
from quire.spark.jobs import local_session
from tutorial.dice import LOG


def throws(spark: SparkSession, store: str) -> DataFrame:
    """Step 1: the whole log is a data frame, one row per record, none missing and none twice."""
    log = spark.read.format("quire").option("cluster", store).option("log", LOG).load()
    return log.selectExpr("offset", "epoch", "timestamp", "ascii(cast(payload as string)) as face")


def faces(frame: DataFrame) -> DataFrame:
    """Step 2: are the dice fair?"""
    return frame.groupBy("face").count().orderBy("face")


def leaders(frame: DataFrame) -> DataFrame:
    """Step 3: every epoch had one leader. How long did each last, and how many throws were his?"""
    return (
        frame.groupBy("epoch")
        .agg({"offset": "count", "timestamp": "max"})
        .withColumnsRenamed({"count(offset)": "throws", "max(timestamp)": "last"})
        .orderBy("epoch")
    )


def follow(spark: SparkSession, store: str) -> None:
    """Step 4: the same as a stream. Kill a leader meanwhile: the counts go on, and stay right."""
    stream = spark.readStream.format("quire").option("cluster", store).option("log", LOG).load()
    counts = (
        stream.selectExpr("ascii(cast(payload as string)) as face")
        .groupBy("face")
        .count()
        .orderBy("face")
    )
    counts.writeStream.format("console").outputMode("complete").start().awaitTermination()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--store", default="./dice-cluster", help="store URI or cluster directory")
    parser.add_argument("--follow", action="store_true")
    given = parser.parse_args()
    store = resolve_store(given.store)
    spark = local_session("dice", "local[2]")
    try:
        frame = throws(spark, store)
        faces(frame).show()
        leaders(frame).show(truncate=False)
        if given.follow:
            follow(spark, store)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
