"""What the well-known dice example gets wrong, each as a test that this log passes (D1 to D16).

The example is the usual way to build a log from ledgers by hand. D16, one leader per log, is in
test_directory.py; the other numbers are here.
"""

from __future__ import annotations

import asyncio

import pytest

from quire.errors import (
    DeposedError,
    LeadershipLostError,
    NotEnoughBookiesError,
    OutcomeUnknownError,
    PositionTrimmedError,
)
from quire.log.manifest.options import LogOptions
from quire.log.reading.reader import LogReader
from quire.log.records.position import BEGINNING, Position, Record
from quire.metastore.layout import LEDGERS, ledger_path
from tests.support.log_cluster import (
    NAME,
    PATH,
    Client,
    Gate,
    LogCluster,
    append_all,
    lose_answer,
    numbered,
    run,
)
from tests.support.memory_cluster import hung


async def collect(reader: LogReader, count: int) -> list[bytes]:
    return [(await anext(reader)).payload for _ in range(count)]


def count_calls(client: Client, calls: list[str]) -> None:
    async def before(method: str, path: str) -> None:
        calls.append(f"{method} {path}")

    client.store.before = before


def test_d1_the_next_segment_is_read_from_its_first_entry() -> None:
    """Segments of 8, 10 and 4 entries, read from entry 5 of the first: nothing is skipped."""

    async def main() -> None:
        async with LogCluster() as cluster:
            number = 0
            for entries in (8, 10, 4):
                async with await cluster.new_client().open() as log:
                    for _ in range(entries):
                        await log.append(b"%d" % number)
                        number += 1
            assert await cluster.new_client().payloads(Position(1, 5, 0)) == numbered(5, 17)

    run(main)


def test_d2_waiting_for_a_log_that_does_not_exist_can_be_cancelled_and_wakes() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            reader = await client.logs.read(NAME, follow=True, wait_for_log=True)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await anext(reader)
            waiting = asyncio.create_task(collect(reader, 1))
            await asyncio.sleep(1)
            async with await client.open() as log:  # the waiter itself leads and plays
                await log.append(b"first")
                assert await waiting == [b"first"]
            await reader.close()

    run(main)


def test_d3_a_take_over_recovers_the_open_segments_whatever_it_has_read() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open()
            for number in range(10):
                await log.append(b"%d" % number)
                await log.roll()
            await log.append(b"10")
            log.abandon()
            calls: list[str] = []
            client = cluster.new_client()
            count_calls(client, calls)
            await client.open()
            closed = [call for call in calls if call.startswith(f"put {LEDGERS}")]
            opened = {call for call in calls if call.startswith(f"get {LEDGERS}")}
            last_two = [each.ledger for each in (await client.manifest()).segments[-3:-1]]
            expected = {f"get {ledger_path(each)}" for each in last_two}
            assert opened == expected, "the open ledger, and before that the last sealed one"
            assert closed, "and it is recovered"

    run(main)


def test_d4_the_manifest_does_not_grow_with_leaders_and_is_trimmed() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            for _ in range(20):
                (await cluster.new_client().open()).abandon()
            log = await cluster.new_client().open()
            assert len((await cluster.check()).segments) == 1
            await asyncio.sleep(1)
            assert len(await cluster.ledgers()) == 1
            await log.close()

    run(main)


def test_d5_a_position_that_was_trimmed_is_never_silently_the_beginning() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            async with await cluster.new_client().open() as log:
                first, _ = await log.append(b"0")
                await log.roll()
                second, _ = await log.append(b"1")
                await log.trim(second)
            with pytest.raises(PositionTrimmedError, match=r"first position left is 2\.0\.0"):
                await cluster.new_client().read(first)

    run(main)


def test_d6_an_idle_follower_costs_the_store_nothing() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open()
            await log.append(b"0")
            client = cluster.new_client()
            reader = await client.logs.read(NAME, follow=True)
            await anext(reader)
            waiting = asyncio.create_task(collect(reader, 1))
            await asyncio.sleep(1)
            calls: list[str] = []
            count_calls(client, calls)
            await asyncio.sleep(100)
            assert calls == []
            await log.append(b"1")
            assert await waiting == [b"1"]
            await reader.close()
            await log.close()

    run(main)


def test_d7_no_tight_loop_at_the_end_of_a_log_nor_behind_empty_segments() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            async with await cluster.new_client().open() as log:
                await log.append(b"0")
            client = cluster.new_client()
            reader = await client.logs.read(NAME, follow=True)
            await anext(reader)
            waiting = asyncio.create_task(collect(reader, 1))
            await asyncio.sleep(1)
            calls: list[str] = []
            count_calls(client, calls)
            await asyncio.sleep(100)
            assert calls == []
            for _ in range(3):
                await (await cluster.new_client().open()).close()
            await asyncio.sleep(100)
            assert len(calls) < 60
            async with await cluster.new_client().open() as log:
                await log.append(b"1")
                assert await waiting == [b"1"]
            await reader.close()

    run(main)


