"""The blocking reader of a log loses nothing to an interruption."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine, Iterator
from typing import Any, cast

import pytest

from quire.errors import HandleClosedError
from quire.log.reading.reader import LogReader
from quire.log.reading.segment_reader import RecordBatch
from quire.log.records.position import Position, Record
from quire.sync import SyncLogReader
from quire.sync.portal import Portal, T


class Batch:
    """As much of a `RecordBatch` as the reader looks at."""

    def __init__(self, entry: int) -> None:
        self.position = Position(0, entry, 0)

    def records(self) -> list[Record]:
        return [Record(self.position, self.position.entry, 1, 0, b"")]


class Source:
    """A reader of three batches; its position is behind what it gave out."""

    def __init__(self) -> None:
        self.position = Position(0, 0, 0)
        self.end = 3
        self.is_closed = False

    async def close(self) -> None:
        self.is_closed = True

    async def read_batches(self) -> AsyncGenerator[RecordBatch, None]:
        if self.is_closed:
            raise HandleClosedError("reader of a log")
        while self.position.entry < self.end:
            batch = Batch(self.position.entry)
            self.position = Position(0, self.position.entry + 1, 0)
            yield cast(RecordBatch, batch)


class Interrupted:
    """A portal with Ctrl-C in the second call, in the instant in which its work is done."""

    def __init__(self) -> None:
        self.calls = 0

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        self.calls += 1
        result = Portal.shared().call(work)
        if self.calls == 2:
            raise KeyboardInterrupt
        return result


@pytest.fixture
def reader() -> SyncLogReader:
    return SyncLogReader(cast(Portal, Interrupted()), cast(LogReader, Source()))


@pytest.fixture
def source() -> Source:
    return Source()


def plain(source: Source) -> SyncLogReader:
    return SyncLogReader(Portal.shared(), cast(LogReader, source))


def test_a_reader_that_is_closed_is_not_at_the_end_of_the_log(source: Source) -> None:
    reader = plain(source)
    assert next(reader).position.entry == 0
    reader.close()
    with pytest.raises(HandleClosedError):
        next(reader)


def test_a_reader_at_the_end_goes_on_when_there_is_more(source: Source) -> None:
    reader = plain(source)
    assert entries(reader) == [0, 1, 2]
    source.end = 5
    assert entries(reader) == [3, 4]


def entries(items: Iterator[Record] | Iterator[RecordBatch]) -> list[int]:
    return [item.position.entry for item in items]


def test_records_that_arrived_with_ctrl_c_are_not_skipped(reader: SyncLogReader) -> None:
    assert next(reader).position.entry == 0
    with pytest.raises(KeyboardInterrupt):
        next(reader)
    assert reader.position == Position(0, 1, 0)
    assert entries(reader) == [1, 2]


def test_a_batch_that_arrived_with_ctrl_c_is_not_skipped(reader: SyncLogReader) -> None:
    batches = reader.read_batches()
    assert next(batches).position.entry == 0
    assert reader.position == Position(0, 1, 0)
    with pytest.raises(KeyboardInterrupt):
        next(batches)
    assert entries(reader.read_batches()) == [1, 2]
    assert reader.position == Position(0, 3, 0)
