"""A streaming query as PySpark 4.0 runs it: `latestOffset` is not told where the query is.

Spark's side is played here, so that a query may be killed at any step: it writes the end of a batch
down, plans the batch, and writes down that it is done. `make spark` runs the tests on a real one.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any

import pytest

import quire.sync
from quire.errors import LogReplacedError, NoSuchLogError, QuireError
from quire.spark.batch import read_partition
from quire.spark.options import ReadOptions
from quire.spark.progress import Place, reached, start_of, to_json
from quire.spark.stream import LogStreamReader


@dataclass
class Query:
    """A query with its checkpoint; the sink knows a batch by its number."""

    options: dict[str, str]
    ends: list[str] = field(default_factory=list)
    done: int = 0
    batches: dict[int, list[tuple[str, int]]] = field(default_factory=dict)
    begin: dict[str, Any] = field(default_factory=dict)

    def start(self) -> LogStreamReader:
        """A new process: it finishes the batch that the checkpoint names last."""
        reader = LogStreamReader(ReadOptions.parse(self.options, streaming=True))
        if not self.done:
            self.begin = json.loads(json.dumps(reader.initialOffset()))
        if len(self.ends) > self.done:
            self.run(reader)
        return reader

    def plan(self, reader: LogStreamReader) -> bool:
        """Write the end of the next batch down; whether there is one."""
        end = json.dumps(reader.latestOffset())
        if [end] == self.ends[-1:]:
            return False
        self.ends.append(end)
        return True

    def run(self, reader: LogStreamReader, *, dies: bool = False) -> None:
        """Run the batch that was written down last."""
        start = json.loads(self.ends[self.done - 1]) if self.done else self.begin
        rows = [
            (row["log"], row["offset"])
            for partition in reader.partitions(start, json.loads(self.ends[self.done]))
            for batch in read_partition(reader._options, partition)
            for row in batch.to_pylist()
        ]
        self.batches[self.done] = rows
        if not dies:
            self.done += 1

    def offsets(self, log: str) -> list[int]:
        read = [row for number in sorted(self.batches) for row in self.batches[number]]
        return [offset for name, offset in read if name == log]


def append(cluster: str, log: str, count: int) -> None:
    with quire.sync.connect(cluster) as client, client.open_log(log) as leader:
        leader.append_many([b"x"] * count)


def query(cluster: str, logs: str, **options: str) -> Query:
    return Query({"cluster": cluster, "log": logs, **options})


@pytest.mark.parametrize("seed", [1, 2])
def test_every_record_comes_once_however_often_the_query_dies(cluster: str, seed: int) -> None:
    rng, name = random.Random(seed), f"dies-{seed}"
    running = query(cluster, f"{name}-*", columns="log,offset", maxRecordsPerTrigger="40")
    append(cluster, f"{name}-a", 10)
    written = {f"{name}-a": 10}
    reader = running.start()
    for _ in range(25):
        log = f"{name}-{rng.choice('ab')}"
        if rng.random() < 0.4:
            count = rng.randrange(1, 60)
            append(cluster, log, count)
            written[log] = written.get(log, 0) + count
        if rng.random() < 0.3:
            reader = running.start()
        if running.plan(reader):
            dies = rng.random() < 0.4
            running.run(reader, dies=dies)
            reader = running.start() if dies else reader
    while running.plan(reader):
        running.run(reader)
    assert {log: running.offsets(log) for log in written} == {
        log: list(range(count)) for log, count in written.items()
    }


def test_a_restarted_query_skips_and_repeats_nothing_after_a_trim(cluster: str) -> None:
    append(cluster, "trimmed-4.0", 30)
    running = query(cluster, "trimmed-4.0")
    reader = running.start()
    running.plan(reader)
    running.run(reader)
    append(cluster, "trimmed-4.0", 10)
    with quire.sync.connect(cluster) as client:
        client.trim_log("trimmed-4.0", 20)
    reader = running.start()
    assert running.plan(reader)
    running.run(reader)
    assert running.offsets("trimmed-4.0") == list(range(40))


def test_records_that_were_trimmed_behind_a_stopped_query_are_an_error(cluster: str) -> None:
    append(cluster, "lost-4.0", 30)
    running = query(cluster, "lost-4.0")
    reader = running.start()
    running.plan(reader)
    running.run(reader)
    append(cluster, "lost-4.0", 10)
    with quire.sync.connect(cluster) as client:
        client.trim_log("lost-4.0", 35)
    reader = running.start()
    running.plan(reader)
    with pytest.raises(QuireError, match=r"offset 30 of log 'lost-4\.0' was trimmed"):
        running.run(reader)


@pytest.mark.parametrize(
    ("recreated", "error"), [(True, LogReplacedError), (False, NoSuchLogError)]
)
def test_a_restarted_query_notices_that_its_log_is_another_one(
    cluster: str, recreated: bool, error: type[QuireError]
) -> None:
    name = f"replaced-{recreated}"
    append(cluster, name, 30)
    running = query(cluster, f"{name}*")
    reader = running.start()
    running.plan(reader)
    running.run(reader)
    with quire.sync.connect(cluster) as client:
        client.delete_log(name)
    if recreated:
        append(cluster, name, 50)
    reader = running.start()
    running.plan(reader)
    with pytest.raises(error):
        running.run(reader)


def test_an_end_before_the_beginning_is_an_empty_batch_and_nothing_is_read_again() -> None:
    start = {"a": Place("id", 0, 100)}
    behind = {"a": Place("id", 40, 90).unsure()}
    assert start_of(start, "a", behind["a"]) == 100
    following = {"a": reached(start, behind)["a"].at(120)}
    assert start_of(behind, "a", following["a"]) == 100


def test_a_place_that_is_sure_looks_as_it_always_did() -> None:
    assert to_json({"a": Place("id", 0, 9).unsure().at(12)}) == {
        "a": {"id": "id", "first": 0, "offset": 12}
    }
