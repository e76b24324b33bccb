"""Every append answers with the position and the offset at which readers find its record."""

from __future__ import annotations

import asyncio

from quire.log.leader.log import Log
from quire.log.records.position import Appended, Position
from quire.log.records.producers import ProducerSequence
from tests.support.log_cluster import LogCluster, numbered, run
from tests.support.memory_cluster import down


async def appended(log: Log, first: int) -> list[Appended]:
    """Append seven records, each in another way, and return what the log answered, in order."""
    futures = [await log.submit(b"%d" % (first + each)) for each in range(3)]
    group = asyncio.create_task(log.append_many(numbered(first + 3, 2), txid=first))
    told = [await future for future in futures]
    told += await group
    told.append(await log.append(b"%d" % (first + 5), expected_offset=first + 5))
    numbered_once = ProducerSequence("p", first)
    told.append(await log.append(b"%d" % (first + 6), producer_sequence=numbered_once))
    again = await log.append(b"twice", producer_sequence=numbered_once)
    assert again == told[-1], "a duplicate is where its original is"
    return told


def test_answers_are_what_readers_find_over_batches_segments_and_leaders() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            told: list[Appended] = []
            for _ in range(3):
                log = await cluster.new_client().open(batch_records=2)
                told += await appended(log, len(told))
                await log.roll()
                told += await appended(log, len(told))
                log.abandon()
            await (await cluster.new_client().open()).close()
            records = await cluster.new_client().read()
            assert [(each.position, each.offset) for each in records] == told
            assert [each.payload for each in records] == numbered(0, 42)

    run(main)


def test_a_duplicate_of_an_earlier_leader_is_answered_with_its_offset() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open()
            await log.append(b"0")
            group = ProducerSequence("p", 1)
            first = await log.append_many([b"1", b"2"], producer_sequence=group)
            assert first == [(Position(1, 1, 0), 1), (Position(1, 1, 1), 2)]
            log = await cluster.new_client().open()
            assert await log.append_many([b"1", b"2"], producer_sequence=group) == first
            assert await log.append(b"3") == (Position(2, 0, 0), 3)
            await log.close()

    run(main)


def test_records_that_move_to_the_next_segment_keep_the_offset_that_is_told() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open(batch_records=2)
            await log.append(b"0")
            for bookie in cluster.bookies.values():
                bookie.before = down("add")
            futures = [await log.submit(record) for record in numbered(1, 5)]
            await asyncio.sleep(4)  # append_timeout is 3 s
            for bookie in cluster.bookies.values():
                bookie.before = down("nothing")
            told = [await future for future in futures]
            assert [each.offset for each in told] == [1, 2, 3, 4, 5]
            assert {each.position.segment for each in told} == {2}
            await log.close()
            records = (await cluster.new_client().read())[1:]
            assert [(each.position, each.offset) for each in records] == told

    run(main)
