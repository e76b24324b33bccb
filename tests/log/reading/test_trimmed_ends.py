"""Positions after the last trimmed record: nothing was missed there, however they are written.

A leader fills segment 1, begins segment 2 and dies before it seals the first. So segment 1 has no
end in the manifest, and a trim to the start of segment 2 cannot say where its last record was.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from quire.errors import PositionTrimmedError, StoreUnavailableError
from quire.log.leader.log import Log
from quire.log.manifest.manifest import LogManifest
from quire.log.reading.reader import LogReader
from quire.log.records.position import AtCursor, Position
from tests.support.log_cluster import (
    NAME,
    PATH,
    Client,
    LogCluster,
    append_all,
    numbered,
    refuse,
    run,
)

ENDS = [Position(1, 1, 1), Position(1, 2, 0), Position(2, 0, 0)]
"""How a position after the second of two single records can be written."""


async def begin(client: Client) -> Log:
    log = await client.open(batch_records=1)
    await append_all(log, numbered(0, 2))
    return log


async def die_in_a_roll(client: Client, log: Log) -> None:
    """Close the ledger of segment 1, with segment 2 begun, and never seal the segment."""
    await log._chain.install_successor(1)
    log._chain.switch()
    client.store.before = refuse("put", path=PATH)
    with pytest.raises(StoreUnavailableError):
        await log._chain.seal_previous()
    log.abandon()


async def read_on(reader: LogReader, count: int) -> list[bytes]:
    return [(await anext(reader)).payload for _ in range(count)]


async def check_ends(client: Client, ends: list[Position], left: list[bytes]) -> None:
    there: list[Position | int] = [*ends, 2]
    for end in there:
        await client.logs.check_left(NAME, end)
        assert await client.payloads(end) == left, end
    gone: list[Position | int] = [Position(1, 1, 0), 0, 1]
    for removed in gone:
        for refused in (client.read(removed), client.logs.check_left(NAME, removed)):
            with pytest.raises(PositionTrimmedError):
                await refused
    assert await client.payloads(AtCursor("done")) == left  # type: ignore[arg-type]
    cursor = await client.logs.cursors(NAME).find("done")
    assert await cursor.lag() == len(left)


def test_a_trim_to_the_next_segment_takes_nothing_from_who_read_all() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            await die_in_a_roll(client, await begin(client))
            other = cluster.new_client()
            await other.logs.cursors(NAME).open("done", ENDS[1])
            async with await other.logs.read(NAME, follow=True) as reader:
                assert await read_on(reader, 2) == numbered(0, 2)
                await other.logs.trim(NAME, ENDS[2])
                assert (await other.manifest()).open_segments[0].number == 1, "it has no end yet"
                await check_ends(other, ENDS, [])
                heir = await other.open()
                await append_all(heir, numbered(2, 2))
                assert await read_on(reader, 2) == numbered(2, 2)
                await heir.close()
                await check_ends(other, ENDS, numbered(2, 2))
            manifest = await cluster.check_all_listed()
            assert [each.number for each in manifest.segments] == [3]
            assert manifest.trimmed_to == ENDS[0]

    run(main)


def test_segments_closed_without_a_record_do_not_count() -> None:
    """Segment 2 is of a leader that ended without a record, and the store was away then."""

    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            await (await begin(client)).close()
            await client.logs.cursors(NAME).open("done", ENDS[1])
            log = await client.open(open_timeout=1.0)
            client.store.before = refuse("put", path=PATH)
            with pytest.raises(StoreUnavailableError):
                await log.close()
            other = cluster.new_client()
            assert [each.number for each in (await other.manifest()).open_segments] == [2]
            await other.logs.trim(NAME, Position(3, 0, 0))
            await check_ends(other, [*ENDS, Position(3, 0, 0)], [])
            heir = await other.open()
            await append_all(heir, numbered(2, 2))
            await heir.close()
            await check_ends(other, [*ENDS, Position(3, 0, 0)], numbered(2, 2))
            assert (await cluster.check_all_listed()).trimmed_to == ENDS[0]

    run(main)


def test_a_reader_goes_by_its_offset_where_the_trim_point_says_less() -> None:
    """A manifest that was made again knows where the first segment left begins, and not where the
    last one before it ended. Segment 2 stayed empty and left the log.
    """

    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            await (await begin(client)).close()
            async with await client.logs.read(NAME) as done, await client.logs.read(NAME) as slow:
                assert [record.payload async for record in done] == numbered(0, 2)
                assert await read_on(slow, 1) == numbered(0, 1)
                await (await client.open()).close()
                log = await client.open()
                await client.logs.trim(NAME, Position(2, 0, 0))
                await append_all(log, numbered(2, 2))
                await log.close()

                def coarse(found: LogManifest | None) -> LogManifest:
                    assert found is not None
                    return replace(found, trimmed_to=found.segments[0].start)

                manifest = await client.logs._record(NAME).edit(coarse)
                assert done.position < manifest.trimmed_to == Position(3, 0, 0)
                assert [record.payload async for record in done] == numbered(2, 2)
                await slow.close()
            with pytest.raises(PositionTrimmedError):
                await client.read(slow.position)

    run(main)


def test_a_position_before_the_last_record_of_an_open_segment_was_trimmed() -> None:
    """And so was every position before a trim point inside the segment after that."""

    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await begin(client)
            await log._chain.install_successor(1)
            log._chain.switch()
            await append_all(log, numbered(2, 2))
            other = cluster.new_client()
            await log.trim(Position(2, 1, 0))
            assert [each.number for each in (await other.manifest()).open_segments] == [1, 2]
            gone: list[Position | int] = [Position(1, 1, 0), *ENDS, 2]
            for end in gone:
                for refused in (other.read(end), other.logs.check_left(NAME, end)):
                    with pytest.raises(PositionTrimmedError):
                        await refused
            await other.logs.check_left(NAME, 3)
            log.abandon()

    run(main)