def test_d8_the_last_record_of_an_idle_log_is_seen_within_the_promised_time() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open()
            seen: list[Record] = []

            async def follow() -> None:
                async with await cluster.new_client().logs.read(NAME, follow=True) as reader:
                    async for record in reader:
                        seen.append(record)  # noqa: PERF401 looked at while it grows

            task = asyncio.create_task(follow())
            for number in range(5):
                await log.append(b"%d" % number)
                await asyncio.sleep(0.015)  # the idle bound is 10 ms, and there is no network
                assert len(seen) == number + 1
            await log.seal()
            await task

    run(main)


def test_d9_the_ledger_of_a_lost_race_is_deleted() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            slow = cluster.new_client()
            gate = Gate("commit", PATH)
            slow.store.before = gate
            opening = asyncio.create_task(slow.open())
            await gate.reached.wait()
            await (await cluster.new_client().open()).close()
            gate.open.set()
            log = await opening
            manifest = await cluster.check()
            assert await cluster.ledgers() == [each.ledger for each in manifest.segments]
            await log.close()

    run(main)


@pytest.mark.parametrize("method", ["create", "put"])
def test_d10_ones_own_success_is_not_mistaken_for_a_lost_race(method: str) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            client.store.after = lose_answer(method, path=PATH, times=3)
            log = await client.open()
            await log.append(b"0")
            await log.roll()
            await log.append(b"1")
            await log.close()
            assert await client.payloads() == [b"0", b"1"]
            assert len(await cluster.ledgers()) == 2

    run(main)


def test_d11_too_few_bookies_at_the_start_are_waited_for() -> None:
    async def main() -> None:
        async with LogCluster(2) as cluster:
            client = cluster.new_client()
            with pytest.raises(NotEnoughBookiesError):
                await client.open(open_timeout=1.0)
            opening = asyncio.create_task(client.open())
            await asyncio.sleep(2)
            await cluster.register("b9")
            log = await opening
            await log.append(b"0")
            await log.close()

    run(main)


def test_d12_a_candidate_that_lost_its_leadership_stops_between_attempts() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            stale = cluster.new_client()
            gate = Gate("commit", PATH)
            stale.store.before = gate
            answers = iter([True, False])
            opening = asyncio.create_task(
                stale.logs.open(NAME, LogOptions(), is_leader=lambda: next(answers))
            )
            await gate.reached.wait()
            leader = await cluster.new_client().open()
            gate.open.set()
            with pytest.raises(LeadershipLostError):
                await opening
            await leader.append(b"0")
            await leader.close()

    run(main)


def test_d13_catching_up_holds_a_bounded_part_of_the_log_in_memory() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            async with await cluster.new_client().open(roll_bytes=1 << 30) as log:
                for _ in range(40):
                    await log.append(bytes(1 << 20))
            reads: list[int] = []

            async def before(method: str, ledger: int) -> None:
                if method == "read":
                    reads.append(ledger)

            for bookie in cluster.bookies.values():
                bookie.before = before
            async with await cluster.new_client().logs.read(NAME) as reader:
                await anext(reader)
                await asyncio.sleep(10)
                assert len(reads) <= 10, "4 MiB ahead, 1 MiB a read"
                assert len([record async for record in reader]) == 39

    run(main)


def test_d14_a_restarted_reader_goes_on_from_its_checkpoint() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            checkpoint, total = str(BEGINNING), 0
            for epoch in range(4):
                async with await cluster.new_client().open() as log:
                    await append_all(log, numbered(epoch, 3))
                position = Position.parse(checkpoint)
                async with await cluster.new_client().logs.read(NAME, position) as reader:
                    async for record in reader:
                        total += int(record.payload)
                    checkpoint = str(reader.position)
            assert total == sum(range(3)) * 4 + 3 * sum(range(4))

    run(main)


def test_d15_a_failed_append_says_that_its_outcome_is_unknown() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            old = await cluster.new_client().open()
            for bookie in cluster.bookies.values():
                bookie.before = hung("add")
            future = await old.submit(b"0")
            await asyncio.sleep(0.1)
            for bookie in cluster.bookies.values():
                bookie.before = hung("nothing")
            await (await cluster.new_client().open()).close()
            with pytest.raises(DeposedError) as caught:
                await future
            assert isinstance(caught.value, OutcomeUnknownError)
            assert "may or may not be kept" in str(caught.value)

    run(main)
