"""What cannot be read: trimmed, never written, another log's, lost or damaged. Never silence."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from quire.errors import (
    CorruptEntryError,
    CorruptRecordError,
    InvalidRequestError,
    LogReplacedError,
    NoSuchLedgerError,
    NoSuchLogError,
    PositionTrimmedError,
)
from quire.log.manifest.manifest import LogManifest
from quire.log.records.batch import encode_batch
from quire.log.records.position import BEGINNING, Position
from tests.support.log_cluster import (
    NAME,
    PATH,
    LogCluster,
    append_all,
    numbered,
    run,
    three_segments,
)


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
            for entry in (4, 17):
                with pytest.raises(InvalidRequestError, match=r"segment 1 ends at 1\.3\.0"):
                    await client.read(Position(1, entry, 0))
            with pytest.raises(InvalidRequestError, match="ends before segment 4"):
                await client.read(Position(9, 0, 0))
            wrong: list[Any] = [-1, 1.5, True, None, "1.0.0", (1, 0, 0), 2**63]
            for start in wrong:
                with pytest.raises(InvalidRequestError, match="not a place"):
                    await client.logs.read(NAME, start)

    run(main)


def test_a_follower_whose_segment_ends_before_its_position_is_told() -> None:
    """Where a reader came to when the segment ended is a position; what is behind that is none."""

    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            async with await client.open(batch_records=1) as log:
                await append_all(log, numbered(0, 3))
                beyond = await client.logs.read(NAME, Position(1, 4, 0), follow=True)
                end = await client.logs.read(NAME, Position(1, 3, 0), follow=True)
                reading = [asyncio.create_task(anext(each)) for each in (beyond, end)]
                await asyncio.sleep(1)
                assert not any(each.done() for each in reading)
            async with await cluster.new_client().open() as log:
                await log.append(b"behind it")
                assert (await reading[1]).payload == b"behind it"
                for waiting in (reading[0], anext(beyond)):
                    with pytest.raises(InvalidRequestError, match=r"no position 1\.4\.0"):
                        await waiting
            for each in (beyond, end):
                await each.close()

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
            writer = log._chain.current.writer
            for first, its_epoch in ((offset, epoch), (3, 1)):
                foreign = encode_batch([b"x"], first_offset=first, epoch=its_epoch, timestamp_ms=0)
                await writer.append(foreign)
            await asyncio.sleep(0.1)
            async with await cluster.new_client().logs.read(NAME) as reader:
                for number in range(3):
                    assert (await anext(reader)).payload == b"%d" % number
                for _ in range(3):  # what is behind it is not given either
                    with pytest.raises(CorruptEntryError, match=complaint):
                        await anext(reader)
            log.abandon()

    run(main)


def test_a_reader_by_offset_begins_nowhere_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            positions = await three_segments(cluster)

            async def astray(*_: object) -> Position:
                return positions[6]

            monkeypatch.setattr("quire.log.reading.seek.find_offset", astray)
            client = cluster.new_client()
            assert await client.payloads(7) == numbered(7, 5)
            for start in (0, 5):
                with pytest.raises(CorruptEntryError, match=f"offset 6 where offset {start} was"):
                    await client.read(start)

    run(main)
