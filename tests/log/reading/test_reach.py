"""What a log has not reached cannot be trimmed to, and no cursor can be there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from quire.errors import InvalidRequestError, NoSuchLogError
from quire.log.leader.log import Log
from quire.log.records.position import BEGINNING, LATEST, AtCursor, Position
from quire.metastore.layout import LEDGERS, cursors_path
from tests.support.log_cluster import NAME, PATH, Client, Gate, LogCluster, numbered, run
from tests.support.memory_cluster import down, hung

Ask = Callable[[Client, Position], Awaitable[Any]]


async def trim(client: Client, position: Position) -> None:
    await client.logs.trim(NAME, position)


async def open_there(client: Client, position: Position) -> None:
    await client.logs.cursors(NAME).open("c", position)


async def advance(client: Client, position: Position) -> None:
    cursor = await client.logs.cursors(NAME).open("old")
    assert await cursor.advance(position) == position


asks = pytest.mark.parametrize("ask", [trim, open_there, advance])


async def append_three(log: Log) -> None:
    """An entry each."""
    for record in numbered(0, 3):
        await log.append(record)


@asks
@pytest.mark.parametrize("place", ["1.4.0", "1.3.1", "1.1000.0", "2.0.0", "2.5.0", "3.0.0"])
def test_what_comes_later_is_behind_nothing(ask: Ask, place: str) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open()
            await append_three(log)
            with pytest.raises(InvalidRequestError, match="has no position"):
                await ask(client, Position.parse(place))
            await log.append(b"later")
            await log.close()
            assert await client.payloads() == [*numbered(0, 3), b"later"]

    run(main)


@asks
@pytest.mark.parametrize("place", ["1.0.0", "1.2.1", "1.3.0"])
def test_what_was_acknowledged_may_be_behind_a_place(ask: Ask, place: str) -> None:
    """Whether or not that is announced already: nothing is awaited after the last append."""

    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open()
            await append_three(log)
            await ask(client, Position.parse(place))
            await log.close()

    run(main)


@asks
def test_a_ledger_that_is_closed_is_behind_the_next_segment_before_the_manifest_says_so(
    ask: Ask,
) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open()
            await append_three(log)
            log.abandon()
            (segment,) = (await client.manifest()).segments
            await (await client.catalog.open(segment.ledger)).close()
            await ask(client, Position(2, 0, 0))
            assert (await client.manifest()).open_segments

    run(main)


def test_an_open_segment_is_behind_the_next_when_that_is_written() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open()
            await append_three(log)
            gate = Gate("put", LEDGERS)  # the ledger of the segment before cannot be closed yet
            client.store.before = gate
            roll = asyncio.create_task(log.roll())
            await gate.reached.wait()
            other = cluster.new_client()
            with pytest.raises(InvalidRequestError):
                await trim(other, Position(2, 1, 0))
            await log.append(b"next")
            assert len((await other.manifest()).open_segments) == 2
            await trim(other, Position(2, 0, 0))
            gate.open.set()
            await roll
            await log.close()
            assert await client.payloads() == [b"next"]

    run(main)


@asks
@pytest.mark.parametrize("place", ["1.2.1", "1.3.0"])
def test_an_undecided_segment_behind_a_place_does_not_matter(ask: Ask, place: str) -> None:
    """A leader died with its first record of the next segment under way, and a bookie with it."""

    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open()
            await append_three(log)
            await asyncio.sleep(0.1)  # the end is announced a moment after the ack
            gate = Gate("put", LEDGERS)  # the ledger of the segment before is not closed
            client.store.before = gate
            roll = asyncio.create_task(log.roll())
            await gate.reached.wait()
            for name in ("b1", "b2"):
                cluster.bookies[name].before = hung("add")
            await log.submit(b"undecided")
            await asyncio.sleep(0.1)
            _, second = (await cluster.new_client().manifest()).open_segments
            assert cluster.holders(second.ledger, 0) == ["b0"]
            log.abandon()
            roll.cancel()
            cluster.bookies["b2"].before = down()
            await ask(cluster.new_client(), Position.parse(place))

    run(main)


def test_no_place_in_a_closed_ledger_waits_for_the_manifest_to_say_so() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open()
            await append_three(log)
            log.abandon()
            (segment,) = (await client.manifest()).segments
            await (await client.catalog.open(segment.ledger)).close()
            await trim(client, Position(1, 1000, 0))
            async with await client.open() as log:
                await log.append(b"later")
            assert await client.payloads() == [b"later"]

    run(main)


@asks
@pytest.mark.parametrize("place", [Position(1, 2, -1), Position(2, -1, 0), Position(-1, 0, 0)])
def test_what_is_no_position_is_refused_before_anybody_has_to_read_it(
    ask: Ask, place: Position
) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open()
            await append_three(log)
            await log.roll()
            await append_three(log)
            for call in (ask(client, place), log.trim(place)):
                with pytest.raises(InvalidRequestError, match="is not a position"):
                    await call
            assert (await client.manifest()).trimmed_to == BEGINNING
            states = await client.logs.cursors(NAME).list()
            assert all(each.position == Position(1, 0, 0) for each in states)
            await log.close()

    run(main)


@asks
def test_a_place_of_fractions_is_refused(ask: Ask) -> None:
    """As a table makes it that has no whole numbers, and an offset from there."""

    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open()
            await log.append_many(numbered(0, 3))
            await log.close()
            places: list[Any] = [Position(1, 0, 2.0), 2.0]  # type: ignore[arg-type]
            for place in places:
                with pytest.raises(InvalidRequestError, match=r"is not a position|not a place"):
                    await ask(client, place)
            assert await client.payloads() == numbered(0, 3)

    run(main)


def test_an_offset_that_was_trimmed_stands_for_the_first_record_left() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open()
            await log.append_many(numbered(0, 9))
            cursor = await client.logs.cursors(NAME).open("c", BEGINNING)
            await client.logs.trim(NAME, Position(1, 0, 7))
            assert await cursor.advance(3) == Position(1, 0, 7)
            await log.close()
            async with await client.logs.read(NAME, AtCursor("c")) as reader:
                assert [each.payload async for each in reader] == numbered(7, 2)

    run(main)


def test_retention_sees_a_cursor_that_is_made_while_it_looks() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client, leader = cluster.new_client(), cluster.new_client()
            keeping: Any = {"retention_seconds": 5.0, "retention_interval": 10.0}
            log = await leader.open(retention_cursors=True, **keeping)
            for _ in range(2):
                await append_three(log)
                await log.roll()
            cluster.now += 100
            gate = Gate("put", PATH)
            leader.store.before = gate
            await gate.reached.wait()
            cursor = await client.logs.cursors(NAME).open("billing")
            gate.open.set()
            await asyncio.sleep(30)
            assert (await client.manifest()).trimmed_to <= cursor.position
            async with await client.logs.read(NAME, AtCursor("billing")) as reader:
                assert len([each async for each in reader]) == 6
            await log.close()

    run(main)


def test_a_cursor_made_while_the_log_is_trimmed_is_behind_the_trim() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client, other = cluster.new_client(), cluster.new_client()
            log = await client.open()
            await append_three(log)
            gate = Gate("commit", "")
            other.store.before = gate
            opening = asyncio.create_task(other.logs.cursors(NAME).open("c"))
            await gate.reached.wait()
            await client.logs.trim(NAME, Position(1, 2, 0))
            gate.open.set()
            assert (await opening).position == Position(1, 2, 0)
            await log.close()

    run(main)


@pytest.mark.parametrize("start", [BEGINNING, LATEST])
def test_no_cursor_is_made_in_a_log_that_is_being_deleted(start: Position) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client, other = cluster.new_client(), cluster.new_client()
            log = await client.open()
            await append_three(log)
            await log.close()
            gate = Gate("commit", "")
            other.store.before = gate
            deleting = asyncio.create_task(other.logs.delete(NAME))
            await gate.reached.wait()
            assert (await client.manifest()).retired
            with pytest.raises(NoSuchLogError):
                await client.logs.cursors(NAME).open("late", start)
            gate.open.set()
            await deleting
            assert await cluster.store.children(cursors_path(NAME)) == []

    run(main)


def test_a_cursor_that_is_being_made_does_not_outlive_its_log() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client, other = cluster.new_client(), cluster.new_client()
            async with await client.open() as log:
                await append_three(log)
            gate = Gate("commit", "")
            other.store.before = gate
            opening = asyncio.create_task(other.logs.cursors(NAME).open("late"))
            await gate.reached.wait()
            await client.logs.delete(NAME)
            gate.open.set()
            with pytest.raises(NoSuchLogError):
                await opening
            assert await cluster.store.children(cursors_path(NAME)) == []

    run(main)
