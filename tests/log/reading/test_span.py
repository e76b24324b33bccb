"""Snapshots: prefixes of the log without holes, taken and read without disturbing anybody."""

from __future__ import annotations

import asyncio

import pytest

from quire.errors import LogReplacedError, NoSuchLedgerError, NoSuchLogError, PositionTrimmedError
from quire.ledger.metadata import LedgerMetadata
from quire.log.reading.bounds import EVERYTHING, Bounds
from quire.log.reading.snapshot import CLOSING_SECONDS_MAX
from quire.log.records.position import LATEST, Position
from quire.metastore.layout import LEDGERS, PARTS
from tests.support.log_cluster import NAME, Client, Gate, LogCluster, append_all, numbered, run
from tests.support.memory_cluster import down


async def spanned(client: Client, bounds: Bounds = EVERYTHING, cut: int = 2**40) -> list[bytes]:
    """The log's records as spans give them."""
    payloads: list[bytes] = []
    whole = await client.logs.snapshot(NAME, bounds=bounds)
    for span in [piece for each in whole for piece in each.split(cut)]:
        async for piece in client.logs.read_span(span):
            payloads += piece.payloads()
    return payloads


def test_the_spans_of_a_rolled_log_are_the_log() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            async with await cluster.new_client().open(batch_records=7) as log:
                for start in range(0, 90, 30):
                    await append_all(log, numbered(start, 30))
                    await log.roll()
            client = cluster.new_client()
            assert len(await client.logs.snapshot(NAME)) == 3
            assert await spanned(client) == numbered(0, 90)

    run(main)


def test_a_snapshot_of_a_live_log_ends_at_its_lac_and_fences_nobody() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open()
            await append_all(log, numbered(0, 20))
            await asyncio.sleep(1)
            assert await spanned(cluster.new_client()) == numbered(0, 20)
            await append_all(log, numbered(20, 20))
            await log.close()
            assert await spanned(cluster.new_client()) == numbered(0, 40)

    run(main)


def test_trimmed_records_are_left_out() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            async with await client.open() as log:
                await log.append_many(numbered(0, 10))
                await log.append_many(numbered(10, 10))
            await client.logs.trim(NAME, Position(1, 1, 4))
            (span,) = await client.logs.snapshot(NAME)
            assert (span.first, span.last) == (1, 1)
            assert await spanned(client) == numbered(14, 6)

    run(main)


def test_an_open_segment_hides_its_successor_until_it_is_closed() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            leader = cluster.new_client()
            log = await leader.open()
            await append_all(log, numbered(0, 5))
            closing = Gate("put", LEDGERS)
            leader.store.before = closing
            rolling = asyncio.create_task(log.roll())
            await closing.reached.wait()
            await append_all(log, numbered(5, 5))
            states = [
                await metadata(leader, each.ledger) for each in (await leader.manifest()).segments
            ]
            assert [each.is_closed for each in states] == [False, False]
            await asyncio.sleep(0.1)
            taking = asyncio.create_task(spanned(cluster.new_client()))
            await asyncio.sleep(1)
            assert not taking.done()
            closing.open.set()
            assert await taking == numbered(0, 10)
            await rolling
            await log.close()

    run(main)


def test_a_leader_that_never_closes_costs_the_snapshot_only_the_successor() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            leader = cluster.new_client()
            log = await leader.open()
            await append_all(log, numbered(0, 5))
            await asyncio.sleep(1)
            leader.store.before = closing = Gate("put", LEDGERS)
            rolling = asyncio.create_task(log.roll())
            await closing.reached.wait()
            clock = asyncio.get_running_loop().time
            began = clock()
            assert await spanned(cluster.new_client()) == numbered(0, 5)
            assert clock() - began < 0.1, "nothing is behind the segment: nothing to wait for"
            await append_all(log, numbered(5, 5))
            await asyncio.sleep(0.1)
            began = clock()
            assert await spanned(cluster.new_client()) == numbered(0, 5)
            assert clock() - began < CLOSING_SECONDS_MAX + 0.1
            log.abandon()
            await asyncio.gather(rolling, return_exceptions=True)

    run(main)


