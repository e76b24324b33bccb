"""`quire spark offload`: moved by executors, killed in the middle, read by everybody."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

import quire.cli.spark
import quire.sync
from quire import BEGINNING
from quire.cli import exits
from quire.cli.root import main
from quire.errors import ConfigurationError, NoSuchLedgerError
from quire.log.manifest.manifest import LogManifest
from quire.log.records.position import Record
from quire.metastore import open_store
from quire.metastore.layout import log_path
from quire.spark.jobs import audit_logs, offload_log
from quire.spark.jobs.copy import Place
from quire.spark.options import ReadOptions
from tests.spark.kill_offloads import Cold, killed
from tests.spark.plain_session import PlainContext, PlainItems, PlainSession
from tests.spark.segments import append_in_segments
from tests.support.command import environment


def fill(cluster: str, log: str, first: int, count: int) -> None:
    starts = range(first, first + count, 3)
    batches = [[b"%d" % each for each in range(start, start + 3)] for start in starts]
    append_in_segments(cluster, log, batches, entries=20)


def read(cluster: str, log: str) -> list[Record]:
    with quire.sync.connect(cluster) as client:
        return list(client.read_log(log))


def in_spark(spark: SparkSession, cluster: str, log: str) -> list[tuple[int, int, int, int, bytes]]:
    frame = spark.read.format("quire").options(cluster=cluster, log=log, splitBytes=200).load()
    rows = frame.select("segment", "entry", "slot", "offset", "payload").orderBy("offset")
    return [(*row[:4], bytes(row.payload)) for row in rows.collect()]


def columns(records: list[Record]) -> list[tuple[int, int, int, int, bytes]]:
    return [(*each.position, each.offset, each.payload) for each in records]


def test_spark_and_the_log_read_hot_and_cold_alike(
    spark: SparkSession, cluster: str, tmp_path: Path
) -> None:
    fill(cluster, "shipped", 0, 150)
    told: list[tuple[int, int]] = []
    moved = offload_log(
        spark, Place(cluster, "shipped"), str(tmp_path), on_progress=lambda *done: told.append(done)
    )
    assert (moved.segments, moved.records, moved.swept) == (3, 150, ())
    assert told[-1] == (3, 3)
    fill(cluster, "shipped", 150, 90)
    records = read(cluster, "shipped")
    assert [each.payload for each in records] == [b"%d" % each for each in range(240)]
    assert in_spark(spark, cluster, "shipped") == columns(records)
    (audit,) = audit_logs(spark, ReadOptions(cluster, ("shipped",)))
    assert (audit.all_problems, audit.records) == ((), 240)
    with quire.sync.connect(cluster) as client:
        manifest = client._logs.describe("shipped")
        assert [each.is_hot for each in manifest.segments] == [False] * 3 + [True] * 2
        ledgers = set(client.list_ledgers())
        assert not ledgers & {each.ledger for each in manifest.segments if not each.is_hot}
        follower = client.read_log("shipped", BEGINNING, follow=True)
        assert [next(follower) for _ in records] == records
        follower.close()
    assert offload_log(spark, Place(cluster, "shipped"), str(tmp_path)).segments == 2
    assert in_spark(spark, cluster, "shipped") == columns(records)
    tier = Path(str(tmp_path / manifest.log_id))
    parquet = spark.read.parquet(str(tier)).orderBy("offset").select("payload").collect()
    assert [bytes(row.payload) for row in parquet] == [each.payload for each in records]


def test_spark_reads_each_record_of_a_tier_once_whatever_died(
    spark: SparkSession, cluster: str, tmp_path: Path
) -> None:
    fill(cluster, "counted", 0, 150)
    with quire.sync.connect(cluster) as client:
        work = client._logs.offload("counted")
        tier, segments = work.begin(str(tmp_path))
        left = work.write(segments[0], tier)  # a task of a job that died, or that ran twice
        work.commit({each.number: work.write(each, tier) for each in segments})
        work.release()
    assert spark.read.parquet(tier).count() == 150
    moved = offload_log(spark, Place(cluster, "counted"), str(tmp_path))
    assert moved.swept == (left.uri,)
    assert spark.read.parquet(tier).count() == 150


def test_a_snapshot_taken_before_is_read_to_its_end_afterwards(
    spark: SparkSession, cluster: str, tmp_path: Path
) -> None:
    fill(cluster, "planned", 0, 150)
    records = columns(read(cluster, "planned"))
    frame = spark.read.format("quire").options(cluster=cluster, log="planned").load()
    assert frame.count() == 150  # planned now, and kept
    offload_log(spark, Place(cluster, "planned"), str(tmp_path))
    rows = frame.select("segment", "entry", "slot", "offset", "payload").collect()
    assert sorted((*row[:4], bytes(row.payload)) for row in rows) == records


@pytest.mark.campaign
@pytest.mark.timeout(600)  # two sessions of its own, on a busy machine
def test_a_killed_driver_of_spark_costs_and_leaves_nothing(
    spark: SparkSession, cluster: str, tmp_path: Path
) -> None:
    cold = Cold(cluster, "murdered", tmp_path / "cold")
    records = cold.write(0, 5)
    assert killed(cold, "written", 1, tmp_path)
    left = cold.check(records)
    assert len(left) == 2, "the files of a round, which no manifest names"
    assert killed(cold, "doomed", 1, tmp_path)
    assert cold.check(records) == left
    with quire.sync.connect(cluster) as client:
        segments = client._logs.describe("murdered").segments
    assert [each.number for each in segments if each.cold] == [1, 2], "the round that was named"
    moved = offload_log(spark, Place(cluster, "murdered"), str(cold.target))
    assert {uri.rpartition("/")[2] for uri in moved.swept} == left
    assert moved.segments == sum(each.end is not None for each in segments) - 2
    cold.check_moved(records)


def killed_behind(more: int, cluster: str, log: str, target: Path) -> None:
    """Run the job as a process, and kill it when there are so many files more."""
    number = len(list(target.rglob("*.parquet"))) + more
    command = [sys.executable, "-m", "tests.spark.plain_session", cluster, log, str(target)]
    process = subprocess.Popen(command, env=environment())
    while len(list(target.rglob("*.parquet"))) < number:
        assert process.poll() is None, "it was to be killed in the middle"
        time.sleep(0.001)
    process.kill()
    assert process.wait() == -signal.SIGKILL


def test_a_driver_killed_in_the_middle_is_repeated(
    cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(cluster, "killed", 0, 720)
    records = read(cluster, "killed")
    target = tmp_path / "cold"
    for more in (1, 3, 2):
        killed_behind(more, cluster, "killed", target)
        assert read(cluster, "killed") == records
    with quire.sync.connect(cluster) as client:
        segments = client._logs.describe("killed").segments
    moved = [each for each in segments if each.cold]
    assert 0 < len(moved) < len(segments)

    @contextlib.contextmanager
    def plain(name: str, master: str) -> Iterator[PlainSession]:
        yield PlainSession()

    monkeypatch.setattr(quire.cli.spark, "_session", plain)
    done = CliRunner().invoke(
        main, ["--store", cluster, "--json", "spark", "offload", "killed", "--to", str(target)]
    )
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["segments"] == len(segments) - len(moved)
    assert read(cluster, "killed") == records
    with quire.sync.connect(cluster) as client:
        named = sorted(
            each.cold.name for each in client._logs.describe("killed").segments if each.cold
        )
        assert [each.name for each in sorted(target.rglob("*.parquet"))] == named
        client.trim_log("killed", records[-1].position)
        assert len(list(target.rglob("*.parquet"))) == 1
        client.delete_log("killed")
    assert list(target.rglob("*.parquet")) == []


def test_a_segment_that_cannot_be_moved_keeps_no_other_from_moving(
    cluster: str, tmp_path: Path
) -> None:
    fill(cluster, "partly", 0, 300)
    with quire.sync.connect(cluster) as client:
        first, *others = client._logs.describe("partly").segments
        client.delete_ledger(first.ledger)
    assert len(others) > 3, "more than one round"
    told: list[tuple[int, int]] = []
    with pytest.raises(NoSuchLedgerError, match=f"ledger {first.ledger} "):
        offload_log(
            cast("Any", PlainSession()),
            Place(cluster, "partly"),
            str(tmp_path),
            on_progress=lambda *done: told.append(done),
        )
    with quire.sync.connect(cluster) as client:
        segments = client._logs.describe("partly").segments
    assert [each.number for each in segments if each.cold] == [each.number for each in others]
    assert told[-1] == (len(segments), len(segments))


class OvertakenContext(PlainContext):
    """Something else happens to the log just before the workers of a job begin."""

    def __init__(self, overtake: Callable[[], object]) -> None:
        self._overtake: Callable[[], object] | None = overtake

    def parallelize(self, items: Sequence[Any], pieces: int) -> PlainItems:
        overtake, self._overtake = self._overtake, None
        if overtake is not None:
            overtake()
        return super().parallelize(items, pieces)


@pytest.mark.parametrize("trimmed", [False, True])
def test_a_job_that_is_overtaken_does_what_is_left(
    cluster: str, tmp_path: Path, trimmed: bool
) -> None:
    log = f"overtaken-{trimmed}"
    fill(cluster, log, 0, 150)
    records = read(cluster, log)
    first = next(each.offset for each in records if each.position.segment == 1 + trimmed)

    def trim() -> None:
        with quire.sync.connect(cluster) as client:
            client.trim_log(log, first)

    def move() -> None:
        offload_log(cast("Any", PlainSession()), Place(cluster, log), str(tmp_path))

    session: Any = PlainSession()
    session.sparkContext = OvertakenContext(trim if trimmed else move)
    moved = offload_log(session, Place(cluster, log), str(tmp_path))
    assert moved.segments == (2 if trimmed else 0)
    assert read(cluster, log) == [each for each in records if each.offset >= first]
    assert len(list(tmp_path.rglob("*.parquet"))) == (2 if trimmed else 3)


def test_a_log_whose_tier_is_gone_is_deleted_by_the_remedy(cluster: str) -> None:
    fill(cluster, "stranded", 0, 30)
    path = log_path("stranded")

    async def strand() -> None:
        store = await open_store(cluster)
        found = await store.get(path)
        manifest = replace(LogManifest.decode(path, found.value), tiers=("nosuch://gone/x",))
        await store.put(path, manifest.encode(), found.version)
        await store.close()

    asyncio.run(strand())
    delete = ["--store", cluster, "log", "delete", "stranded", "--yes"]
    refused = subprocess.run(
        [sys.executable, "-m", "quire", *delete], capture_output=True, text=True, check=False
    )
    assert refused.returncode == exits.exit_code(ConfigurationError("")), refused.stderr
    assert "--forget-tier nosuch://gone/x" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert len(read(cluster, "stranded")) == 30
    done = CliRunner().invoke(main, [*delete, "--forget-tier", "nosuch://gone/x"])
    assert done.exit_code == 0, done.output
    with quire.sync.connect(cluster) as client:
        assert "stranded" not in client.list_logs()
