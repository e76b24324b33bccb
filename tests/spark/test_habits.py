"""A query that begins, waits, restarts and loses records as Kafka's users expect it.

Spark's side is played here, as PySpark 4.2 and as 4.0 play it: 4.0 does not say where a query is.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import quire.sync
from quire.errors import ConfigurationError, LogReplacedError, NoSuchLogError, PositionTrimmedError
from quire.spark import stream
from quire.spark.batch import LogBatchReader, read_partition
from quire.spark.options import ReadOptions
from quire.spark.stream import LogStreamReader
from quire.sync import SyncClient

Rows = list[tuple[str, int]]


class Played:
    """A query and its checkpoint: the places between its batches."""

    def __init__(self, told: bool, **options: str) -> None:
        self.told = told
        self.reader: LogStreamReader
        self.start(**options)
        self.at: dict[str, Any] = _stored(self.reader.initialOffset())

    def start(self, **options: str) -> None:
        """Begin a process, with other options than the one before."""
        self.options = ReadOptions.parse({"columns": "log,offset", **options}, streaming=True)
        self.reader = LogStreamReader(self.options)

    def batch(self) -> Rows:
        """Run a batch."""
        limit = self.reader.getDefaultReadLimit()
        end = self.reader.latestOffset(self.at, limit) if self.told else self.reader.latestOffset()
        return self.run(_stored(end))

    def run(self, end: dict[str, Any]) -> Rows:
        rows = [
            (row["log"], row["offset"])
            for partition in self.reader.partitions(self.at, end)
            for found in read_partition(self.options, partition)
            for row in found.to_pylist()
        ]
        self.at = end
        return rows


def _stored(place: dict[str, Any]) -> dict[str, Any]:
    stored: dict[str, Any] = json.loads(json.dumps(place))
    return stored


def rows(log: str, *numbers: int) -> Rows:
    return [(log, number) for number in numbers]


@contextmanager
def logs(cluster: str) -> Iterator[SyncClient]:
    with quire.sync.connect(cluster) as client:
        yield client


def append(client: SyncClient, log: str, count: int) -> None:
    with client.open_log(log) as leader:
        leader.append_many([b"x"] * count)


versions = pytest.mark.parametrize("told", [True, False], ids=["4.2", "4.0"])


@versions
def test_latest_begins_at_the_end_and_new_logs_at_their_first_record(
    cluster: str, told: bool
) -> None:
    name = f"latest-{told}"
    with logs(cluster) as client:
        append(client, f"{name}-a", 5)
        query = Played(
            told, cluster=cluster, subscribePattern=f"{name}-[a-z]", startingOffsets="latest"
        )
        append(client, f"{name}-a", 2)
        append(client, f"{name}-b", 3)
        append(client, f"{name}-1", 3)
        assert query.batch() == rows(f"{name}-a", 5, 6) + rows(f"{name}-b", 0, 1, 2)
        assert query.batch() == []


@versions
def test_each_log_begins_at_its_own_offset(cluster: str, told: bool) -> None:
    a, b = f"each-{told}-a", f"each-{told}-b"
    with logs(cluster) as client:
        append(client, a, 5)
        append(client, b, 5)
        given = {"cluster": cluster, "log": f"each-{told}-*"}
        offsets = json.dumps({a: 3, b: "latest"})
        query = Played(told, **given, startingOffsets=offsets)
        append(client, b, 1)
        assert query.batch() == rows(a, 3, 4) + rows(b, 5)
        with pytest.raises(ConfigurationError, match="startingOffsets names log 'absent'"):
            Played(told, **given, startingOffsets='{"absent": 3}')
        client.trim_log(a, 4)
        with pytest.raises(PositionTrimmedError, match="option startingOffsets"):
            Played(told, **given, startingOffsets=offsets)


def test_a_batch_reads_from_offset_to_offset(cluster: str) -> None:
    with logs(cluster) as client:
        append(client, "batched-a", 9)
        append(client, "batched-b", 2)
    options = ReadOptions.parse(
        {
            "cluster": cluster, "log": "batched-*", "columns": "log,offset",
            "startingOffsets": '{"batched-a": 3}', "endingOffsets": '{"batched-a": 6}',
        }
    )  # fmt: skip
    reader = LogBatchReader(options)
    found = [
        (row["log"], row["offset"])
        for partition in reader.partitions()
        for each in reader.read(partition)
        for row in each.to_pylist()
    ]
    assert found == rows("batched-a", 3, 4, 5) + rows("batched-b", 0, 1)


@versions
def test_small_batches_wait(cluster: str, told: bool) -> None:
    name, now = f"waiting-{told}", [0.0]
    with logs(cluster) as client:
        append(client, name, 1)
        query = Played(
            told, cluster=cluster, log=name, minOffsetsPerTrigger="4", maxTriggerDelay="30s"
        )
        query.reader._clock = lambda: now[0]
        assert query.batch() == rows(name, 0)
        append(client, name, 3)
        before = query.at
        assert query.batch() == []
        assert query.at == before, "else Spark runs an empty batch"
        append(client, name, 1)
        assert query.batch() == rows(name, 1, 2, 3, 4)
        append(client, name, 1)
        assert query.batch() == []
        now[0] = 30.0
        assert query.batch() == rows(name, 5)


def test_what_is_there_is_read_however_little_it_is(cluster: str) -> None:
    with logs(cluster) as client:
        append(client, "little", 3)
    query = Played(
        True, cluster=cluster, log="little", minOffsetsPerTrigger="2", maxRecordsPerTrigger="2"
    )
    query.reader.prepareForTriggerAvailableNow()
    assert [query.batch(), query.batch()] == [rows("little", 0, 1), rows("little", 2)]


@versions
def test_a_restarted_query_follows_its_option(cluster: str, told: bool) -> None:
    a, b = f"follows-{told}-a", f"follows-{told}-b"
    with logs(cluster) as client:
        append(client, a, 2)
        append(client, b, 2)
        query = Played(told, cluster=cluster, log=a)
        assert query.batch() == rows(a, 0, 1)
        append(client, a, 2)
        query.start(cluster=cluster, log=b)
        assert query.batch() == rows(b, 0, 1)
        append(client, b, 1)
        assert query.batch() == rows(b, 2)
        query.start(cluster=cluster, log=f"{a},{b}")
        assert query.batch() == rows(a, 2, 3), "it goes on where it was"


@versions
def test_a_log_that_is_not_followed_may_be_deleted(cluster: str, told: bool) -> None:
    name = f"left-{told}"
    with logs(cluster) as client:
        append(client, f"{name}-a", 2)
        append(client, f"{name}-b", 2)
        query = Played(told, cluster=cluster, log=f"{name}-*")
        assert len(query.batch()) == 4
        query.start(cluster=cluster, log=f"{name}-b")
        client.delete_log(f"{name}-a")
        append(client, f"{name}-b", 1)
        assert query.batch() == rows(f"{name}-b", 2)
        assert query.batch() == []
        if told:  # 4.0 has forgotten it
            query.start(cluster=cluster, log=f"{name}-*")
            with pytest.raises(NoSuchLogError):
                query.batch()


@versions
@pytest.mark.parametrize("restarts", [True, False])
def test_a_recreated_log_is_read_from_its_first_record(
    cluster: str, told: bool, restarts: bool, caplog: pytest.LogCaptureFixture
) -> None:
    name = f"again-{told}-{restarts}"
    given = {"cluster": cluster, "log": name}
    with logs(cluster) as client:
        append(client, name, 5)
        query = Played(told, **given, failOnDataLoss="false")
        assert len(query.batch()) == 5
        client.delete_log(name)
        append(client, name, 7)  # more than there were
        if restarts:
            query.start(**given)
            with pytest.raises(LogReplacedError):
                query.batch()
            query.start(**given, failOnDataLoss="false")
        with caplog.at_level(logging.WARNING, stream.__name__):
            assert query.batch() == rows(name, *range(7))
        assert ("deleted and recreated" in caplog.text) == (told or not restarts)
        append(client, name, 1)
        assert query.batch() == rows(name, 7)


def test_a_planned_batch_of_a_log_that_is_recreated_is_lost_and_no_more(
    cluster: str, caplog: pytest.LogCaptureFixture
) -> None:
    with logs(cluster) as client:
        append(client, "planned", 5)
        query = Played(True, cluster=cluster, log="planned", failOnDataLoss="false", fromOffset="2")
        end = _stored(query.reader.latestOffset(query.at, query.reader.getDefaultReadLimit()))
        client.delete_log("planned")
        append(client, "planned", 3)
        assert query.run(end) == []
        assert "offsets 2 to 4 are lost" in caplog.text
        assert query.batch() == rows("planned", 0, 1, 2), "fromOffset means the old log's records"
