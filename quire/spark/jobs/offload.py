"""Offload: Spark's workers write a log's closed segments into Parquet files, each in one task.

The driver has the manifest name the files round by round (quire/log/maintenance/offload.py). A job
that was killed goes on at the round where it ended. A task that ran twice, or outlived its driver,
leaves files that no manifest names. They are deleted once no manifest can name them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession

import quire.sync
from quire.errors import QuireError
from quire.log.manifest.cold_files import ColdFile
from quire.log.manifest.manifest import Segment
from quire.spark.clients import worker_client
from quire.spark.jobs.copy import Place
from quire.spark.jobs.workers import cores_of, run_in_workers


@dataclass(frozen=True, slots=True)
class Offloaded:
    """The result of a job: segments, their records, and the bytes of the new files."""

    tier: str
    segments: int
    records: int
    bytes: int
    swept: tuple[str, ...]
    """URIs of files that earlier attempts left over."""


def offload_log(
    spark: SparkSession,
    log: Place,
    target: str,
    *,
    keep_ledgers: bool = False,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Offloaded:
    """Move every closed segment of a log into a Parquet file below `target`, as executors and all
    readers reach it.

    With `keep_ledgers` the bookies keep their copies until the next run without it. May be killed
    and repeated at any point. `on_progress` is told segments done, and how many there are. Raises
    `NoSuchLogError`, `ConfigurationError`, and the error of the first segment that could not be
    moved, unless another job moved it or it was trimmed; all other segments are moved then.
    """
    password = log.password.encode()
    with quire.sync.connect(log.cluster) as client:
        work = client._logs.offload(log.log)
        tier, segments = work.begin(target)
        task = partial(offload_segment, log.cluster, log.log, password, tier)
        step = cores_of(spark)
        named: dict[int, ColdFile] = {}
        failures: list[QuireError] = []
        for start in range(0, len(segments), step):
            chunk = segments[start : start + step]
            found = run_in_workers(spark, task, chunk)
            files = {number: file for number, file in found if isinstance(file, ColdFile)}
            work.commit(files)
            now = work.find([number for number, _ in found])
            if not keep_ledgers:
                work.release(files.values())
            mine = {each.number for each in now if each.cold in files.values()}
            named |= {number: files[number] for number in mine}
            left = {each.number for each in now if each.cold is None}
            kept = [each for number, each in found if number in left]
            failures += [each for each in kept if isinstance(each, QuireError)]
            on_progress(start + len(chunk), len(segments))
        if not keep_ledgers:
            work.release()
        swept = tuple(work.gc())
    if failures:
        raise failures[0]
    records = sum(each.records or 0 for each in segments if each.number in named)
    size = sum(each.size for each in named.values())
    return Offloaded(tier, len(named), records, size, swept)


def offload_segment(
    cluster: str, log: str, password: bytes, tier: str, segment: Segment
) -> tuple[int, ColdFile | QuireError]:
    """Write a segment's file, in a worker. Errors are returned, not raised."""
    try:
        work = worker_client(cluster)._logs.offload(log)
        return segment.number, work.write(segment, tier, password=password)
    except QuireError as error:
        return segment.number, error
