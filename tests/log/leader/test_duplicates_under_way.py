"""A stamped append that is sent again while the first is on its way shares what becomes of it."""

from __future__ import annotations

import asyncio

import pytest

from quire.errors import AppendOutcomeUnknownError, DeposedError, PositionTrimmedError
from quire.log.leader.log import Log
from quire.log.records.position import Position
from quire.log.records.producers import ProducerSequence
from tests.support.log_cluster import NAME, PATH, Gate, LogCluster, refuse, run

ONE = ProducerSequence("p", 1)


async def slow_log(cluster: LogCluster, delay: float = 0.5) -> Log:
    async def slow_adds(method: str, ledger: int) -> None:
        if method == "add":
            await asyncio.sleep(delay)

    log = await cluster.new_client().open()
    await log.append(b"first")
    await asyncio.sleep(0.1)
    for bookie in cluster.bookies.values():
        bookie.before = slow_adds
    return log


def test_who_gives_up_takes_nothing_from_who_sent_it_again() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await slow_log(cluster)
            first, again = (
                asyncio.create_task(log.append(b"x", producer_sequence=ONE)) for _ in range(2)
            )
            await asyncio.sleep(0.1)
            first.cancel()
            assert await again == (Position(1, 1, 0), 1)
            await log.close()
            assert await cluster.new_client().payloads() == [b"first", b"x"]

    run(main)


@pytest.mark.parametrize("delay", [0.5, 0.9])
def test_who_sends_again_after_a_time_limit_gets_the_first_ones_position(delay: float) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await slow_log(cluster, delay)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await log.append(b"x", producer_sequence=ONE)
            assert await log.append(b"x", producer_sequence=ONE) == (Position(1, 1, 0), 1)
            assert await log.append_many([b"x"], producer_sequence=ONE) == [(Position(1, 1, 0), 1)]
            await log.close()

    run(main)


def test_all_who_share_an_append_hear_that_its_outcome_is_unknown() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await slow_log(cluster)
            waiting = [
                asyncio.create_task(log.append(b"x", producer_sequence=ONE)) for _ in range(3)
            ]
            await asyncio.sleep(0.1)
            waiting[0].cancel()
            log.abandon()
            told = await asyncio.gather(*waiting, return_exceptions=True)
            assert [type(each) for each in told] == [
                asyncio.CancelledError,
                AppendOutcomeUnknownError,
                AppendOutcomeUnknownError,
            ]
            assert told[1] is not told[2], "who adds to his error adds to no other's"

    run(main)


def test_all_who_share_an_append_have_positions_of_their_own() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await slow_log(cluster)
            first, again = await asyncio.gather(
                *(log.append_many([b"x", b"y"], producer_sequence=ONE) for _ in range(2))
            )
            first.clear()
            assert again == [(Position(1, 1, 0), 1), (Position(1, 1, 1), 2)]
            await log.close()

    run(main)


def test_no_duplicate_is_looked_up_in_another_log_of_the_name() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            old = await client.open()
            await old.append(b"x", producer_sequence=ONE)
            await asyncio.sleep(0.1)
            client.store.before = watcher = Gate("get", PATH)  # is not told what has happened
            other = cluster.new_client()
            await other.logs.delete(NAME)
            await watcher.reached.wait()
            client.store.before = refuse("nothing")
            async with await other.open() as log:
                await log.append(b"y")
                with pytest.raises(DeposedError):
                    await old.append(b"x", producer_sequence=ONE)
            old.abandon()

    run(main)


def test_a_duplicate_whose_original_was_trimmed_is_told_so() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open()
            await log.append(b"x", producer_sequence=ONE)
            await log.roll()
            await client.logs.trim(NAME, Position(2, 0, 0))
            with pytest.raises(PositionTrimmedError):
                await log.append(b"x", producer_sequence=ONE)
            await log.close()

    run(main)
