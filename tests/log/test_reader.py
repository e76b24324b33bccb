"""Reading: everything once, in order, from wherever one starts, whatever the leaders do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pyarrow as pa
import pytest

from quire.errors import (
    CorruptEntryError,
    CorruptRecordError,
    DeposedError,
    HandleClosedError,
    InvalidRequestError,
    LogReplacedError,
    NoSuchEntryError,
    NoSuchLedgerError,
    NoSuchLogError,
    PositionTrimmedError,
    QuireError,
)
from quire.log.batch import encode_batch
from quire.log.manifest import LogManifest
from quire.log.position import BEGINNING, LATEST, Position, Record
from quire.log.reader import LogReader
from tests.support.log_cluster import (
    NAME,
    PATH,
    Client,
    LogCluster,
    append_all,
    eventually,
    numbered,
    refuse,
    run,
)
from tests.support.memory_cluster import down


@asynccontextmanager
async def following(
    client: Client, seen: list[Record], **options: object
) -> AsyncIterator[asyncio.Task[None]]:
    """Collect what a follower sees until the block is left, or the log is sealed."""

    async def follow() -> None:
        reader = await client.logs.read(NAME, follow=True, **options)  # type: ignore[arg-type]
        async with reader:
            async for record in reader:
                seen.append(record)  # noqa: PERF401 others look at it while it grows

    task = asyncio.create_task(follow())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def three_segments(cluster: LogCluster) -> list[Position]:
    """Twelve records, two in an entry, six in a segment; the last segment stays empty and open."""
    log = await cluster.new_client().open()
    positions: list[Position] = []
    for start in (0, 6):
        for number in range(start, start + 6, 2):
            positions += await log.append_many(numbered(number, 2))
        await log.roll()
    log.abandon()
    return positions


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


@pytest.mark.parametrize("seed", range(6))
def test_a_follower_sees_everything_once_through_rolls_takeovers_and_trims(seed: int) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            seen: list[Record] = []
            acked: list[Position] = []
            async with following(cluster.new_client(), seen, wait_for_log=True) as task:
                for epoch in range(1, 5):
                    log = await cluster.new_client().open(roll_entries=3)
                    assert log.epoch == epoch
                    for number in range(0, 20, 4):
                        records = numbered(100 * epoch + number, 4)
                        acked += await append_all(log, records)
                        await asyncio.sleep(0.01 * seed)
                    await eventually(lambda: len(seen) == len(acked))  # noqa: B023
                    await log.trim(acked[-2])
                    if epoch % 2:
                        log.abandon()
                    else:
                        await log.close()
                await (await cluster.new_client().open()).seal()
                await task
            assert [each.position for each in seen] == acked
            assert [each.offset for each in seen] == list(range(80))
            assert [each.epoch for each in seen] == sorted(each.epoch for each in seen)
            await cluster.check()

    run(main, seed)


def test_a_record_that_only_recovery_confirmed_reaches_followers_exactly_once() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            seen: list[Record] = []
            log = await cluster.new_client().open()
            await log.append(b"0")
            async with following(cluster.new_client(), seen) as task:
                await asyncio.sleep(0.1)
                for name in ("b1", "b2"):
                    cluster.bookies[name].before = down("add")
                future = await log.submit(b"1")  # reaches b0 alone: not acked
                await asyncio.sleep(0.1)
                log.abandon()
                cluster.bookies["b1"].before = down()  # or two would say that there is nothing
                cluster.bookies["b2"].before = down("nothing")
                with pytest.raises(QuireError):
                    await future
                assert [each.payload for each in seen] == [b"0"]
                successor = await cluster.new_client().open()
                await successor.append(b"2")
                await successor.seal()
                await task
            assert [each.payload for each in seen] == [b"0", b"1", b"2"]
            assert [each.offset for each in seen] == [0, 1, 2]

    run(main)


def test_latest_sees_only_what_comes_later() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open()
            await append_all(log, numbered(0, 5))
            await asyncio.sleep(0.1)
            seen: list[Record] = []
            async with following(cluster.new_client(), seen, start=LATEST) as task:
                await asyncio.sleep(0.1)
                await append_all(log, numbered(5, 2))
                await log.seal()
                await task
            assert [each.payload for each in seen] == numbered(5, 2)

    run(main)


def test_an_offset_that_is_not_there_yet_is_waited_for() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open()
            await append_all(log, numbered(0, 3))
            seen: list[Record] = []
            async with following(cluster.new_client(), seen, start=5) as task:
                await asyncio.sleep(0.1)
                await log.append_many(numbered(3, 5))
                await log.seal()
                await task
            assert [each.offset for each in seen] == [5, 6, 7]

    run(main)


def test_a_follower_waits_out_an_outage_and_misses_nothing() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open()
            client = cluster.new_client()
            seen: list[Record] = []
            async with following(client, seen) as task:
                await log.append(b"0")
                await asyncio.sleep(0.1)
                client.store.before = refuse()
                await log.roll()
                await log.append(b"1")
                await asyncio.sleep(5)
                client.store.before = refuse("nothing")
                await log.seal()
                await task
            assert [each.payload for each in seen] == numbered(0, 2)

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


def test_a_log_that_does_not_exist_is_an_error_unless_waited_for() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            with pytest.raises(NoSuchLogError):
                await client.logs.read(NAME)
            with pytest.raises(NoSuchLogError):
                await client.logs.read(NAME, follow=True)

    run(main)


def test_a_trimmed_position_is_an_error_that_names_the_first_one_left() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            positions = await three_segments(cluster)
            client = cluster.new_client()
            await client.logs.trim(NAME, positions[8])
            for start in (positions[0], positions[7], 3, 0):
                with pytest.raises(PositionTrimmedError) as caught:
                    await client.read(start)
                assert caught.value.first == str(positions[8])
            assert await client.payloads(BEGINNING) == numbered(8, 4)
            assert await client.payloads(positions[8]) == numbered(8, 4)
            assert await client.payloads(8) == numbered(8, 4)

    run(main)


def test_a_checkpoint_at_the_trim_point_lost_nothing_however_it_is_written() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            positions = await three_segments(cluster)
            client = cluster.new_client()
            for trim, starts in [
                (positions[4], [positions[3].after, positions[4], Position(1, 2, 0)]),
                (positions[6], [positions[5].after, positions[6], Position(1, 3, 0)]),
            ]:
                await client.logs.trim(NAME, trim)
                for start in starts:
                    expected = numbered(positions.index(trim), 12 - positions.index(trim))
                    assert await client.payloads(start) == expected, (trim, start)

    run(main)


def test_a_reader_overtaken_by_a_trim_is_told() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            positions = await three_segments(cluster)
            client = cluster.new_client()
            async with await client.logs.read(NAME) as reader:
                assert (await anext(reader)).payload == b"0"
                await reader.close()
            async with await client.logs.read(NAME, reader.position) as reader:
                await client.logs.trim(NAME, positions[10])
                with pytest.raises(PositionTrimmedError):
                    await anext(reader)

    run(main)


def test_a_position_that_never_was_is_an_error() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            await three_segments(cluster)
            client = cluster.new_client()
            with pytest.raises(NoSuchEntryError):
                await client.read(Position(1, 17, 0))
            with pytest.raises(InvalidRequestError, match="ends before segment 4"):
                await client.read(Position(9, 0, 0))
            with pytest.raises(InvalidRequestError, match="negative"):
                await client.logs.read(NAME, -1)

    run(main)


def test_another_log_of_the_same_name_is_not_taken_for_the_old_one() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            async with await client.open() as log:
                await log.append(b"old")
            old = await client.logs.read(NAME, follow=True)
            assert (await anext(old)).payload == b"old"
            waiting = asyncio.create_task(anext(old))
            await asyncio.sleep(0.1)
            checkpoint, log_id = old.position, old.log_id
            await client.logs.delete(NAME)
            with pytest.raises((NoSuchLogError, StopAsyncIteration)):
                await waiting
            async with await client.open() as log:
                await log.append_many([b"new"] * 3)
            with pytest.raises(LogReplacedError):
                await anext(old)
            with pytest.raises(LogReplacedError):
                await client.read(checkpoint, log_id=log_id)
            await old.close()

    run(main)


def test_a_segment_that_cannot_be_read_is_an_error_never_silence() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            await three_segments(cluster)
            client = cluster.new_client()
            segments = (await client.manifest()).segments
            await cluster.catalog.delete(segments[1].ledger)
            async with await client.logs.read(NAME) as reader:
                seen = [(await anext(reader)).payload for _ in range(6)]
                assert seen == numbered(0, 6)
                for _ in range(2):
                    with pytest.raises(NoSuchLedgerError):
                        await anext(reader)

    run(main)


def test_a_manifest_that_disagrees_with_a_ledger_is_not_believed() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            await three_segments(cluster)
            found = await cluster.store.get(PATH)
            manifest = LogManifest.decode(PATH, found.value)
            data = manifest.encode()
            body = data.split(b"\n", 1)[1].replace(b"[2,2,6,", b"[1,2,6,")
            assert body != data.split(b"\n", 1)[1]
            await cluster.store.put(PATH, data.split(b"\n", 1)[0] + b"\n" + body, found.version)
            with pytest.raises(CorruptRecordError, match="checksum"):
                await cluster.new_client().read()

    run(main)


@pytest.mark.parametrize(
    ("offset", "epoch", "complaint"),
    [(9, 1, "offset 9 follows offset 2"), (3, 7, "epoch 7 in a segment of 1")],
)
def test_a_batch_that_does_not_belong_where_it_is_stops_the_reader(
    offset: int, epoch: int, complaint: str
) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open()
            await append_all(log, numbered(0, 3))
            foreign = encode_batch([b"x"], first_offset=offset, epoch=epoch, timestamp_ms=0)
            await log._chain.current.writer.append(foreign)
            await asyncio.sleep(0.1)
            async with await cluster.new_client().logs.read(NAME) as reader:
                for number in range(3):
                    assert (await anext(reader)).payload == b"%d" % number
                with pytest.raises(CorruptEntryError, match=complaint):
                    await anext(reader)
            log.abandon()

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
            while (await log.append(b"3")).segment == 1:
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


def test_a_deposed_leader_can_become_a_follower() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            old = await client.open()
            last = await old.append(b"0")
            new = await cluster.new_client().open()
            await new.append(b"1")
            with pytest.raises(DeposedError):
                await old.append(b"2")
            async with await client.logs.read(NAME, last.after, follow=True) as reader:
                assert (await anext(reader)).payload == b"1"
            await new.close()

    run(main)
