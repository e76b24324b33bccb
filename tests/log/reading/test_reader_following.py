"""Following a log: everything once, in order, whatever the leaders do and the store does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from quire.errors import DeposedError, LogReplacedError, NoSuchLogError, QuireError
from quire.log.records.position import BEGINNING, LATEST, Position, Record
from tests.support.faulty_store import Hook
from tests.support.log_cluster import (
    NAME,
    PATH,
    Client,
    Gate,
    LogCluster,
    append_all,
    eventually,
    numbered,
    refuse,
    run,
)
from tests.support.memory_cluster import down


@asynccontextmanager
async def following(
    client: Client, seen: list[Record], **options: object
) -> AsyncIterator[asyncio.Task[None]]:
    """Collect what a follower sees until the block is left, or the log is sealed."""

    async def follow() -> None:
        reader = await client.logs.read(NAME, follow=True, **options)  # type: ignore[arg-type]
        async with reader:
            async for record in reader:
                seen.append(record)  # noqa: PERF401 others look at it while it grows

    task = asyncio.create_task(follow())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("seed", range(6))
def test_a_follower_sees_everything_once_through_rolls_takeovers_and_trims(seed: int) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            seen: list[Record] = []
            acked: list[Position] = []
            async with following(cluster.new_client(), seen, wait_for_log=True) as task:
                for epoch in range(1, 5):
                    log = await cluster.new_client().open(roll_entries=3)
                    assert log.epoch == epoch
                    for number in range(0, 20, 4):
                        records = numbered(100 * epoch + number, 4)
                        acked += await append_all(log, records)
                        await asyncio.sleep(0.01 * seed)
                    await eventually(lambda: len(seen) == len(acked))  # noqa: B023
                    await log.trim(acked[-2])
                    if epoch % 2:
                        log.abandon()
                    else:
                        await log.close()
                await (await cluster.new_client().open()).seal()
                await task
            assert [each.position for each in seen] == acked
            assert [each.offset for each in seen] == list(range(80))
            assert [each.epoch for each in seen] == sorted(each.epoch for each in seen)
            await cluster.check()

    run(main, seed)


def test_a_record_that_only_recovery_confirmed_reaches_followers_exactly_once() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            seen: list[Record] = []
            log = await cluster.new_client().open()
            await log.append(b"0")
            async with following(cluster.new_client(), seen) as task:
                await asyncio.sleep(0.1)
                for name in ("b1", "b2"):
                    cluster.bookies[name].before = down("add")
                future = await log.submit(b"1")  # reaches b0 alone: not acked
                await asyncio.sleep(0.1)
                log.abandon()
                cluster.bookies["b1"].before = down()  # or two would say that there is nothing
                cluster.bookies["b2"].before = down("nothing")
                with pytest.raises(QuireError):
                    await future
                assert [each.payload for each in seen] == [b"0"]
                successor = await cluster.new_client().open()
                await successor.append(b"2")
                await successor.seal()
                await task
            assert [each.payload for each in seen] == [b"0", b"1", b"2"]
            assert [each.offset for each in seen] == [0, 1, 2]

    run(main)


def test_latest_sees_only_what_comes_later() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open()
            await append_all(log, numbered(0, 5))
            await asyncio.sleep(0.1)
            seen: list[Record] = []
            async with following(cluster.new_client(), seen, start=LATEST) as task:
                await asyncio.sleep(0.1)
                await append_all(log, numbered(5, 2))
                await log.seal()
                await task
            assert [each.payload for each in seen] == numbered(5, 2)

    run(main)


def test_latest_is_the_end_when_the_reader_is_made_not_when_it_is_used() -> None:
    """Who makes it, looks at something else, and then iterates, has missed nothing between."""

    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open(roll_entries=3)
            await append_all(log, numbered(0, 5))
            await asyncio.sleep(0.1)
            reader = await cluster.new_client().logs.read(NAME, LATEST)
            await append_all(log, numbered(5, 7))
            await log.seal()
            assert [each.payload async for each in reader] == numbered(5, 7)

    run(main)


def test_latest_of_a_log_that_does_not_exist_is_all_of_it() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            reading = cluster.new_client().logs.read(NAME, LATEST, follow=True, wait_for_log=True)
            reader = await reading
            async with await cluster.new_client().open() as log:
                await append_all(log, numbered(0, 3))
                await log.seal()
            assert [each.payload async for each in reader] == numbered(0, 3)
            with pytest.raises(NoSuchLogError):
                await cluster.new_client().logs.read("another", LATEST, follow=True)

    run(main)


@pytest.mark.parametrize("start", [BEGINNING, LATEST, 0])
def test_a_log_that_is_being_deleted_is_gone_and_the_next_is_waited_for(
    start: Position | int,
) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client, deleter = cluster.new_client(), cluster.new_client()
            async with await client.open() as log:
                await append_all(log, numbered(0, 3))
            made_before = await client.logs.read(NAME, follow=True, wait_for_log=True)
            dying = await client.manifest()
            deleter.store.before = gate = Gate("commit", "")
            deleting = asyncio.create_task(deleter.logs.delete(NAME))
            await gate.reached.wait()
            assert (await client.manifest()).retired
            with pytest.raises(NoSuchLogError):
                await client.logs.tail(NAME)
            for follow in (False, True):
                with pytest.raises(NoSuchLogError):
                    await client.logs.read(NAME, start, follow=follow)
            known = await client.logs.read(
                NAME, start, follow=True, wait_for_log=True, log_id=dying.log_id
            )
            with pytest.raises(NoSuchLogError):
                await anext(known)
            readers = [
                made_before,
                await client.logs.read(NAME, start, follow=True, wait_for_log=True),
            ]
            reading = [asyncio.create_task(anext(each)) for each in readers]
            await asyncio.sleep(1)
            assert not any(each.done() for each in reading)
            gate.open.set()
            await deleting
            async with await client.open() as log:
                await append_all(log, numbered(3, 3))
            assert [(await each).payload for each in reading] == [b"3", b"3"]
            with pytest.raises(LogReplacedError):
                await anext(known)
            for reader in (known, *readers):
                await reader.close()

    run(main)


def test_latest_of_a_log_that_is_deleted_meanwhile_is_all_of_the_next() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open()
            await append_all(log, numbered(0, 3))
            client.store.after = delete_when_read(cluster, client)
            reader = await client.logs.read(NAME, LATEST, follow=True, wait_for_log=True)
            async with await client.open() as log:
                await append_all(log, numbered(3, 2))
            assert (await anext(reader)).payload == b"3"
            await reader.close()

    run(main)


def delete_when_read(cluster: LogCluster, client: Client) -> Hook:
    """A hook for `after`: the log is deleted as soon as its manifest was read."""

    async def after(method: str, path: str) -> None:
        if (method, path) == ("get", PATH):
            client.store.after = cluster.new_client().store.after
            await cluster.new_client().logs.delete(NAME)

    return after


def test_latest_is_that_of_one_log() -> None:
    """A position means nothing in another log of the same name."""

    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            async with await client.open() as log:
                await append_all(log, numbered(0, 3))
            reader = await cluster.new_client().logs.read(NAME, LATEST, follow=True)
            await client.logs.delete(NAME)
            async with await client.open() as log:
                await append_all(log, numbered(3, 3))
            with pytest.raises(LogReplacedError):
                await anext(reader)

    run(main)


def test_an_offset_that_is_not_there_yet_is_waited_for() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open()
            await append_all(log, numbered(0, 3))
            seen: list[Record] = []
            async with following(cluster.new_client(), seen, start=5) as task:
                await asyncio.sleep(0.1)
                await log.append_many(numbered(3, 5))
                await log.seal()
                await task
            assert [each.offset for each in seen] == [5, 6, 7]

    run(main)


def test_a_follower_waits_out_an_outage_and_misses_nothing() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open()
            client = cluster.new_client()
            seen: list[Record] = []
            async with following(client, seen) as task:
                await log.append(b"0")
                await asyncio.sleep(0.1)
                client.store.before = refuse()
                await log.roll()
                await log.append(b"1")
                await asyncio.sleep(5)
                client.store.before = refuse("nothing")
                await log.seal()
                await task
            assert [each.payload for each in seen] == numbered(0, 2)

    run(main)


def test_a_deposed_leader_can_become_a_follower() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            old = await client.open()
            last = await old.append(b"0")
            new = await cluster.new_client().open()
            await new.append(b"1")
            with pytest.raises(DeposedError):
                await old.append(b"2")
            async with await client.logs.read(NAME, last.position.after, follow=True) as reader:
                assert (await anext(reader)).payload == b"1"
            await new.close()

    run(main)
