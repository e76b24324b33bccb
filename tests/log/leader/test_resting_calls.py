"""A leader's handle at rest: every call finds a whole log, also at the end of the handle."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from quire.errors import DeposedError, HandleClosedError, QuireError
from quire.log.leader.log import Log
from quire.log.records.producers import ProducerSequence
from tests.support.log_cluster import (
    LogCluster,
    append_all,
    numbered,
    refuse,
    run,
)
from tests.support.memory_cluster import hung
from tests.support.resting_logs import REST, log_task, open_log, rest, rests


def test_a_caller_that_waits_for_the_end_keeps_it_awake() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await open_log(cluster.new_client())
            waiting = asyncio.create_task(log.wait_deposed())
            await asyncio.sleep(5 * REST)
            assert not rests(log)
            await (await open_log(cluster.new_client())).close()
            await asyncio.wait_for(waiting, 1)
            assert log.is_deposed

    run(main)


async def append(log: Log) -> None:
    await log.append(b"more")


async def append_many(log: Log) -> None:
    await log.append_many([b"more", b"still"])


async def drain(log: Log) -> None:
    await log.drain()


async def roll(log: Log) -> None:
    await log.roll()


async def trim(log: Log) -> None:
    await log.trim((await log.append(b"more")).position)


async def close(log: Log) -> None:
    await log.close()


async def seal(log: Log) -> None:
    await log.seal()


CALLS = [append, append_many, drain, roll, trim, close, seal]


@pytest.mark.parametrize("call", CALLS, ids=lambda each: each.__name__)
def test_every_call_finds_a_whole_log(call: Callable[[Log], Awaitable[None]]) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await open_log(cluster.new_client())
            await append_all(log, numbered(0, 3))
            await rest(log)
            await call(log)
            await log.close()
            await cluster.check_all_listed()

    run(main)


@pytest.mark.parametrize("call", CALLS, ids=lambda each: each.__name__)
def test_every_call_after_a_rest_meets_the_next_leader(
    call: Callable[[Log], Awaitable[None]],
) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await open_log(cluster.new_client())
            await append_all(log, numbered(0, 3))
            await rest(log)
            other = await open_log(cluster.new_client())
            if call in (close, drain):
                await call(log)
            else:
                with pytest.raises(DeposedError):
                    await call(log)
            await other.append(b"3")
            await other.close()
            assert await cluster.new_client().payloads() == numbered(0, 4)

    run(main)


def test_a_log_that_is_left_at_rest_leaves_nothing() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await open_log(cluster.new_client())
            await log.append(b"0")
            await rest(log)
            others = asyncio.all_tasks() - {log_task(name="patrol of resting logs")}
            log.abandon()
            await asyncio.sleep(0)
            assert asyncio.all_tasks() == others
            with pytest.raises(QuireError):
                await log.append(b"1")
            with pytest.raises(QuireError):
                await log.roll()
            await asyncio.sleep(1)
            assert asyncio.all_tasks() == others
            await log.close()
            other = await open_log(cluster.new_client())
            await other.close()
            assert await cluster.new_client().payloads() == [b"0"]

    run(main)


def test_a_closed_log_says_so_after_a_rest() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await open_log(cluster.new_client())
            await log.append(b"0")
            await rest(log)
            await log.close()
            with pytest.raises(HandleClosedError):
                await log.append(b"1")
            with pytest.raises(AttributeError, match="_chian"):
                _ = log._chian

    run(main)


def test_a_repeated_append_that_meets_the_next_leader_ends_the_handle() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await open_log(cluster.new_client())
            stamp = ProducerSequence("till", 1)
            await log.append(b"0", producer_sequence=stamp)
            await rest(log)
            await open_log(cluster.new_client())
            with pytest.raises(DeposedError):
                await log.append(b"0", producer_sequence=stamp)
            assert log.is_deposed

    run(main)


def test_a_call_that_looks_for_an_original_keeps_the_log_awake() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await open_log(cluster.new_client(), rest_seconds=0.2)
            stamp = ProducerSequence("till", 1)
            await log.append(b"0", producer_sequence=stamp)
            await asyncio.sleep(2)
            assert rests(log)
            for bookie in cluster.bookies.values():
                bookie.before = hung("read")
            call = asyncio.create_task(log.append(b"0", producer_sequence=stamp))
            for _ in range(8):
                await asyncio.sleep(0.1)
                assert not rests(log)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)

    run(main)


def test_an_abandoned_log_is_closed_without_waking() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await open_log(cluster.new_client())
            await rest(log)
            log.abandon()
            await log.close()
            assert rests(log)

    run(main)


def test_a_log_that_is_closing_starts_nothing_new() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await open_log(client, rest_seconds=1.0)
            await log.append(b"0")
            await asyncio.sleep(5)
            assert rests(log)
            client.store.before = refuse()
            closing = asyncio.create_task(log.close())
            await asyncio.sleep(5)
            names = {each.get_name() for each in asyncio.all_tasks()}
            assert not any(name.endswith(("watcher", "keeper")) for name in names)
            client.store.before = refuse("nothing")
            await closing

    run(main)


def test_a_caller_that_begins_to_wait_for_the_end_wakes_the_log() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await open_log(cluster.new_client())
            await rest(log)
            waiting = asyncio.create_task(log.wait_deposed())
            await asyncio.sleep(0)
            assert not rests(log)
            await open_log(cluster.new_client())
            await asyncio.wait_for(waiting, 0.5)

    run(main)
