"""How fast Spark writes a log, beside Parquet.

    python -m benchmarks.spark_write --records 10000000 [--bookies 1] [--through-leader]

Starts bookies in a temporary directory, keeps a data frame of records in Spark's memory and disk,
and writes it in turns, in one warm session: into a log, and into Parquet files without compression.
The log has a copy on each of up to three bookies, and answers when they are on disk; Parquet is one
copy, which Spark does not sync. Medians are printed, and what was written is counted. With
`--through-leader` a gateway is started, and the same records go through it, too. Everything is
removed at the end; 10 million records of 100 bytes need 10 GB of disk, and 6 GB of memory.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

import quire.sync
from benchmarks.spark_read import seconds
from quire.spark import count
from quire.spark.jobs import local_session
from quire.sync import SyncLocalCluster
from tests.gateway.process import GatewayProcess

PARTITIONS = 16


def records_of(spark: SparkSession, given: argparse.Namespace) -> DataFrame:
    """Return records that do not compress to nothing, made before anything is measured."""
    blocks = range(-(-given.size // 32))
    noise = ", ".join(f"unhex(sha2(cast(id as string) || '/{block}', 256))" for block in blocks)
    frame = spark.range(0, given.records, 1, PARTITIONS)
    frame = frame.selectExpr(f"substring(concat({noise}), 1, {given.size}) as payload")
    frame = frame.persist(StorageLevel.MEMORY_AND_DISK)
    frame.count()
    return frame


def measure(
    spark: SparkSession, store: str, gateway: str, directory: Path, given: argparse.Namespace
) -> None:
    """Measure and print. `gateway` is the URL of one, or empty."""
    frame, copies = records_of(spark, given), min(3, given.bookies)
    replication = {"ensemble": copies, "writeQuorum": copies, "ackQuorum": (copies + 2) // 2}
    target = str(directory / "parquet")

    def write_log(name: str) -> None:
        writer = frame.write.format("quire").mode("append")
        writer.options(cluster=store, log=name, **replication).save()

    def write_parquet() -> None:
        frame.write.option("compression", "none").mode("overwrite").parquet(target)

    def write_through(name: str) -> None:
        options = {"mode": "through-leader", "gateway": gateway, "log": name, "job": "bench"}
        frame.write.format("quire").mode("append").options(**options).save()

    write_log("warm")
    times: dict[str, list[float]] = {"quire": [], "parquet": []}
    if gateway:
        write_through("warm-through")
        times["gateway"] = []
    for number in range(given.rounds):
        name = f"bench-{number}"
        times["quire"].append(seconds(lambda name=name: write_log(name)))  # type: ignore[misc]
        times["parquet"].append(seconds(write_parquet))
        names = [name]
        if gateway:
            names.append(f"through-{number}")
            times["gateway"].append(seconds(lambda: write_through(names[1])))  # noqa: B023
        print("  " + ", ".join(f"{each} {times[each][-1]:.2f} s" for each in times), flush=True)
        assert [count(each, cluster=store) for each in names] == [given.records] * len(names)
        assert spark.read.parquet(target).count() == given.records
        with quire.sync.connect(store) as client:
            for each in names:
                client.delete_log(each)
        shutil.rmtree(target)
    for name, took in times.items():
        median = statistics.median(took)
        held = 1 if name == "parquet" else copies
        print(f"{name:10} {median:7.2f} s {given.records / median:12,.0f} rows/s, copies: {held}")
    share = statistics.median(times["parquet"]) / statistics.median(times["quire"])
    print(f"quire writes at {share:.0%} of Parquet's rate")
    if gateway:
        through = statistics.median(times["quire"]) / statistics.median(times["gateway"])
        print(f"through a gateway it writes at {through:.0%} of its rate without one")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bookies", type=int, default=3)
    parser.add_argument(
        "--through-leader", action="store_true", help="write through a gateway, too"
    )
    given = parser.parse_args()
    if given.through_leader and given.bookies < 3:
        parser.error("a gateway's logs have three copies: --through-leader needs 3 bookies")
    os.environ.setdefault("PYSPARK_SUBMIT_ARGS", "--driver-memory 6g pyspark-shell")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path.cwd()), *sys.path[1:2]])
    with tempfile.TemporaryDirectory(prefix="quire-bench-") as scratch:
        directory = Path(scratch)
        with SyncLocalCluster(directory / "cluster", bookies=given.bookies) as cluster:
            process = GatewayProcess(cluster.store_uri, directory / "gateway.log")
            gateway = process.start().http if given.through_leader else ""
            spark = local_session("quire spark_write", f"local[{os.cpu_count()}]")
            try:
                measure(spark, cluster.store_uri, gateway, directory, given)
            finally:
                spark.stop()
                if gateway:
                    process.end()


if __name__ == "__main__":
    main()
