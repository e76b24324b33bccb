"""How fast Spark reads a log, beside Parquet and beside what Spark's own interface can take.

    python -m benchmarks.spark_read --records 10000000

Starts three bookies in a temporary directory, appends the records in groups, and reads them three
ways, in turns, in one warm session: from the log; from Parquet; and from a source that hands over
the same constant Arrow batch again and again, which is the ceiling for any Python data source. All
columns are read and thrown away (sink `noop`). Medians are printed, and the log's share of the
ceiling. Everything is removed at the end; 10 million records of 100 bytes need 5 GB of disk.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

import quire
from quire.columns import ROWS_MAX, arrow_schema
from quire.spark.jobs import local_session
from quire.spark.options import LOG_COLUMNS
from quire.sync import SyncLocalCluster

PARTITIONS = 16
GROUP = 600
"""Records appended at a time; with 100 bytes each they fill an entry as leaders cut them."""
GROUPS_IN_FLIGHT = 64


class ConstantSource(DataSource):
    """Rows of a log's columns that cost nothing to make."""

    @classmethod
    def name(cls) -> str:
        return "constant"

    def schema(self) -> str:
        return ", ".join(f"{name} {kind}" for name, kind in LOG_COLUMNS.items())

    def reader(self, schema: StructType) -> DataSourceReader:
        return ConstantReader(int(self.options["records"]), int(self.options["size"]))


class ConstantReader(DataSourceReader):
    """Yields one Arrow batch as often as it takes."""

    def __init__(self, records: int, size: int) -> None:
        self._records = records
        self._size = size

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(index) for index in range(PARTITIONS)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        values: dict[str, Any] = {
            "log": "log", "segment": 1, "ledger": 1, "entry": 1, "slot": 1, "offset": 1, "epoch": 1,
            "timestamp": datetime.now(UTC), "txid": None, "payload": os.urandom(self._size),
        }  # fmt: skip
        schema = arrow_schema(list(LOG_COLUMNS))
        columns = [pa.array([values[each.name]] * ROWS_MAX, each.type) for each in schema]
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        left = self._records // PARTITIONS
        while left > 0:
            yield batch.slice(0, min(left, ROWS_MAX))
            left -= ROWS_MAX


def drain(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


async def fill(store: str, records: int, size: int) -> None:
    """Append records that do not compress to nothing."""
    pool = os.urandom(GROUP + size)
    async with quire.connect(store) as client, await client.open_log("bench") as log:

        async def append(groups: Iterator[int]) -> None:
            for first in groups:
                count = min(GROUP, records - first)
                at = first % size
                await log.append_many([pool[at + n : at + n + size] for n in range(count)])

        groups = iter(range(0, records, GROUP))  # shared: each takes the next that is left
        await asyncio.gather(*(append(groups) for _ in range(GROUPS_IN_FLIGHT)))


def measure(spark: SparkSession, store: str, directory: Path, given: argparse.Namespace) -> None:
    records = given.records // PARTITIONS * PARTITIONS
    writing = seconds(lambda: asyncio.run(fill(store, records, given.size)))
    print(f"written in {writing:.1f} s: {records / writing:,.0f} rows/s", flush=True)
    log = spark.read.format("quire").options(cluster=store, log="bench").load()
    parquet = str(directory / "parquet")
    log.write.parquet(parquet)
    spark.dataSource.register(ConstantSource)
    sources: dict[str, Callable[[], DataFrame]] = {
        "quire": lambda: spark.read.format("quire").options(cluster=store, log="bench").load(),
        "parquet": lambda: spark.read.parquet(parquet),
        "constant Arrow": lambda: (
            spark.read.format("constant").options(records=records, size=given.size).load()
        ),
    }
    times: dict[str, list[float]] = {name: [] for name in sources}
    for _ in range(given.rounds):
        for name, load in sources.items():
            times[name].append(seconds(lambda load=load: drain(load())))  # type: ignore[misc]
            print(f"  {name}: {times[name][-1]:.2f} s", flush=True)
    medians = {name: statistics.median(each) for name, each in times.items()}
    for name, median in medians.items():
        spread = ", ".join(f"{each:.2f}" for each in times[name])
        rate = records / median
        print(f"{name:15} {median:7.2f} s {rate:12,.0f} rows/s   ({spread})")
    print(f"quire is at {medians['constant Arrow'] / medians['quire']:.0%} of the ceiling")
    assert log.count() == records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path.cwd()), *sys.path[1:2]])
    with tempfile.TemporaryDirectory(prefix="quire-bench-") as scratch:
        directory = Path(scratch)
        with SyncLocalCluster(directory / "cluster", bookies=3) as cluster:
            spark = local_session("quire spark_read", f"local[{os.cpu_count()}]")
            try:
                measure(spark, cluster.store_uri, directory, given)
            finally:
                spark.stop()


if __name__ == "__main__":
    main()
