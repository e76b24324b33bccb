"""A reader that leaves out what is lost begins anywhere: in front of it, in it, behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from quire.errors import (
    CorruptRecordError,
    NoSuchEntryError,
    NoSuchLedgerError,
    PositionTrimmedError,
    StoreWentBackError,
)
from quire.log.reading.gaps import Gap
from quire.log.reading.seek import Asked
from quire.log.records.position import BEGINNING, AtTxid, Position
from quire.metastore.layout import ledger_path
from tests.support.log_cluster import NAME, Client, LogCluster, append_all, numbered, run
from tests.support.memory_cluster import down

ENTRIES = 9
RECORDS = 2 * ENTRIES + 2
"""Two in an entry; one more entry in a second segment."""


def at(number: int) -> datetime:
    return datetime.fromtimestamp(2000 + number, UTC)


async def write(cluster: LogCluster) -> None:
    """A log whose records have their offset for a payload and a txid, and whose entries have
    the first one for a time.
    """
    log = await cluster.new_client().open(batch_records=2)
    for number in range(0, RECORDS, 2):
        if number == 2 * ENTRIES:
            await log.roll()
        cluster.now = 2000.0 + number
        await asyncio.gather(
            *[await log.submit(b"%d" % each, txid=each) for each in (number, number + 1)]
        )
    await log.close()
    ends = [each.last_entry for each in (await cluster.new_client().manifest()).segments]
    assert ends == [ENTRIES - 1, 0]


async def lose(cluster: LogCluster, entries: Sequence[int]) -> None:
    """Have all bookies forget entries of the first segment."""
    ledger = (await cluster.new_client().manifest()).segments[0].ledger
    for bookie in cluster.bookies.values():
        for entry in entries:
            bookie.ledgers[ledger].frames.pop(entry, None)


async def read(client: Client, start: Asked) -> tuple[list[bytes], list[Gap]]:
    gaps: list[Gap] = []
    async with await client.logs.read(NAME, start, on_gap=gaps.append) as reader:
        return [each.payload async for each in reader], gaps


def offsets_of(gap: Gap) -> set[int]:
    """The offsets of the records that are left out."""
    offsets = range(2 * ENTRIES)
    return {each for each in offsets if gap.first <= Position(1, *divmod(each, 2)) < gap.end}


@pytest.mark.parametrize("lost", [(4,), (0,), (8,), (3, 4), (1, 4, 6), tuple(range(ENTRIES))])
@pytest.mark.parametrize("kind", ["offset", "txid", "time"])
def test_a_reader_begins_past_lost_entries_and_is_told_of_those_behind_its_start(
    kind: str, lost: tuple[int, ...]
) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            await write(cluster)
            await lose(cluster, lost)
            client = cluster.new_client()
            gone = {offset for entry in lost for offset in (2 * entry, 2 * entry + 1)}
            for number in range(RECORDS):
                start: Asked = number
                if kind == "txid":
                    start = AtTxid(number)
                elif kind == "time":
                    start, number = at(number), number + number % 2
                found, gaps = await read(client, start)
                left = [each for each in range(number, RECORDS) if each not in gone]
                assert found == [b"%d" % each for each in left], start
                told = [offsets_of(gap) for gap in gaps]
                behind = {each for each in gone if each >= number}
                assert behind <= set().union(*told) <= gone, start
                # which times and txids were lost nobody knows, but those around them
                spare = 0 if kind == "offset" else 1
                assert all(max(each) + spare >= number for each in told), start
            with pytest.raises(NoSuchEntryError):
                await client.payloads()

    run(main)


def test_gaps_before_what_was_asked_for_are_not_told() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            await write(cluster)
            await lose(cluster, [4])
            for start in (10, 14, AtTxid(11), AtTxid(14), at(11), at(14)):
                assert (await read(cluster.new_client(), start))[1] == [], start

    run(main)


def test_what_was_trimmed_is_not_asked_for_and_an_offset_in_it_is_an_error() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            await write(cluster)
            await lose(cluster, [4, 7])
            client = cluster.new_client()
            await client.logs.trim(NAME, Position(1, 6, 1))
            expected = [b"13", *numbered(16, 4)]
            for start in (BEGINNING, AtTxid(3), AtTxid(13), at(0), at(12), 13):
                found, gaps = await read(client, start)
                assert found == expected, start
                assert [each.first for each in gaps] == [Position(1, 7, 0)]
            for offset in (0, 3, 8, 9, 11, 12):
                with pytest.raises(PositionTrimmedError):
                    await read(client, offset)

    run(main)


@pytest.mark.parametrize("is_lost", [False, True])
def test_an_offset_at_the_trim_point_is_judged_by_its_entry_only(is_lost: bool) -> None:
    """The entry there was away while it was looked for, and comes back with a later offset."""

    async def main() -> None:
        async with LogCluster() as cluster:
            await write(cluster)
            await lose(cluster, range(6))  # no entry before the trim point tells either
            client = cluster.new_client()
            await client.logs.trim(NAME, Position(1, 6, 1))
            ledger = (await client.manifest()).segments[0].ledger
            frame = cluster.bookies["b0"].ledgers[ledger].frames[6]
            await lose(cluster, [6])
            if not is_lost:
                cluster.bookies["b1"].before = down("read")
            for offset in (0, 11, 12):
                gaps: list[Gap] = []
                async with await client.logs.read(NAME, offset, on_gap=gaps.append) as reader:
                    if is_lost:
                        assert (await anext(reader)).payload == b"14"
                        assert [each.first for each in gaps] == [Position(1, 6, 1)]
                        continue
                    with pytest.raises(NoSuchEntryError) as caught:
                        await anext(reader)
                    assert caught.value.silent
                    for bookie in cluster.bookies.values():
                        bookie.ledgers[ledger].frames[6] = frame
                    with pytest.raises(PositionTrimmedError):
                        await anext(reader)
                assert gaps == []
                await lose(cluster, [6])

    run(main)


def test_a_position_at_the_trim_point_whose_entry_is_lost_may_have_been_trimmed() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            await write(cluster)
            await lose(cluster, [4])
            client = cluster.new_client()
            await client.logs.trim(NAME, Position(1, 5, 0))
            with pytest.raises(PositionTrimmedError) as caught:
                await read(client, Position(1, 4, 2))
            assert caught.value.first == "1.5.0"

    run(main)


@pytest.mark.parametrize("is_corrupt", [False, True])
def test_a_segment_that_cannot_be_opened_is_one_gap(is_corrupt: bool) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            await write(cluster)
            client = cluster.new_client()
            ledger = (await client.manifest()).segments[0].ledger
            if is_corrupt:
                found = await cluster.store.get(ledger_path(ledger))
                await cluster.store.put(ledger_path(ledger), b"no record", found.version)
            else:
                await cluster.catalog.delete(ledger)
            behind = numbered(2 * ENTRIES, 2)
            for start in (BEGINNING, Position(1, 0, 0), 0, 7, AtTxid(7), at(7)):
                payloads, gaps = await read(client, start)
                assert payloads == behind, start
                assert [(each.first, each.end) for each in gaps] == [
                    (Position(1, 0, 0), Position(2, 0, 0))
                ]
            for start in (2 * ENTRIES, AtTxid(2 * ENTRIES), at(2 * ENTRIES)):
                assert await read(client, start) == (behind, []), start
            assert (await read(client, Position(1, 4, 1)))[1][0].first == Position(1, 4, 1)
            for start in (BEGINNING, 7):
                with pytest.raises((NoSuchLedgerError, CorruptRecordError)):
                    await client.read(start)

    run(main)


def test_a_segment_that_is_lost_under_its_reader_is_a_gap_from_there() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            await write(cluster)
            client = cluster.new_client()
            gaps: list[Gap] = []
            async with await client.logs.read(NAME, on_gap=gaps.append) as reader:
                assert [(await anext(reader)).payload for _ in range(3)] == numbered(0, 3)
                batches = reader.read_batches()  # so that the segment is opened once more
                await cluster.catalog.delete((await client.manifest()).segments[0].ledger)
                payloads = [each async for batch in batches for each in batch.payloads()]
            assert payloads == numbered(2 * ENTRIES, 2)
            assert [(each.first, each.end) for each in gaps] == [
                (Position(1, 1, 1), Position(2, 0, 0))
            ]

    run(main)


@pytest.mark.parametrize(("lost", "first"), [(1, 10), (5, 11)])
def test_a_follower_behind_a_gap_is_given_nothing_before_the_offset_it_asked_for(
    lost: int, first: int
) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            async with await client.open(batch_records=1) as log:
                await append_all(log, numbered(0, 5))
            gaps: list[Gap] = []
            reader = await client.logs.read(NAME, 10, follow=True, on_gap=gaps.append)
            reading = asyncio.create_task(anext(reader))
            await asyncio.sleep(1)  # it is at the end
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            async with await client.open(batch_records=1) as log:
                await append_all(log, numbered(5, 15))
            ledger = (await client.manifest()).segments[-1].ledger
            for bookie in cluster.bookies.values():
                bookie.ledgers[ledger].frames.pop(lost, None)
            assert (await anext(reader)).offset == first
            assert [each.first.entry for each in gaps] == [lost] * (first - 10)
            await reader.close()

    run(main)


def test_nothing_is_a_gap_in_a_segment_that_bookies_dropped_and_metadata_names() -> None:
    """The metadata store is an old copy of itself: what it names tells nothing about records."""

    async def main() -> None:
        async with LogCluster() as cluster:
            await write(cluster)
            client = cluster.new_client()
            ledger = (await client.manifest()).segments[0].ledger
            for bookie in cluster.bookies.values():
                bookie.retire(ledger)
            for start in (BEGINNING, 3, at(4), AtTxid(5)):
                with pytest.raises(StoreWentBackError):
                    await read(client, start)

    run(main)
