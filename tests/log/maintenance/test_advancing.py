"""A cursor moves while a program reads: by count, by time, at the end, never past the present."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import cast

import pytest

import quire.sync
from quire.errors import (
    InvalidRequestError,
    NoSuchCursorError,
    StoreUnavailableError,
    UnreadableError,
)
from quire.log.maintenance.advancing import advance_with
from quire.log.reading.reader import LogReader
from quire.log.records.position import AtCursor, Position, Record
from quire.testing import MemoryCluster
from tests.support.log_cluster import NAME, LogCluster, append_all, numbered, run


def record(number: int) -> Record:
    return Record(Position(1, number, 0), number, 1, 0, b"%d" % number)


class ScriptedReader:
    """Gives numbered records, each after so many seconds; an error stands for itself."""

    def __init__(self, *script: float | Exception) -> None:
        self._script = script
        self._steps = iter(enumerate(script))

    def __aiter__(self) -> ScriptedReader:
        return self

    async def __anext__(self) -> Record:
        for number, step in self._steps:
            if isinstance(step, Exception):
                raise step
            await asyncio.sleep(step)
            return record(number)
        raise StopAsyncIteration


class NotedCursor:
    """Notes when it was moved, and to which entry; fails as often as told."""

    name, log = "billing", "orders"

    def __init__(self, *errors: Exception) -> None:
        self.moves: list[tuple[float, int]] = []
        self._errors = list(errors)

    async def advance(self, position: Position | int) -> Position:
        if self._errors:
            raise self._errors.pop(0)
        assert isinstance(position, Position)
        assert position.slot == 1, "after a record"
        self.moves.append((asyncio.get_running_loop().time(), position.entry))
        return position


def play(
    cursor: NotedCursor, reader: ScriptedReader, every: int = 1000, seconds: float = 5.0
) -> tuple[list[int], list[tuple[float, int]]]:
    """Return the records that a program got, and the moves of its cursor since the start."""
    got: list[int] = []
    start = 0.0

    async def main() -> None:
        nonlocal start
        start = asyncio.get_running_loop().time()
        async for each in advance_with(cursor, cast("LogReader", reader), every, seconds):
            got.append(each.offset)  # noqa: PERF401

    try:
        run(main)
    finally:
        cursor.moves = [(round(time - start, 3), entry) for time, entry in cursor.moves]
    return got, cursor.moves


def test_it_moves_after_so_many_records_and_at_the_end() -> None:
    got, moves = play(NotedCursor(), ScriptedReader(*[0.0] * 7), every=3)
    assert got == list(range(7))
    assert [entry for _, entry in moves] == [2, 5, 6]


def test_it_moves_after_so_many_seconds_while_the_reader_waits() -> None:
    _, moves = play(NotedCursor(), ScriptedReader(1.0, 1.0, 60.0, 1.0), seconds=5.0)
    assert moves == [(6.0, 1), (63.0, 3)], "five seconds after the first that was not passed"


def test_it_moves_in_time_when_records_never_stop() -> None:
    _, moves = play(NotedCursor(), ScriptedReader(*[0.5] * 30), seconds=4.0)
    assert [time for time, _ in moves] == [4.5, 9.0, 13.5, 15.0]
    assert moves[-1][1] == 29


def test_a_place_that_cannot_be_saved_now_is_saved_later(caplog: pytest.LogCaptureFixture) -> None:
    away = StoreUnavailableError("memory:", "test")
    with caplog.at_level(logging.WARNING, "quire.log.maintenance.advancing"):
        got, moves = play(NotedCursor(away, away), ScriptedReader(1.0, 100.0), seconds=5.0)
    assert got == [0, 1]
    assert moves == [(16.0, 0), (101.0, 1)]
    assert caplog.text.count("does not move to 1.0.1 now") == 2


def test_a_cursor_that_is_gone_ends_the_reading() -> None:
    with pytest.raises(NoSuchCursorError):
        play(NotedCursor(NoSuchCursorError("orders", "billing")), ScriptedReader(1.0, 100.0))


def test_an_error_of_the_reader_moves_the_cursor_first() -> None:
    cursor = NotedCursor()
    with pytest.raises(UnreadableError):
        play(cursor, ScriptedReader(1.0, 1.0, UnreadableError(1, 2, "test")))
    assert cursor.moves == [(2.0, 1)]


@pytest.mark.parametrize(("every", "seconds"), [(0, 5.0), (1, 0.0), (1, -1.0), (1, float("nan"))])
def test_limits_are_positive(every: int, seconds: float) -> None:
    with pytest.raises(InvalidRequestError, match="positive"):
        play(NotedCursor(), ScriptedReader(), every, seconds)


def test_a_consumer_that_ends_early_reads_the_last_records_again() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open()
            await append_all(log, numbered(0, 10))
            await log.close()
            cursor = await client.logs.cursors(NAME).open("billing")
            seen: list[list[bytes]] = []
            for stop in (7, 100):
                reader = await client.logs.read(NAME, AtCursor("billing"))
                records: AsyncGenerator[Record, None] = cursor.advance_with(reader, every=3)
                seen.append([])
                async for each in records:
                    seen[-1].append(each.payload)
                    if len(seen[-1]) == stop:
                        break
                await records.aclose()
                await reader.close()
            assert seen == [numbered(0, 7), numbered(6, 4)]
            assert await cursor.lag() == 0

    run(main)


def test_the_blocking_twin_moves_the_cursor_too() -> None:
    with MemoryCluster() as cluster, quire.sync.connect(cluster.store_uri) as client:
        with client.open_log("orders") as log:
            log.append_many([b"%d" % each for each in range(10)])
        cursor = client.log_cursors("orders").open("billing")
        with client.read_log("orders", AtCursor("billing")) as reader:
            for each in cursor.advance_with(reader, every=4):
                if each.offset == 8:
                    assert cursor.position == Position(1, 0, 8)
        assert cursor.lag() == 0
        with client.read_log("orders", AtCursor("billing")) as reader:
            assert list(cursor.advance_with(reader)) == []
