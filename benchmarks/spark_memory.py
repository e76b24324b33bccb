"""How much memory a worker of Spark takes while it reads a large log.

    python -m benchmarks.spark_memory --gigabytes 2

Starts one bookie in a temporary directory, appends records of 1 KiB, and reads all of them as a
worker does, in a process of its own that needs no Java: it plans, and makes the Arrow batches of
one task after the other. The process's memory is printed before it reads and at its highest. Needs
PySpark, and twice the log's size on the disk.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import quire
from quire.ledger.quorum import Replication
from quire.spark.batch import LogBatchReader
from quire.spark.options import ReadOptions
from quire.sync import SyncLocalCluster

RECORD_BYTES: Final = 1024
GROUP: Final = 256
"""Records that are appended at a time; so many of 1 KiB are an entry."""
GROUPS_IN_FLIGHT: Final = 32


async def fill(store: str, records: int) -> None:
    """Append records that do not compress."""
    one = quire.LogOptions(replication=Replication(1, 1, 1))
    async with quire.connect(store) as client, await client.open_log("bench", one) as log:
        groups = iter(range(0, records, GROUP))  # shared: each takes the next that is left

        async def append() -> None:
            for first in groups:
                count = min(GROUP, records - first)
                data = os.urandom(count * RECORD_BYTES)
                await log.append_many(
                    [data[at : at + RECORD_BYTES] for at in range(0, len(data), RECORD_BYTES)]
                )

        await asyncio.gather(*(append() for _ in range(GROUPS_IN_FLIGHT)))


def megabytes(field: str) -> int:
    """Return a figure of this process's memory as Linux counts it."""
    found = re.search(rf"^{field}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found
    return int(found[1]) // 1024


def read_all(store: str) -> None:
    """Read every partition, as one worker that is used again."""
    reader = LogBatchReader(ReadOptions.parse({"cluster": store, "log": "bench"}))
    partitions = reader.partitions()
    before = megabytes("VmRSS")
    rows = sum(batch.num_rows for partition in partitions for batch in reader.read(partition))
    print(
        f"{rows:,} rows in {len(partitions)} tasks: {before} MB before the first, "
        f"{megabytes('VmHWM')} MB at the highest"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--store", help="read the log of this cluster, and nothing else")
    given = parser.parse_args()
    if given.store:
        read_all(given.store)
        return
    with (
        tempfile.TemporaryDirectory(prefix="quire-bench-") as scratch,
        SyncLocalCluster(Path(scratch) / "cluster", bookies=1) as cluster,
    ):
        asyncio.run(fill(cluster.store_uri, int(given.gigabytes * 1e9 / RECORD_BYTES)))
        subprocess.run(
            [sys.executable, "-m", "benchmarks.spark_memory", "--store", cluster.store_uri],
            check=True,
        )


if __name__ == "__main__":
    main()
