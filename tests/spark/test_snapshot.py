"""A log is written, rolled, trimmed and taken over while Spark is in the middle of reading it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

import quire.sync
from quire import Position
from quire.errors import DeposedError, QuireError
from quire.sync import SyncClient, SyncLog
from tests.spark.halting import SECONDS_MAX, HaltingDataSource, Meetings

SEALED: Final = 60
"""Records of each of the three segments that are sealed before Spark comes."""

TAIL: Final = 400
PADDING: Final = bytes(16 * 1024)
"""The open segment is longer than a reader fetches ahead, so that its middle is its middle."""

RECORDS_MAX: Final = 100_000


@dataclass
class Writer:
    """Appends numbered records without pause, and remembers the error that ended it."""

    leader: SyncLog
    acked: int = 0
    error: QuireError | None = None
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _over: bool = False

    def run(self) -> None:
        for _ in range(RECORDS_MAX):
            try:
                self.leader.append(b"%d" % self.leader.next_offset)
            except QuireError as error:
                self.error = error
            with self._changed:
                self.acked += self.error is None
                self._changed.notify_all()
                if self._over or self.error:
                    return

    def must_go_on(self) -> None:
        """Wait for two more acks, of which the second was begun after the call."""
        with self._changed:
            wanted = self.acked + 2
            self._changed.wait_for(lambda: self.error or self.acked >= wanted, SECONDS_MAX)
            assert self.error is None
            assert self.acked >= wanted

    def stop(self) -> None:
        with self._changed:
            self._over = True


@dataclass
class Life:
    """A log that is written all the time, and what can happen to it."""

    name: str
    client: SyncClient
    pool: ThreadPoolExecutor
    writers: list[Writer] = field(default_factory=list)

    def begin(self) -> None:
        leader = self.client.open_log(self.name)
        for _ in range(3):
            first = leader.next_offset
            for start in range(first, first + SEALED, 3):
                leader.append_many([b"%d" % each for each in range(start, start + 3)])
            leader.roll()
        first = leader.next_offset
        for number in range(first, first + TAIL):
            leader.submit(b"%d " % number + PADDING)
        leader.drain()
        self._write(leader)

    def _write(self, leader: SyncLog) -> None:
        self.writers.append(Writer(leader))
        self.pool.submit(self.writers[-1].run)
        self.writer.must_go_on()

    @property
    def writer(self) -> Writer:
        return self.writers[-1]

    @property
    def acked(self) -> int:
        """Records that were acknowledged, and so have the offsets below."""
        return 3 * SEALED + TAIL + sum(each.acked for each in self.writers)

    def roll(self) -> None:
        self.writer.leader.roll()
        self.writer.must_go_on()

    def trim(self, before: Position) -> None:
        self.client.trim_log(self.name, before)
        self.writer.must_go_on()

    def take_over(self) -> None:
        self.writer.must_go_on()
        self._write(self.client.open_log(self.name))

    def end(self) -> None:
        """Nobody but a new leader has ever disturbed a writer, and the log has everything."""
        self.writer.must_go_on()
        self.writer.stop()
        self.writer.leader.close()
        *deposed, last = self.writers
        assert all(isinstance(each.error, DeposedError) for each in deposed)
        assert last.error is None
        manifest = self.client._logs.describe(self.name)
        assert manifest.epoch == len(self.writers), "somebody else took over"
        assert len(manifest.segments) + manifest.first_position.segment - 1 == 4 + len(self.writers)
        records = list(self.client.read_log(self.name))
        check([(each.offset, each.payload) for each in records], records[0].offset)
        assert records[-1].offset >= self.acked - 1


def check(found: list[tuple[int, bytes]], first: int) -> None:
    """Every record is where it says, from `first` on, each once."""
    assert [offset for offset, _ in found] == list(range(first, first + len(found)))
    assert all(int(payload.partition(b" ")[0]) == offset for offset, payload in found)


@contextmanager
def read(
    spark: SparkSession, cluster: str, name: str
) -> Iterator[tuple[Life, Meetings, Callable[[], Future[list[Row]]]]]:
    """A log that is written, and the reading of it that is to stop where things happen."""
    spark.dataSource.register(HaltingDataSource)
    with (
        ThreadPoolExecutor() as pool,
        quire.sync.connect(cluster) as client,
        closing(Meetings()) as meetings,
    ):
        life = Life(name, client, pool)
        life.begin()
        options = {"cluster": cluster, "log": name, "port": str(meetings.port)}
        frame = spark.read.format("halting").options(**options).load()

        def start() -> Future[list[Row]]:
            return pool.submit(frame.select("offset", "payload").collect)

        try:
            yield life, meetings, start
            life.end()
        finally:
            life.writer.stop()
            meetings.close()


def test_a_read_is_the_log_as_it_was_when_it_was_planned(spark: SparkSession, cluster: str) -> None:
    seen: dict[str, Any] = {}
    with read(spark, cluster, "lively") as (life, meetings, start):
        reading = start()
        for where in meetings.until(reading):
            point, *offset = where.rsplit(" ", 1) if where.startswith("start") else (where,)
            seen[point] = offset
            if where == "planning":
                seen["before"] = life.acked - 1  # the last one's ack travels with the next record
            elif point == "start 1":
                seen["after"] = life.writer.leader.next_offset
                life.writer.must_go_on()
            elif where == "middle 2":
                life.roll()
            elif where == "end 1":
                life.trim(Position(2, 0, 0))
            elif where == "middle 4":
                life.take_over()
            meetings.go_on()
        rows = reading.result()
    assert {"middle 2", "end 1", "middle 4"} <= set(seen), "not everything has happened"
    end = int(seen["start 4"][0])
    assert seen["before"] <= end <= seen["after"] + 1
    assert len(rows) == end
    check(sorted((row.offset, bytes(row.payload)) for row in rows), 0)


def test_what_was_trimmed_before_it_was_read_is_an_error(spark: SparkSession, cluster: str) -> None:
    with read(spark, cluster, "shorn") as (life, meetings, start):
        reading = start()
        arrivals = meetings.until(reading)
        assert next(arrivals) == "planning"
        meetings.go_on()
        starts = {next(arrivals).rsplit(" ", 1)[0] for _ in range(2)}
        assert starts == {"start 1", "start 2"}
        life.roll()
        life.take_over()
        life.trim(Position(3, 0, 1))
        meetings.go_on()
        for _ in arrivals:
            meetings.go_on()
        trimmed = r"PositionTrimmedError: position [12]\.0\.0 of log 'shorn' was trimmed: .*3\.0\.1"
        with pytest.raises(PySparkException, match=trimmed):
            reading.result()
