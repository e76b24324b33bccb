"""How long Spark needs to count a log of many small segments.

    python -m benchmarks.spark_segments --segments 10000

Starts three bookies in a temporary directory, appends a few records to each segment, and counts
the records in a warm session: by reading all columns, and by the manifest alone. Quire's own reader
is measured beside it. Everything is removed at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

import quire
import quire.sync
from benchmarks.spark_read import drain, seconds
from quire.spark.jobs import local_session
from quire.sync import SyncLocalCluster

RECORDS = 10
"""Of every segment."""


async def fill(store: str, segments: int) -> None:
    async with quire.connect(store) as client, await client.open_log("bench") as log:
        for _ in range(segments):
            await log.append_many([b"a record of some bytes"] * RECORDS)
            await log.roll()


def count_by_reader(store: str) -> int:
    with quire.sync.connect(store) as client:
        return sum(1 for _ in client.read_log("bench"))


def measure(spark: SparkSession, store: str, given: argparse.Namespace) -> None:
    writing = seconds(lambda: asyncio.run(fill(store, given.segments)))
    print(f"{given.segments} segments written in {writing:.1f} s", flush=True)
    if given.reader:
        reading = seconds(lambda: count_by_reader(store))
        print(f"quire's own reader: {reading:.1f} s", flush=True)
    source = spark.read.format("quire").options(cluster=store, log="bench")
    assert source.option("toOffset", 100).load().count() == 100  # the session is warm
    for _ in range(given.rounds):
        frame = spark.read.format("quire").options(cluster=store, log="bench").load()
        counting = seconds(lambda frame=frame: frame.count())  # type: ignore[misc]
        print(f"count(): {counting:.1f} s", flush=True)
        frame = spark.read.format("quire").options(cluster=store, log="bench").load()
        draining = seconds(lambda frame=frame: drain(frame))  # type: ignore[misc]
        print(f"all columns: {draining:.1f} s in {frame.rdd.getNumPartitions()} tasks", flush=True)
        assert frame.count() == RECORDS * given.segments


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--segments", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--reader", action="store_true", help="measure quire's own reader, too")
    given = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path.cwd()), *sys.path[1:2]])
    with (
        tempfile.TemporaryDirectory(prefix="quire-bench-") as scratch,
        SyncLocalCluster(Path(scratch) / "cluster", bookies=3) as cluster,
    ):
        spark = local_session("quire spark_segments", f"local[{os.cpu_count()}]")
        try:
            measure(spark, cluster.store_uri, given)
        finally:
            spark.stop()


if __name__ == "__main__":
    main()
