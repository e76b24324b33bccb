"""The dice in Spark: are they fair, who threw how often, and how it goes on.

    python -m tutorial.statistics --store ./dice-cluster            # what was thrown so far
    python -m tutorial.statistics --store ./dice-cluster --table ./dice-table   # …as a table, too
    python -m tutorial.statistics --store ./dice-cluster --follow   # …and from now on, until Ctrl-C

Read it as a notebook: every step is a few lines that can be pasted into a PySpark shell, after

    import quire.spark
    quire.spark.register(spark)
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

import quire.sync
from quire.admin import TableUpdate
from quire.metastore.place import resolve_store
from quire.spark.jobs import local_session
from quire.sync import admin
from tutorial.dice import LOG

TABLE: Final = "games.dice"

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


def catalog(directory: Path) -> dict[str, str]:
    """Where tables are: a catalog in SQLite, and the files beside it."""
    directory = directory.resolve()
    uri = f"sqlite:///{directory / 'catalog.db'}"
    return {"type": "sql", "uri": uri, "warehouse": directory.as_uri()}


def to_table(store: str, directory: Path) -> TableUpdate:
    """Step 6: the log as an Apache Iceberg table, for programs that know nothing of quire.

    Do it again, and the table has what was thrown since, each throw once. It needs quire[iceberg],
    and no Spark.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with quire.sync.connect(store) as client:
        return admin.update_table(client, LOG, TABLE, properties=catalog(directory))


def faces_in_table(directory: Path) -> list[tuple[int, int]]:
    """Step 7: the same counts as in step 3, by DuckDB from the table."""
    from pyiceberg.catalog import load_catalog

    found = load_catalog(None, **catalog(directory)).load_table(TABLE)
    with found.scan().to_duckdb("throws") as duck:
        query = "SELECT ascii(decode(payload)) AS face, count(*) FROM throws GROUP BY 1 ORDER BY 1"
        return [(int(face), int(count)) for face, count in duck.sql(query).fetchall()]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--store", default="./dice-cluster", help="store URI or cluster directory")
    parser.add_argument("--follow", action="store_true")
    parser.add_argument("--table", type=Path, help="directory for an Iceberg table of the throws")
    given = parser.parse_args()
    store = resolve_store(given.store)
    spark = local_session("dice", "local[2]")
    try:
        frame = throws(spark, store)
        faces(frame).show()
        leaders(frame).show(truncate=False)
        print(f"{missing(frame)} throws are missing")
        if given.table:
            done = to_table(store, given.table)
            print(f"{done.appended} throws went into table {done.table}")
            for face, count in faces_in_table(given.table):
                print(f"{face}: {count} times")
        if given.follow:
            counts = going_on(spark, store).writeStream.format("console").outputMode("complete")
            counts.start().awaitTermination()
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
