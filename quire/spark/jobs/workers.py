"""Calls a function for each of some items, in Spark's workers.

A session of Spark Connect has no SparkContext, and neither has one of a shared Databricks cluster.
There the items travel by `mapInArrow`, which needs pandas; Spark Connect itself does, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.serializers import CPickleSerializer
from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")

CORES_GUESS: Final = 16
"""Cores of a cluster that does not say how many it has."""

PICKLED: Final[Any] = CPickleSerializer()
"""As Spark itself carries results from our workers to our driver."""

_RESULT: Final = pa.schema([("id", pa.int64()), ("result", pa.binary())])


def cores_of(spark: SparkSession) -> int:
    """Return how many tasks run at the same time; a guess behind Spark Connect."""
    context = _context_of(spark)
    return CORES_GUESS if context is None else int(context.defaultParallelism)


def run_in_workers(spark: SparkSession, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Return the results of the work, in the order of the items. Each item is a task.

    Spark may repeat the work for an item. Items and results are pickled.
    """

    count = len(items)
    context = _context_of(spark)
    if not count:
        return []
    if context is not None:
        return list(context.parallelize(items, count).map(work).collect())

    def run(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                result = PICKLED.dumps(work(items[index]))
                yield pa.RecordBatch.from_pydict({"id": [index], "result": [result]}, _RESULT)

    rows = spark.range(0, count, 1, count).mapInArrow(run, "id long, result binary").collect()
    found = {row["id"]: row["result"] for row in rows}
    return [PICKLED.loads(found[index]) for index in range(count)]


def _context_of(spark: SparkSession) -> Any:
    try:
        return spark.sparkContext
    except (AttributeError, PySparkException):
        return None
