"""Leaders and candidates that die at any step: the next one finds one history."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from quire.log.leader.log import Log
from quire.metastore.layout import LEDGERS
from tests.support.log_cluster import Client, Gate, LogCluster, append_all, numbered, run

STORE_CALLS_MAX = 60
"""More than any scenario here makes, so that the enumerations below come to their end."""


class Crash:
    """Stops a client at its n-th store call: before it takes effect, or before it is answered."""

    def __init__(self, client: Client, number: int, *, after: bool) -> None:
        self.left = number
        self.reached = asyncio.Event()
        if after:
            client.store.after = self
        else:
            client.store.before = self

    async def __call__(self, method: str, path: str) -> None:
        self.left -= 1
        if self.left < 0:
            self.reached.set()
            await asyncio.Event().wait()


async def until_crash(crash: Crash, work: Awaitable[object]) -> bool:
    """Do the work until it is done (False) or the crash point is reached (True); then kill it."""
    task = asyncio.ensure_future(work)
    reached = asyncio.ensure_future(crash.reached.wait())
    await asyncio.wait([task, reached], return_when=asyncio.FIRST_COMPLETED)
    crashed = not task.done()
    for each in (task, reached):
        each.cancel()
        await asyncio.gather(each, return_exceptions=True)
    return crashed


async def successors_agree(cluster: LogCluster, acked: list[bytes], offered: list[bytes]) -> None:
    """A new leader takes over; what was acked is there, once, in order, and nothing foreign."""
    async with await cluster.new_client().open() as log:
        await log.append(b"successor")
    records = await cluster.new_client().read()
    payloads = [each.payload for each in records]
    assert payloads.pop() == b"successor"
    assert payloads[: len(acked)] == acked
    assert payloads == offered[: len(payloads)]
    assert [each.offset for each in records] == list(range(len(records)))
    assert [each.epoch for each in records] == sorted(each.epoch for each in records)
    await cluster.check()


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_candidate_that_dies_at_any_step_harms_nobody(after: bool) -> None:
    async def attempt(number: int) -> bool:
        async with LogCluster() as cluster:
            first = await cluster.new_client().open()
            await append_all(first, numbered(0, 3))
            first.abandon()
            candidate = cluster.new_client()
            crash = Crash(candidate, number, after=after)
            crashed = await until_crash(crash, candidate.open())
            await successors_agree(cluster, numbered(0, 3), numbered(0, 3))
            return crashed

    async def main() -> None:
        for number in range(STORE_CALLS_MAX):
            if not await attempt(number):
                assert number > 4, "the take-over made no calls to crash at"
                return
        raise AssertionError("the take-over never came to its end")

    run(main)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_leader_that_dies_at_any_step_of_a_roll_loses_nothing_acked(after: bool) -> None:
    async def scenario(log: Log, acked: list[bytes]) -> None:
        for start in range(0, 40, 4):
            futures = [await log.submit(record) for record in numbered(start, 4)]
            for record, future in zip(numbered(start, 4), futures, strict=True):
                await future
                acked.append(record)
            if start % 8 == 0:
                await log.roll()

    async def attempt(number: int) -> bool:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open(batch_records=2)
            crash = Crash(client, number, after=after)
            acked: list[bytes] = []
            crashed = await until_crash(crash, scenario(log, acked))
            log.abandon()
            await successors_agree(cluster, acked, numbered(0, 40))
            return crashed

    async def main() -> None:
        for number in range(STORE_CALLS_MAX):
            if not await attempt(number):
                assert number > 10, "the rolls made no calls to crash at"
                return
        raise AssertionError("the rolls never came to their end")

    run(main)


def test_the_last_two_segments_are_recovered_when_a_leader_dies_in_the_middle_of_a_roll() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open()
            await append_all(log, numbered(0, 3))
            client.store.before = Gate("put", LEDGERS)  # closing the previous ledger hangs
            roll = asyncio.create_task(log.roll())
            segments = [(await log.append(b"3")).position.segment for _ in range(50)]
            assert segments[-1] == 2
            assert len((await cluster.check()).open_segments) == 2
            log.abandon()
            await asyncio.gather(roll, return_exceptions=True)
            async with await cluster.new_client().open():
                manifest = await cluster.check()
                assert len(manifest.open_segments) == 1
                assert manifest.segments[1].first_offset == manifest.segments[0].records
            records = await cluster.new_client().read()
            assert [each.offset for each in records] == list(range(len(records)))
            assert [each.payload for each in records][:3] == numbered(0, 3)

    run(main)
