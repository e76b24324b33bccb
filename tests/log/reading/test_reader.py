"""Reading: everything once, in order, from wherever one starts, until the handle is closed."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pyarrow as pa
import pytest

from quire.errors import HandleClosedError
from quire.log.reading.reader import LogReader
from quire.log.records.position import BEGINNING, LATEST, Position
from quire.metastore.layout import LEDGERS, ledger_path
from tests.support.log_cluster import (
    NAME,
    LogCluster,
    append_all,
    numbered,
    refuse,
    run,
    three_segments,
)


def test_every_position_is_a_start_and_so_is_every_offset() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            positions = await three_segments(cluster)
            client = cluster.new_client()
            for offset, position in enumerate(positions):
                expected = numbered(offset, 12 - offset)
                assert await client.payloads(position) == expected
                assert await client.payloads(offset) == expected
                assert await client.payloads(position.after) == expected[1:]
            assert await client.payloads(BEGINNING) == numbered(0, 12)
            assert await client.payloads(LATEST) == []
            assert await client.payloads(12) == []
            assert await client.payloads(Position(3, 0, 0)) == []

    run(main)


def test_the_position_of_a_reader_is_where_another_goes_on() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            await three_segments(cluster)
            client = cluster.new_client()
            position, seen = BEGINNING, []
            for _ in range(12):
                async with await client.logs.read(NAME, position) as reader:
                    record = await anext(reader)
                    seen.append(record.payload)
                    position = Position.parse(str(reader.position))
                    assert position > record.position
            assert seen == numbered(0, 12)
            assert await client.payloads(position) == []

    run(main)


def test_batches_are_columns_and_can_be_mixed_with_records() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            positions = await three_segments(cluster)
            async with await cluster.new_client().logs.read(NAME, positions[1]) as reader:
                assert (await anext(reader)).payload == b"1"
                assert (await anext(reader)).payload == b"2"
                batches = [batch async for batch in reader.read_batches()]
            assert [each.payloads() for each in batches[:2]] == [[b"3"], [b"4", b"5"]]
            assert [each.position for each in batches[:2]] == [positions[3], positions[4]]
            assert [each.first_offset for each in batches] == [3, 4, 6, 8, 10]
            columns = pa.concat_arrays(
                [
                    pa.BinaryArray.from_buffers(
                        pa.binary(), len(each), [None, *map(pa.py_buffer, each.arrow_buffers())]
                    )
                    for each in batches
                ]
            )
            assert columns.to_pylist() == numbered(3, 9)

    run(main)


def test_cancelling_a_read_skips_nothing() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open()
            seen: list[bytes] = []
            async with await cluster.new_client().logs.read(NAME, follow=True) as reader:
                for number in range(30):
                    await append_all(log, numbered(2 * number, 2))
                    try:
                        async with asyncio.timeout(0.001 * (number % 7)):
                            while True:
                                seen.append((await anext(reader)).payload)
                    except TimeoutError:
                        pass
                await log.seal()
                seen += [record.payload async for record in reader]
            assert seen == numbered(0, 60)

    run(main)


def test_a_closed_reader_says_so() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            await three_segments(cluster)
            reader: LogReader = await cluster.new_client().logs.read(NAME)
            await anext(reader)
            await anext(reader)
            await reader.close()
            with pytest.raises(HandleClosedError):
                await anext(reader)

    run(main)


@pytest.mark.parametrize("is_rolled", [False, True])
def test_closing_ends_what_another_task_reads(is_rolled: bool) -> None:
    """Whether it waits for the next entry, or for the segment after the last one."""

    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            async with await client.open() as log:
                await log.append(b"a")
                reader = await client.logs.read(NAME, follow=True)
                assert (await anext(reader)).payload == b"a"
                if is_rolled:
                    await log.close()
                waiting = asyncio.create_task(anext(reader))
                await asyncio.sleep(1)
                await reader.close()
                assert waiting.done()
                with pytest.raises(HandleClosedError, match="reader of log"):
                    await waiting

    run(main)


def test_a_reader_that_does_not_follow_crosses_a_roll_under_way() -> None:
    """What was confirmed behind a roll is read although the segment before is not sealed yet."""

    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open()
            await append_all(log, numbered(0, 3))
            client.store.before = _slow_close
            roll = asyncio.create_task(log.roll())
            while (await log.append(b"3")).position.segment == 1:
                pass
            await asyncio.sleep(0.1)
            assert not roll.done()
            payloads = await cluster.new_client().payloads()
            assert payloads[:3] == numbered(0, 3)
            assert len(payloads) == log._chain.current.confirmed.records + (
                (await client.manifest()).segments[0].records or 0
            )
            await log.close()

    run(main)


async def _slow_close(method: str, path: str) -> None:
    if method == "put" and path.startswith("/quire/ledgers/"):
        await asyncio.sleep(1.0)


def test_a_read_goes_on_when_a_take_over_drops_the_segment_behind_the_one_it_read() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            leader, reader = cluster.new_client(), cluster.new_client()
            log = await leader.open()
            await log.append(b"0")
            leader.store.before = refuse("put", path=LEDGERS)  # the old ledger stays open
            with suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await log.roll()
            log.abandon()
            first, empty = (await reader.manifest()).segments
            assert first.end is None

            async def take_over(method: str, path: str) -> None:
                if (method, path) == ("get", ledger_path(empty.ledger)):
                    reader.store.before = cluster.new_client().store.before
                    other = await cluster.new_client().open()
                    await other.append(b"1")
                    await other.close()

            reader.store.before = take_over
            assert await reader.payloads() == [b"0", b"1"]
            assert empty.ledger not in await cluster.ledgers()

    run(main)
