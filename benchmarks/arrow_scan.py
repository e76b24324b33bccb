"""A log as Arrow, in and out, beside Parquet: records a second, and the memory of the process.

    python -m benchmarks.arrow_scan --records 10000000

Starts three bookies in a temporary directory and appends the records by `append_table`, from a
reader that makes them as it is pulled. Each way of reading has a process of its own, in turn: Arrow
batches of `scan_log`, the same in a query of DuckDB, and both over the Parquet file that a scan
wrote. 10 million records of 100 bytes need 5 GB of disk.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import duckdb
import polars
import pyarrow as pa
from pyarrow import parquet

import quire.sync
from quire.sync import SyncClient, SyncLocalCluster

LOG: Final = "bench"
PARQUET: Final = "scan.parquet"
BATCH: Final = 50_000
FEW: Final = ["offset", "payload"]
QUERY: Final = "SELECT count(*), sum(octet_length(payload)) FROM rows"


def drained(batches: Any) -> int:
    """Count the rows of batches, and drop them."""
    return sum(len(batch) for batch in batches)


def queried(rows: Any) -> int:
    """Count the rows by DuckDB, which looks at every payload."""
    done = duckdb.sql(QUERY)
    assert done is not None, "a query has rows"
    ((count, _),) = done.fetchall()
    return int(count)


def streamed(path: str) -> Any:
    """Return a reader of a Parquet file, a row group at a time."""
    return parquet.ParquetFile(path).iter_batches(batch_size=BATCH, columns=FEW)


def appended(client: SyncClient, records: int, size: int) -> int:
    """Append so many records, which are made as they are pulled."""

    def batches() -> Iterator[pa.RecordBatch]:
        for first in range(0, records, BATCH):
            count = min(BATCH, records - first)
            kind = pa.binary(size)
            data = pa.Array.from_buffers(
                kind, count, [None, pa.py_buffer(os.urandom(count * size))]
            )
            yield pa.RecordBatch.from_arrays([data.cast(pa.binary())], names=["payload"])

    schema = pa.schema([("payload", pa.binary())])
    with client.open_log(LOG) as log:
        done = log.append_table(pa.RecordBatchReader.from_batches(schema, batches()))
    return int(done.records)


def to_parquet(client: SyncClient, records: int, size: int) -> int:
    """Write the log to a Parquet file, batch by batch."""
    reader, rows = client.scan_log(LOG, columns=FEW), 0
    with parquet.ParquetWriter(PARQUET, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
            rows += len(batch)
    return rows


Way = Callable[[SyncClient, int, int], int]

ONCE: Final[dict[str, Way]] = {"append_table": appended, "scan_log → Parquet": to_parquet}
WAYS: Final[dict[str, Way]] = {
    "scan_log, offset and payload": lambda client, *_: drained(client.scan_log(LOG, columns=FEW)),
    "scan_log, all default columns": lambda client, *_: drained(client.scan_log(LOG)),
    "scan_log, a query of DuckDB": lambda client, *_: queried(client.scan_log(LOG, columns=FEW)),
    "scan_log, a frame of Polars": lambda client, *_: len(
        polars.from_arrow(client.scan_log(LOG, columns=FEW))
    ),
    "Parquet, offset and payload": lambda *_: drained(streamed(PARQUET)),
    "Parquet, a query of DuckDB": lambda *_: queried(duckdb.read_parquet(PARQUET)),
    "Parquet, a frame of Polars": lambda *_: polars.read_parquet(PARQUET).height,
}
"""Polars keeps a frame in memory whole: that is its own choice."""


def megabytes(field: str) -> int:
    """Return a figure of this process's memory as Linux counts it."""
    found = re.search(rf"^{field}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found
    return int(found[1]) // 1024


def measure(name: str, store: str, records: int, size: int) -> None:
    """Do one of the ways, and print its figures as JSON."""
    with quire.sync.connect(store) as client:
        if name != "append_table":
            client.log_end(LOG)  # so that connections are there
        before, begun, work = megabytes("VmRSS"), time.perf_counter(), time.process_time()
        found = (ONCE | WAYS)[name](client, records, size)
        seconds, busy = time.perf_counter() - begun, time.process_time() - work
    assert found == records, f"{name}: {found} records of {records}"
    figures = {"rate": records / seconds, "work": busy, "before": before}
    print(json.dumps({**figures, "peak": megabytes("VmHWM")}))


def run(name: str, store: str, given: argparse.Namespace, directory: str) -> dict[str, float]:
    """Do one of the ways in a process of its own, and return its figures."""
    size = ["--records", str(given.records), "--size", str(given.size)]
    command = [sys.executable, "-m", "benchmarks.arrow_scan", "--way", name, "--store", store]
    paths = os.pathsep.join([str(Path.cwd()), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [*command, *size],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        check=True,
    )
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def show(name: str, found: list[dict[str, float]], records: int, size: int) -> None:
    """Print medians, and the highest memory."""
    rates = [each["rate"] for each in found]
    rate = statistics.median(rates)
    work = 1e6 * statistics.median(each["work"] for each in found) / records
    print(
        f"{name:30} {rate:12,.0f} records/s {rate * size / 1e6:7.0f} MB/s "
        f"({min(rates):,.0f} to {max(rates):,.0f}), {work:.2f} µs of the processor a record, "
        f"memory {found[0]['before']:.0f} MB before, {max(each['peak'] for each in found):.0f} MB "
        "at the highest",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--size", type=int, default=100, help="bytes of a record")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--way", choices=[*ONCE, *WAYS], help="do this one in this process")
    parser.add_argument("--store", help="the cluster of --way")
    given = parser.parse_args()
    if given.way:
        measure(given.way, given.store, given.records, given.size)
        return
    with (
        tempfile.TemporaryDirectory(prefix="quire-bench-") as scratch,
        SyncLocalCluster(Path(scratch) / "cluster", bookies=3) as cluster,
    ):
        for name in ONCE:
            show(name, [run(name, cluster.store_uri, given, scratch)], given.records, given.size)
        found: dict[str, list[dict[str, float]]] = {name: [] for name in WAYS}
        for _ in range(given.rounds):
            for name in WAYS:
                found[name].append(run(name, cluster.store_uri, given, scratch))
        for name in WAYS:
            show(name, found[name], given.records, given.size)


if __name__ == "__main__":
    main()
