"""The dice in Spark: are they fair, who threw how often, and how it goes on.

    python -m tutorial.statistics --store ./dice-cluster            # what was thrown so far
    python -m tutorial.statistics --store ./dice-cluster --follow   # …and from now on, until Ctrl-C

Read it as a notebook: every step is a few lines that can be pasted into a PySpark shell, after

    import quire.spark
    quire.spark.register(spark)
"""

from __future__ import annotations

import argparse

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from quire.metastore.place import resolve_store
from quire.spark.jobs import local_session
from tutorial.dice import LOG

FACE = "ascii(cast(payload as string)) as face"
"""A throw is one byte, 1 to 6."""


def throws(spark: SparkSession, store: str) -> DataFrame:
    """Step 1: the whole log is a data frame, one row per throw, in order of its offset.

    It is a snapshot: of this very moment, while whoever leads goes on throwing undisturbed.
    """
    log = spark.read.format("quire").option("cluster", store).option("log", LOG).load()
    return log.selectExpr("offset", "epoch", "timestamp", FACE)


def missing(frame: DataFrame) -> int:
    """Step 2: did any of them get lost, or was counted twice? Offsets have no gaps, so: no."""
    row = frame.agg(sql.count("*"), sql.min("offset"), sql.max("offset")).first()
    assert row is not None
    count, first, last = row
    return 0 if count == 0 else int(last - first + 1 - count)


def faces(frame: DataFrame) -> DataFrame:
    """Step 3: are the dice fair?"""
    return frame.groupBy("face").count().orderBy("face")


def leaders(frame: DataFrame) -> DataFrame:
    """Step 4: every epoch had one leader. How many throws were his, from when to when?"""
    return (
        frame.groupBy("epoch")
        .agg(
            sql.count("*").alias("throws"),
            sql.min("timestamp").alias("first"),
            sql.max("timestamp").alias("last"),
        )
        .orderBy("epoch")
    )


def going_on(spark: SparkSession, store: str) -> DataFrame:
    """Step 5: the same as a stream. Kill a leader meanwhile: the counts go on, and stay right."""
    stream = spark.readStream.format("quire").option("cluster", store).option("log", LOG).load()
    return faces(stream.selectExpr(FACE))


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
        print(f"{missing(frame)} throws are missing")
        if given.follow:
            counts = going_on(spark, store).writeStream.format("console").outputMode("complete")
            counts.start().awaitTermination()
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
