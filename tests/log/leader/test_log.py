"""The leader's handle: what is confirmed is in the log, once, in order."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from quire.errors import (
    AppendOutcomeUnknownError,
    EntryTooLargeError,
    HandleClosedError,
    InvalidRequestError,
    LogSealedError,
)
from quire.log.records.position import LATEST, Position
from tests.support.log_cluster import NAME, LogCluster, append_all, numbered, run
from tests.support.memory_cluster import hung


def test_append_gives_positions_in_order_and_readers_get_the_records() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            async with await client.open() as log:
                assert (log.name, log.epoch, log.is_deposed) == (NAME, 1, False)
                positions = [await log.append(record) for record in numbered(0, 5)]
                assert positions == [(Position(1, entry, 0), entry) for entry in range(5)]
            records = await client.read()
            assert [each.payload for each in records] == numbered(0, 5)
            assert [(each.position, each.offset) for each in records] == positions
            assert {(each.epoch, each.timestamp_ms) for each in records} == {(1, 1_000_000)}

    run(main)


def test_records_that_queue_up_share_an_entry() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open(batch_records=100)
            positions = await append_all(log, numbered(0, 250))
            assert positions == sorted(positions)
            entries = sorted({each.entry for each in positions})
            assert entries == list(range(len(entries)))
            assert 3 <= len(entries) <= 10
            await log.close()
            assert await cluster.new_client().payloads() == numbered(0, 250)

    run(main)


def test_append_many_is_one_entry_and_is_never_split() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open(batch_records=4, batch_bytes=20)
            single = [await log.submit(record) for record in numbered(0, 3)]
            positions = await log.append_many(numbered(3, 9))
            assert len({(each.position.segment, each.position.entry) for each in positions}) == 1
            assert [each.position.slot for each in positions] == list(range(9))
            assert max(each.result() for each in single) < positions[0]
            assert await log.append_many([]) == []
            await log.close()
            assert await cluster.new_client().payloads() == numbered(0, 12)

    run(main)


def test_an_iterator_without_records_ends_no_leader() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open()
            append_many: Any = log.append_many
            assert await append_many(iter(())) == []
            assert [each.offset for each in await append_many(iter(numbered(0, 2)))] == [0, 1]
            await log.close()
            assert await cluster.new_client().payloads() == numbered(0, 2)

    run(main)


def test_a_log_that_is_opened_again_goes_on_where_it_ended() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            for epoch in (1, 2, 3):
                async with await cluster.new_client().open() as log:
                    assert log.epoch == epoch
                    await append_all(log, numbered(10 * epoch, 10))
            records = await cluster.new_client().read()
            assert [each.payload for each in records] == numbered(10, 30)
            assert [each.offset for each in records] == list(range(30))
            assert [each.epoch for each in records] == [1] * 10 + [2] * 10 + [3] * 10

    run(main)


def test_leaders_that_write_nothing_leave_nothing_behind() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            for _ in range(4):
                await (await cluster.new_client().open()).close()
            manifest = await cluster.check()
            assert (len(manifest.segments), len(manifest.doomed)) == (0, 0)
            assert (manifest.epoch, manifest.next_segment) == (4, 5)
            assert await cluster.ledgers() == []

    run(main)


def test_in_flight_is_bounded_and_submit_waits() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open(records_in_flight_max=10)
            for bookie in cluster.bookies.values():
                bookie.before = hung("add")
            futures = [await log.submit(b"x") for _ in range(10)]
            waiting = asyncio.create_task(log.append(b"late"))
            await asyncio.sleep(0.1)
            assert not waiting.done()
            assert not any(each.done() for each in futures)
            waiting.cancel()
            log.abandon()
            for each in futures:
                with pytest.raises(AppendOutcomeUnknownError, match="abandoned"):
                    await each

    run(main)


def test_a_cancelled_append_is_not_recalled_and_does_no_harm() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open()
            append = asyncio.create_task(log.append(b"0"))
            await asyncio.sleep(0)
            append.cancel()
            await asyncio.gather(append, return_exceptions=True)
            await log.append(b"1")
            await log.close()
            assert (await cluster.new_client().payloads())[-1:] == [b"1"]

    run(main)


@pytest.mark.parametrize("options", [{"roll_entries": 2}, {"roll_bytes": 100}])
def test_a_full_segment_is_rolled_without_a_hole(options: dict[str, int]) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open(batch_records=3, **options)
            positions = []
            for start in range(0, 60, 6):
                positions += await append_all(log, numbered(start, 6))
                await asyncio.sleep(0.1)
            assert positions == sorted(positions)
            manifest = await cluster.check()
            assert len(manifest.segments) > 3
            await log.close()
            records = await cluster.new_client().read()
            assert [each.payload for each in records] == numbered(0, 60)
            assert [each.position for each in records] == positions
            assert [each.offset for each in records] == list(range(60))

    run(main)


def test_an_old_segment_is_rolled_by_a_timer_but_an_empty_one_is_not() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open(roll_seconds=60.0)
            await asyncio.sleep(61)
            assert [each.number for each in (await cluster.check()).segments] == [1]
            await log.append(b"0")
            await asyncio.sleep(61)
            assert [each.number for each in (await cluster.check()).segments] == [1, 2]
            await asyncio.sleep(300)
            assert [each.number for each in (await cluster.check()).segments] == [1, 2]
            await log.close()

    run(main)


def test_roll_by_hand_returns_when_the_old_segment_is_sealed() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open()
            await log.roll()
            assert len((await cluster.check()).segments) == 1
            await log.append(b"0")
            await asyncio.gather(log.roll(), log.roll())
            manifest = await cluster.check()
            assert [each.records for each in manifest.segments] == [1, None]
            assert (await log.append(b"1")).position.segment == 2
            await log.close()

    run(main)


def test_the_recorded_facts_of_a_segment_are_true() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open()
            await log.append_many(numbered(0, 3))
            cluster.now += 5
            await log.append_many(numbered(3, 2))
            await log.roll()
            await log.append(b"5")
            log.abandon()
            second = await cluster.new_client().open()
            manifest = await cluster.check()
            written, recovered, _ = manifest.segments
            for segment in (written, recovered):
                metadata = await cluster.catalog.metadata(segment.ledger)
                assert (metadata.last_entry, metadata.length) == (segment.last_entry, segment.bytes)
                assert metadata.custom_metadata["log"] == NAME
                assert metadata.custom_metadata["segment"] == str(segment.number)
            assert (written.records, written.end_position) == (5, Position(1, 1, 2))
            assert (written.first_offset, recovered.first_offset) == (0, 5)
            assert written.last_timestamp_ms == 1_005_000
            await second.close()

    run(main)


def test_clocks_that_differ_a_little_make_no_time_run_backward() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            async with await cluster.new_client().open() as log:
                await log.append(b"0")
                cluster.now -= 50
                await log.append(b"1")
            async with await cluster.new_client().open() as log:
                await log.append(b"2")
            stamps = [each.timestamp_ms for each in await cluster.new_client().read()]
            assert stamps == [1_000_000] * 3

    run(main)


def test_no_time_runs_backward_though_all_before_was_trimmed() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            for number in range(3):
                async with await client.open() as log:
                    await log.append(b"%d" % number)
                await client.logs.trim(NAME, LATEST)
                assert (await cluster.check()).segments == ()
                cluster.now -= 15
            async with await client.open() as log:
                await log.append(b"3")
            assert [each.timestamp_ms for each in await client.read()] == [1_000_000]

    run(main)


def test_a_closed_log_refuses_and_close_is_harmless_when_repeated() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open()
            late = [await log.submit(record) for record in numbered(0, 50)]
            await log.close()
            assert all(each.done() for each in late)
            await log.close()
            await log.wait_deposed()
            assert not log.is_deposed
            for refused in (log.append(b"x"), log.append_many([b"x"]), log.roll()):
                with pytest.raises(HandleClosedError):
                    await refused
            assert (await cluster.check()).open_segments == ()

    run(main)


def test_a_sealed_log_takes_no_more_records_from_anybody() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open()
            late = [await log.submit(record) for record in numbered(0, 5)]
            await log.seal()
            assert [each.result().position.slot for each in late] != []
            with pytest.raises(LogSealedError):
                await log.append(b"x")
            with pytest.raises(LogSealedError):
                await cluster.new_client().open()
            reader = await cluster.new_client().logs.read(NAME, follow=True)
            assert [record.payload async for record in reader] == numbered(0, 5)

    run(main)


def test_records_are_bytes_of_a_bounded_size() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open()
            with pytest.raises(EntryTooLargeError):
                await log.append(bytes(4 * 1024 * 1024))
            with pytest.raises(TypeError, match="not str"):
                await log.append("text")  # type: ignore[arg-type]
            await log.append(memoryview(b"view"))  # type: ignore[arg-type]
            await log.append(bytes(3 * 1024 * 1024))
            await log.close()
            assert [len(each) for each in await cluster.new_client().payloads()] == [4, 3 << 20]

    run(main)


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_compressed_batches_read_back(compression: str) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            async with await cluster.new_client().open(compression=compression) as log:
                await log.append_many([b"word " * 200] * 20)
            manifest = await cluster.check()
            assert (manifest.segments[0].bytes or 0) < 2000
            assert await cluster.new_client().payloads() == [b"word " * 200] * 20

    run(main)


def test_trim_by_the_leader_takes_effect_at_once_and_deletes_ledgers() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open()
            first = await append_all(log, numbered(0, 3))
            await log.roll()
            second = await append_all(log, numbered(3, 3))
            with pytest.raises(InvalidRequestError, match="it ends at"):
                await log.trim(Position(2, 50, 0))
            await log.trim(second[1])
            await asyncio.sleep(0.1)  # until an idle writer has told its LAC
            assert await cluster.new_client().payloads() == numbered(4, 2)
            manifest = await cluster.check_all_listed()
            assert manifest.doomed == ()
            await log.trim(first[0])
            assert (await log.append(b"6")).position.segment == 2
            await log.close()

    run(main)
