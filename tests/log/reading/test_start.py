"""Where a reader starts: times and cursors. Where a log ends: cheaply, and to be relied upon.
What a reader leaves out: nothing, or what it says.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime

import pytest

from quire.errors import (
    CorruptEntryError,
    InvalidRequestError,
    NoSuchCursorError,
    PositionTrimmedError,
    QuireError,
    UnreadableError,
)
from quire.log.reading.gaps import Gap
from quire.log.records.position import AtCursor, AtTxid, Position
from quire.log.records.producers import ProducerSequence
from tests.support.interrupted import at_wait
from tests.support.log_cluster import NAME, LogCluster, append_all, numbered, run
from tests.support.memory_cluster import down
from tests.support.seeds import seeds

WAITS_MAX = 400


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


@pytest.mark.parametrize(
    ("seconds", "first"),
    [(0, 0), (1000, 0), (1000.5, 1), (1003, 3), (1003.001, 4), (1007, 7), (1011, 11), (1011.5, 12)],
)
def test_a_reader_starts_at_the_first_record_that_is_not_older(seconds: float, first: int) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open(batch_records=1)
            for number in range(12):
                await log.append(b"%d" % number)
                cluster.now += 1
                if number in (3, 7):
                    await log.roll()
            await asyncio.sleep(0.1)
            reader = await client.logs.read(NAME, at(seconds))
            async with reader:
                assert [each.payload async for each in reader] == numbered(first, 12 - first)
            await log.trim(Position(1, 2, 0))
            reader = await client.logs.read(NAME, at(0))
            async with reader:
                assert (await anext(reader)).payload == b"2"
            await log.close()
            with pytest.raises(InvalidRequestError, match="zone"):
                await client.logs.read(NAME, datetime(2026, 1, 1))

    run(main)


def test_a_reader_that_starts_at_the_end_is_given_nothing_older_either() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open(batch_records=2)
            await log.append(b"0", txid=7)
            for start, ids in ((at(cluster.now + 2), (7, 7)), (AtTxid(9), (8, 9))):
                reader = await client.logs.read(NAME, start, follow=True)
                reading = asyncio.ensure_future(anext(reader))
                await asyncio.sleep(0.1)  # it is at the end
                await log.append(b"too old", txid=ids[0])
                cluster.now += 1
                await log.append(b"still too old", txid=ids[0])
                await log.roll()
                cluster.now += 1
                positions = await log.append_many([b"wanted", b"too"], txid=ids[1])
                record = await reading
                assert (record.payload, record.position) == (b"wanted", positions[0].position)
                assert (await anext(reader)).payload == b"too"
                await reader.close()
            await log.close()

    run(main)


def test_a_reader_starts_where_a_cursor_is() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            async with await client.open() as log:
                positions = await append_all(log, numbered(0, 5))
            with pytest.raises(NoSuchCursorError):
                await client.logs.read(NAME, AtCursor("a"))
            await (await client.logs.cursors(NAME).open("a")).advance(positions[3])
            reader = await client.logs.read(NAME, AtCursor("a"))
            async with reader:
                assert [each.payload async for each in reader] == [b"3", b"4"]

    run(main)


def test_the_linearizable_tail_is_behind_every_acknowledged_record() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client, other = cluster.new_client(), cluster.new_client()
            log = await client.open(batch_records=1)
            assert await other.logs.tail(NAME) == (Position(1, 0, 0), 0)
            lagged = False
            for number in range(20):
                position, _ = await log.append(b"%d" % number)
                cheap = await other.logs.tail(NAME)
                strong = await other.logs.tail(NAME, linearizable=True)
                assert cheap.position <= strong.position
                assert strong == (
                    Position(position.segment, position.entry + 1, 0),
                    number + 1,
                )
                lagged = lagged or cheap != strong
                if number == 10:
                    await log.roll()
                    assert (await other.logs.tail(NAME, linearizable=True)).offset == 11
            assert lagged, "otherwise this shows nothing"
            await log.close()
            assert await other.logs.tail(NAME, linearizable=True) == (Position(3, 0, 0), 20)

    run(main)


def test_what_was_acknowledged_is_reached_before_it_is_announced() -> None:
    """A cursor may go behind it, and the log be trimmed to it."""

    async def main() -> None:
        async with LogCluster() as cluster:
            client, other = cluster.new_client(), cluster.new_client()
            log = await client.open(batch_records=1)
            await log.append(b"first")
            cursor = await other.logs.cursors(NAME).open("c")
            lagged = 0
            for number in range(1, 40):
                position, _ = await log.append(b"%d" % number)
                lagged += (await other.logs.tail(NAME)).offset <= number
                if number % 4 == 0:
                    behind = Position(position.segment, position.entry + 1, 0)
                    assert await cursor.advance(number + 1) == behind
                elif number % 4 == 1:
                    await other.logs.trim(NAME, number + 1)
                elif number % 4 == 2:
                    await other.logs.trim(NAME, position.after)
                else:
                    with pytest.raises(InvalidRequestError, match=f"gets {number + 1}"):
                        await cursor.advance(number + 2)
                    await log.roll()
            assert lagged > 10
            await log.close()

    run(main)


def test_the_linearizable_tail_of_a_dead_leader_is_undecided_until_the_next_one() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open(batch_records=1)
            await log.append(b"0")
            await asyncio.sleep(0.1)
            for bookie in list(cluster.bookies.values())[1:]:
                bookie.before = down("add")
            await log.submit(b"1")
            await asyncio.sleep(0.01)
            log.abandon()
            for bookie in cluster.bookies.values():
                bookie.before = down("nothing")
            assert (await client.logs.tail(NAME)).offset == 1
            silent = list(cluster.bookies.values())[2]
            silent.before = down("read_tail")
            with pytest.raises(UnreadableError, match="to recover it"):
                await client.logs.tail(NAME, linearizable=True)
            silent.before = down("nothing")
            async with await client.open():
                decided = len(await client.payloads())
                assert (await client.logs.tail(NAME, linearizable=True)).offset == decided

    run(main)


def lose(cluster: LogCluster, ledger: int, entries: list[int]) -> None:
    for bookie in cluster.bookies.values():
        frames = bookie.ledgers[ledger].frames
        for entry in entries:
            if entry in frames:
                frames[entry] = frames[entry][:-1] + bytes([frames[entry][-1] ^ 1])


@pytest.mark.parametrize("lost", [[0], [2, 3], [4], [0, 1, 2, 3, 4]])
def test_a_gap_is_reported_exactly_and_without_a_policy_an_error(lost: list[int]) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open(batch_records=1)
            await append_all(log, numbered(0, 5))
            await log.roll()
            await append_all(log, numbered(5, 2))
            await log.close()
            lose(cluster, (await client.manifest()).segments[0].ledger, lost)
            with pytest.raises(QuireError) as caught:
                await client.payloads()
            assert isinstance(caught.value, CorruptEntryError | UnreadableError)
            gaps: list[Gap] = []
            reader = await client.logs.read(NAME, on_gap=gaps.append)
            async with reader:
                found = [each.payload async for each in reader]
            assert found == [b"%d" % each for each in range(7) if each not in lost]
            assert [gap.first for gap in gaps] == [Position(1, lost[0], 0)]
            end = Position(1, lost[-1] + 1, 0) if lost[-1] < 4 else Position(2, 0, 0)
            assert gaps[0].end == end
            assert gaps[0].reason

    run(main)


def test_nothing_is_left_out_of_a_segment_that_is_written() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open(batch_records=1)
            await append_all(log, numbered(0, 5))
            await asyncio.sleep(0.1)
            lose(cluster, (await client.manifest()).segments[0].ledger, [2])
            gaps: list[Gap] = []
            reader = await client.logs.read(NAME, on_gap=gaps.append)
            with pytest.raises(QuireError):
                async with reader:
                    _ = [each async for each in reader]
            assert gaps == []
            await log.close()

    run(main)


def overtaken(wait: int, seed: int) -> bool:
    """Look for places in a log that is trimmed meanwhile; False when the looks were over before."""
    trimming: list[asyncio.Task[None]] = []

    async def main() -> None:
        async with LogCluster() as cluster:
            client, other = cluster.new_client(), cluster.new_client()
            log = await client.open(batch_records=1)
            for number in range(12):
                await log.append(b"%d" % number, producer_sequence=ProducerSequence("p", number))
                if number % 3 == 2:
                    await log.roll()
            cursor = await other.logs.cursors(NAME).open("c")

            def trim() -> None:
                trimming.append(asyncio.create_task(client.logs.trim(NAME, 9)))

            async def look() -> None:
                for place in (4, 7):
                    await cursor.advance(place)
                    await cursor.lag()
                    await other.logs.tail(NAME)
                    with suppress(PositionTrimmedError):
                        await log.append(
                            b"%d" % place, producer_sequence=ProducerSequence("p", place)
                        )
                    await other.logs.trim(NAME, place)

            await at_wait(wait, trim, look())
            await asyncio.gather(*trimming)
            await log.close()

    run(main, seed)
    return bool(trimming)


@pytest.mark.parametrize("seed", seeds(3, 0))
def test_who_looks_for_a_place_in_a_log_that_is_trimmed_meanwhile_looks_again(seed: int) -> None:
    """Found by the simulator: the ledger that had just gone was an error."""
    waits = 0
    while waits < WAITS_MAX and overtaken(waits + 1, seed):
        waits += 1
    assert waits > 30
