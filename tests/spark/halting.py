"""A data source that is `quire` in everything, and stops where a test wants something to happen.

A task that comes to a point says so over a socket, and waits for the answer. So the test knows that
Spark is in the middle of a read, and Spark goes on when the test has done its part: no time is
involved.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Any, Final
from unittest.mock import patch

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

import quire.columns
from quire.spark.batch import LogBatchReader, SpanPartition
from quire.spark.options import ReadOptions, read_schema

SECONDS_MAX: Final = 120.0
"""Nobody waits for longer; then something is wrong."""

OVER: Final = "over"

ROWS: Final = 20
"""Of an Arrow batch, so that a task of a few hundred records stops in its middle."""


class Meetings:
    """The test's end: tasks arrive one by one, and go on when they are told."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0), backlog=16)
        self._server.settimeout(SECONDS_MAX)
        self._waiting: list[socket.socket] = []

    @property
    def port(self) -> int:
        return int(self._server.getsockname()[1])

    def next(self) -> str:
        """Wait for the next arrival and return where it is; it waits until `go_on`."""
        waiting, _ = self._server.accept()
        waiting.settimeout(SECONDS_MAX)
        self._waiting.append(waiting)
        return waiting.recv(100).decode()

    def until(self, reading: Future[Any]) -> Iterator[str]:
        """Yield every arrival until Spark has come to its end."""
        reading.add_done_callback(lambda _: meet(self.port, OVER, wait=False))
        while (where := self.next()) != OVER:
            yield where

    def go_on(self) -> None:
        """Let everybody go on who has arrived."""
        while self._waiting:
            self._waiting.pop().close()

    def close(self) -> None:
        """Let everybody go on, for good."""
        self.go_on()
        self._server.close()


def meet(port: int, where: str, *, wait: bool = True) -> None:
    """Say where a task is, and wait until it may go on; at once when nobody is interested."""
    try:
        meeting = socket.create_connection(("127.0.0.1", port), SECONDS_MAX)
    except ConnectionRefusedError:
        return
    with meeting:
        meeting.sendall(where.encode())
        if wait:
            meeting.recv(1)


class HaltingReader(LogBatchReader):
    """Stops before planning, before each task, in the middle of each, and behind it.

    A task names its segment; at its start also the offset that the plan lets it read to.
    """

    def __init__(self, options: ReadOptions, port: int) -> None:
        super().__init__(options)
        self._port = port

    def partitions(self) -> Sequence[InputPartition]:
        meet(self._port, "planning")
        packed = [each for each in super().partitions() if isinstance(each, SpanPartition)]
        return [SpanPartition((span,)) for each in packed for span in each.spans]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, SpanPartition)
        (span,) = partition.spans
        segment = span.segment
        meet(self._port, f"start {segment} {span.offsets.stop}")
        with patch.object(quire.columns, "ROWS_MAX", ROWS):
            for number, batch in enumerate(super().read(partition)):
                yield batch
                if number == 0:
                    meet(self._port, f"middle {segment}")
        meet(self._port, f"end {segment}")


class HaltingDataSource(DataSource):
    """Format `halting`, with the option `port`."""

    @classmethod
    def name(cls) -> str:
        return "halting"

    def schema(self) -> str:
        return read_schema(self._given())

    def reader(self, schema: StructType) -> DataSourceReader:
        return HaltingReader(ReadOptions.parse(self._given()), int(self.options["port"]))

    def _given(self) -> dict[str, str]:
        return {name: value for name, value in self.options.items() if name != "port"}
