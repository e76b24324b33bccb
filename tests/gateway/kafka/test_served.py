"""A commit of an offset that was just read needs no search; another one is searched for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer

from quire.gateway.kafka import served
from quire.gateway.kafka.served import ServedBatches
from quire.log.maintenance import cursors
from quire.log.reading.search import find_place
from quire.log.records.position import Position
from tests.gateway.kafka.test_clients import LOG, PARTITION, cluster, serving, started


def a_batch(first: int, count: int, entry: int, slot: int = 0) -> Any:
    """A batch with `count` records, from `slot` of its entry on."""

    class Batch(SimpleNamespace):
        def __len__(self) -> int:
            return count

    return Batch(next_offset=first + count, position=Position(1, entry, slot))


def test_positions_of_offsets_in_batches_and_at_their_ends() -> None:
    known = ServedBatches()
    known.note("a", a_batch(10, 5, 2))
    known.note("a", a_batch(15, 1, 3))
    known.note("a", a_batch(30, 4, 9, slot=6))
    found = {offset: known.position_of("a", offset) for offset in range(9, 36)}
    assert found == {
        **dict.fromkeys(found),
        **{10 + slot: Position(1, 2, slot) for slot in range(5)},
        15: Position(1, 3, 0),
        16: Position(1, 4, 0),
        **{30 + slot: Position(1, 9, 6 + slot) for slot in range(4)},
        34: Position(1, 10, 0),
    }
    assert known.position_of("b", 10) is None, "another log, perhaps of the same name"


def test_a_reader_that_comes_later_is_remembered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "BATCHES_MAX", 3)
    monkeypatch.setattr(served, "TOTAL_MAX", 4)
    known = ServedBatches()
    for first in (20, 10, 20, 10, 30):
        known.note("a", a_batch(first, 5, first))
    assert [known.position_of("a", each) for each in (10, 20, 30)] == [
        Position(1, each, 0) for each in (10, 20, 30)
    ]
    known.note("a", a_batch(40, 5, 40))
    assert known.position_of("a", 10) is None
    for log in ("b", "c"):
        known.note(log, a_batch(0, 1, 0))
    assert known.position_of("a", 20) is None


@pytest.mark.real_time
async def test_a_commit_of_what_was_read_searches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[object] = []

    async def find(manifest: Any, where: Any, open_segment: Any) -> Position:
        searched.append(where)
        return await find_place(manifest, where, open_segment)

    monkeypatch.setattr(cursors, "find_place", find)
    options = {"auto_offset_reset": "earliest", "group_id": "g", "enable_auto_commit": False}
    async with cluster() as client, serving(client) as address:
        async with await client.open_log(LOG) as log:
            for first in range(0, 30, 10):
                await log.append_many([b"%d" % (first + each) for each in range(10)])
        cursor = await client.log_cursors(LOG).open("g", 0)
        searched.clear()
        async with started(AIOKafkaConsumer(LOG, bootstrap_servers=address, **options)) as consumer:
            for _ in range(30):
                await consumer.getone()
            for offset in (13, 20, 30):
                await consumer.commit({PARTITION: offset})
                cursor = await client.log_cursors(LOG).find("g")
                assert await cursor.offset() == offset
            assert searched
            assert all(isinstance(each, Position) for each in searched), "no offset was looked for"
            await consumer.commit({PARTITION: 5})
            assert await (await client.log_cursors(LOG).find("g")).offset() == 5
        assert 5 in searched


@pytest.mark.real_time
async def test_a_new_log_of_the_name_has_places_of_its_own() -> None:
    """The consumer of the new log commits the same offset, which is elsewhere."""
    options = {"auto_offset_reset": "earliest", "group_id": "g", "enable_auto_commit": False}
    async with cluster() as client, serving(client) as address:
        for size in (1, 4):
            async with await client.open_log(LOG) as log:
                for _ in range(0, 8, size):
                    await log.append_many([b"a"] * size)
            consumer = AIOKafkaConsumer(LOG, bootstrap_servers=address, **options)
            async with started(consumer):
                for _ in range(8):
                    await consumer.getone()
                for offset in (3, 6):
                    await consumer.commit({PARTITION: offset})
            assert await (await client.log_cursors(LOG).find("g")).offset() == 6
            await client.delete_log(LOG)