def test_what_is_gone_is_said_to_be_gone() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            with pytest.raises(NoSuchLogError):
                await client.logs.snapshot(NAME)
            async with await client.open() as log:
                await append_all(log, numbered(0, 5))
                await log.roll()
                await append_all(log, numbered(5, 5))
            one, other = await client.logs.snapshot(NAME)
            await client.logs.trim(NAME, Position(2, 0, 1))
            with pytest.raises(PositionTrimmedError, match=r"1\.0\.0.* was trimmed.* 2\.0\.1"):
                await anext(client.logs.read_span(one))
            found = [piece async for piece in client.logs.read_span(other)]
            assert [each for piece in found for each in piece.payloads()] == numbered(5, 5)
            await client.catalog.delete(other.ledger)
            with pytest.raises(NoSuchLedgerError):
                await anext(client.logs.read_span(other))
            await client.logs.delete(NAME)
            with pytest.raises(NoSuchLogError):
                await anext(client.logs.read_span(one))
            await (await client.open()).close()
            with pytest.raises(LogReplacedError):
                await anext(client.logs.read_span(one))

    run(main)


def test_what_was_confirmed_when_it_was_planned_is_read_from_bookies_that_never_heard() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open()
            for record in numbered(0, 5):
                await log.append(record)
            cluster.bookies["b1"].before = down("write_lac")
            cluster.bookies["b2"].before = down("write_lac", "read_tail")  # so b0 is asked
            client = cluster.new_client()
            await asyncio.sleep(1)
            (span,) = await client.logs.snapshot(NAME)
            assert span.offsets == range(5)
            for deaf in ("b1", "b2"):
                cluster.bookies[deaf].before = down("nothing")
            cluster.bookies["b0"].before = down()
            (less,) = await client.logs.snapshot(NAME)
            assert less.offsets == range(4), "what a later snapshot has may be less"
            found = [piece async for piece in client.logs.read_span(span)]
            assert [each for piece in found for each in piece.payloads()] == numbered(0, 5)
            await log.close()

    run(main)


def test_a_log_that_is_being_deleted_is_gone_and_not_empty() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client, deleter = cluster.new_client(), cluster.new_client()
            async with await client.open() as log:
                await append_all(log, numbered(0, 5))
            (span,) = await client.logs.snapshot(NAME)
            deleter.store.before = gate = Gate("children", PARTS)
            deleting = asyncio.create_task(deleter.logs.delete(NAME))
            await gate.reached.wait()
            with pytest.raises(NoSuchLogError):
                await client.logs.snapshot(NAME)
            with pytest.raises(NoSuchLogError):
                await anext(client.logs.read_span(span))
            gate.open.set()
            await deleting

    run(main)


def test_a_snapshot_that_a_trim_overtakes_begins_again() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            leader, client = cluster.new_client(), cluster.new_client()
            async with await leader.open() as log:
                for start in range(0, 15, 5):
                    await append_all(log, numbered(start, 5))
                    await log.roll()
            looking = Gate("get", LEDGERS)
            client.store.before = looking
            taking = asyncio.create_task(client.logs.snapshot(NAME, bounds=Bounds(first_offset=2)))
            await looking.reached.wait()
            await leader.logs.trim(NAME, Position(3, 0, 0))
            looking.open.set()
            assert [(span.segment, span.offsets) for span in await taking] == [(3, range(10, 15))]

    run(main)


@pytest.mark.slow
def test_bounds_are_kept_wherever_they_cut() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            leader = cluster.new_client()
            log = await leader.open(batch_records=7)
            for start in range(0, 90, 30):
                cluster.now += 10
                await append_all(log, numbered(start, 30))
                if start < 60:
                    await log.roll()
            await asyncio.sleep(1)
            client = cluster.new_client()
            records = await client.read()
            for one in range(0, 90, 4):
                for other in range(one, 91, 9):
                    end = records[other].position if other < 90 else LATEST
                    for bounds in (
                        Bounds(first_offset=one, end_offset=other),
                        Bounds(first=records[one].position, end=end),
                        Bounds(first_offset=one, end=end),
                    ):
                        assert await spanned(client, bounds) == numbered(one, other - one)
            later = Bounds(first_ms=1_020_000, end_ms=1_030_000)
            assert await spanned(client, later) == numbered(30, 30)
            assert await spanned(client, Bounds(first_ms=1_030_001)) == []
            assert await client.logs.snapshot(NAME, bounds=Bounds(first_ms=1_030_001)) == []
            await log.close()

    run(main)


def test_a_span_is_split_without_loss() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            async with await client.open(batch_records=7) as log:
                await append_all(log, numbered(0, 100))
            (span,) = await client.logs.snapshot(NAME)
            assert span.bytes is not None
            pieces = span.split(span.bytes // 4 + 1)
            assert 3 <= len(pieces) <= 5
            for cut in (1, 50, 200, 10_000):
                assert await spanned(client, cut=cut) == numbered(0, 100)
                assert await spanned(client, Bounds(first_offset=33), cut) == numbered(33, 67)

    run(main)


async def metadata(client: Client, ledger: int) -> LedgerMetadata:
    return await client.catalog.metadata(ledger)
