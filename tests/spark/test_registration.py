"""Spark finds format `quire` by itself: in SQL, in other sessions, and in threads."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import pyspark_quire
import pyspark_quire_bookkeeper
import quire.spark
from quire.errors import ConfigurationError, MissingExtraError
from quire.spark import LogDataSource
from quire.spark.bookkeeper.source import BookKeeperDataSource
from quire.spark.jobs import audit_logs
from quire.spark.jobs.workers import run_in_workers
from quire.spark.options import ReadOptions, WriteOptions
from tests.spark.segments import append_in_segments


def write(spark: SparkSession, cluster: str, log: str) -> None:
    rows = spark.range(5).selectExpr("cast(id as string) as payload")
    rows.write.format("quire").mode("append").options(cluster=cluster, log=log).save()


def count(spark: SparkSession, cluster: str, log: str) -> int:
    return spark.read.format("quire").options(cluster=cluster, log=log).load().count()


def test_a_view_is_read_and_inserted_into(spark: SparkSession, cluster: str) -> None:
    append_in_segments(cluster, "viewed", [[b"0"]], None)
    other = spark.newSession()
    other.sql(
        "create temporary view viewed (offset bigint, payload binary) using quire "
        f"options (cluster '{cluster}', log 'viewed')"
    )
    other.sql(
        "create temporary view into_viewed (payload binary) using quire "
        f"options (cluster '{cluster}', log 'viewed')"
    )
    other.sql("insert into into_viewed select cast(cast(id as string) as binary) from range(1, 4)")
    rows = other.sql("select offset, cast(payload as string) from viewed order by offset").collect()
    assert [tuple(row) for row in rows] == [(n, str(n)) for n in range(4)]


def test_a_thread_writes_once_its_session_is_active(spark: SparkSession, cluster: str) -> None:
    with ThreadPoolExecutor(2, initializer=quire.spark.register, initargs=(spark,)) as pool:
        for done in [pool.submit(write, spark, cluster, f"pooled-{n}") for n in range(3)]:
            done.result()
    assert [count(spark, cluster, f"pooled-{n}") for n in range(3)] == [5, 5, 5]


class ConnectFrame:
    """Numbers, one to a batch, and the function that waits for them."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = batches

    def mapInArrow(  # noqa: N802
        self, work: Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]], schema: str
    ) -> ConnectFrame:
        return ConnectFrame(work(self._batches))

    def collect(self) -> list[dict[str, Any]]:
        rows = [row for batch in self._batches for row in batch.to_pylist()]
        return rows[::-1]  # tasks end in any order


class ConnectSession:
    """As much of a session of Spark Connect as jobs use: it has no SparkContext."""

    def range(self, start: int, end: int, step: int, partitions: int) -> ConnectFrame:
        numbers = range(start, end, step)
        assert partitions == len(numbers), "each item is a task"
        return ConnectFrame(pa.RecordBatch.from_pydict({"id": [each]}) for each in numbers)


def test_jobs_need_no_context(cluster: str) -> None:
    session: Any = ConnectSession()
    assert run_in_workers(session, str.upper, ["a", "b", "c"]) == ["A", "B", "C"]
    assert run_in_workers(session, str.upper, []) == []
    append_in_segments(cluster, "contextless", [[b"0"]] * 6, 2)
    (found,) = audit_logs(session, ReadOptions(cluster, ("contextless",)))
    assert (found.records, found.all_problems) == (6, ())


def test_the_module_that_spark_looks_for_has_the_source() -> None:
    assert pyspark_quire.DefaultSource is LogDataSource
    assert pyspark_quire_bookkeeper.DefaultSource is BookKeeperDataSource


OF_QUIRE = [(pyspark_quire, "quire"), (pyspark_quire_bookkeeper, "bookkeeper")]


@pytest.mark.parametrize(("module", "source"), OF_QUIRE)
def test_a_missing_package_breaks_no_other_format(
    module: ModuleType, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark imports the module for the first Python data source, whichever that is."""
    with monkeypatch.context() as patch:
        for name in [each for each in sys.modules if each.startswith("quire.spark")]:
            patch.delitem(sys.modules, name)
        patch.delitem(sys.modules, "quire.columns", raising=False)
        patch.setitem(sys.modules, "pyarrow", None)
        without = importlib.reload(module).DefaultSource
    importlib.reload(module)
    assert without.name() == source
    with pytest.raises(MissingExtraError, match=rf"'{source}'.*pyarrow.*quire\[spark\]"):
        without({})


class TooOld(ModuleType):
    """A module of an older version of a package, whose import fails."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"{name} needs a newer package")


@pytest.mark.parametrize(("module", "source"), OF_QUIRE)
def test_a_package_that_cannot_be_loaded_breaks_no_other_format(
    module: ModuleType, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As gRPC and protobuf refuse code that a newer version of them made."""
    with monkeypatch.context() as patch:
        for name in [each for each in sys.modules if each.startswith("quire.spark")]:
            patch.delitem(sys.modules, name)
        patch.setitem(sys.modules, "quire.columns", TooOld("quire.columns"))
        without = importlib.reload(module).DefaultSource
    importlib.reload(module)
    assert without.name() == source
    with pytest.raises(ConfigurationError, match=rf"'{source}'.*Error.*newer package.*upgrade"):
        without({})


def test_a_schema_names_columns_that_exist() -> None:
    options = ReadOptions.parse({"cluster": "c", "log": "orders"})
    assert options.with_columns(["payload", "offset"]).columns == ("payload", "offset")
    with pytest.raises(ConfigurationError, match="'colour': choose from"):
        options.with_columns(["colour"])


def test_a_view_with_other_columns_takes_no_records() -> None:
    given = {"cluster": "c", "log": "orders", "columns": "payload"}
    assert WriteOptions.parse(given).log == "orders"
    with pytest.raises(ConfigurationError, match=r"columns='offset,payload'.*takes records"):
        WriteOptions.parse(given | {"columns": "offset,payload"})
