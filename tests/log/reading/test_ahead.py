"""Segments opened ahead: waits overlap, bounds hold, and an error ahead is met in its turn."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from quire.errors import HandleClosedError, PositionTrimmedError, StoreUnavailableError
from quire.log.reading.ahead import MOST
from quire.log.reading.reader import LogReader
from quire.log.records.position import BEGINNING
from quire.metastore.layout import LEDGERS
from tests.support.log_cluster import NAME, Client, LogCluster, numbered, run

SECONDS: Final = 1.0
"""What a question for a ledger takes in these tests, in virtual time."""


class Slow:
    """A hook that makes each question for a ledger slow, and counts those under way."""

    def __init__(self) -> None:
        self.asked = self.under_way = self.most = 0
        self.refused: set[int] = set()

    async def __call__(self, method: str, path: str) -> None:
        if method != "get" or not path.startswith(LEDGERS):
            return
        self.asked, self.under_way = self.asked + 1, self.under_way + 1
        number, self.most = self.asked, max(self.most, self.under_way)
        try:
            await asyncio.sleep(SECONDS)
        finally:
            self.under_way -= 1
        if number in self.refused:
            raise StoreUnavailableError("slow:", "refused by order of the test")


async def segments(cluster: LogCluster, count: int, size: int = 1) -> list[bytes]:
    """Write a sealed log with one record of `size` bytes in each segment."""
    payloads = [b"%0*d" % (size, number) for number in range(count)]
    log = await cluster.new_client().open()
    for number, payload in enumerate(payloads):
        if number:
            await log.roll()
        await log.append(payload)
    await log.close()
    return payloads


async def read_on(reader: LogReader, seen: list[bytes]) -> None:
    while True:
        seen.append((await anext(reader)).payload)


def slow(cluster: LogCluster) -> tuple[Client, Slow]:
    client = cluster.new_client()
    client.store.before = hook = Slow()
    return client, hook


def test_small_segments_are_opened_at_the_same_time() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            expected = await segments(cluster, 3 * MOST)
            client, hook = slow(cluster)
            loop = asyncio.get_running_loop()
            begun = loop.time()
            assert await client.payloads() == expected
            assert loop.time() - begun < SECONDS * len(expected) / 4
            assert 1 < hook.most <= MOST + 1
            assert hook.asked == len(expected)

    run(main)


def test_one_segment_opens_no_other() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            await segments(cluster, MOST)
            client, hook = slow(cluster)
            async with await client.logs.read(NAME, BEGINNING) as reader:
                assert (await anext(reader)).payload == b"0"
            assert hook.asked == 1

    run(main)


def test_large_segments_are_not_held_in_memory() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            expected = await segments(cluster, 6, size=600_000)
            client, hook = slow(cluster)
            assert await client.payloads() == expected
            assert hook.most == 1

    run(main)


def test_an_error_ahead_is_met_with_the_patience_of_the_reader() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            expected = await segments(cluster, MOST)
            client, hook = slow(cluster)
            hook.refused = {3, 4, 7}
            assert await client.payloads() == expected
            assert hook.asked == len(expected) + 3

    run(main)


def test_a_segment_ahead_that_is_trimmed_away_is_not_passed_in_silence() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            await segments(cluster, 3 * MOST)
            client, _ = slow(cluster)
            writer = cluster.new_client()
            async with await client.logs.read(NAME, BEGINNING) as reader:
                seen = [(await anext(reader)).payload for _ in range(3)]
                log = await writer.open()
                await log.trim((await log.append(b"last")).position)
                await log.close()
                with pytest.raises(PositionTrimmedError):
                    await read_on(reader, seen)
            assert seen == numbered(0, len(seen))

    run(main)


def test_a_reader_that_is_closed_leaves_nothing_under_way() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            await segments(cluster, MOST)
            client, hook = slow(cluster)
            async with await client.logs.read(NAME, BEGINNING) as reader:
                await anext(reader)
                reading = asyncio.create_task(anext(reader))
                await asyncio.sleep(SECONDS / 2)
                assert hook.under_way > 1
                await reader.close()
                assert hook.under_way == 0
                with pytest.raises(HandleClosedError):
                    await reading

    run(main)
