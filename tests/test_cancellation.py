"""Whoever is told to stop stops, wherever it is: at each of its waits, one after the other.

A process is told to stop by cancelling its main task. A wait that swallowed that would let it go on
for ever; one that left something half done behind would let somebody else wait for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeAlias

import pytest

from quire import admin
from quire.errors import LeadershipLostError, OutcomeUnknownError, QuireError
from quire.log.records.position import LATEST
from quire.service import Role
from tests.log.parts import ingest, write_part
from tests.service.replicas import Replica
from tests.support.interrupted import at_wait, cancelled_at
from tests.support.log_cluster import NAME, PATH, LogCluster, numbered, run, whole_client
from tests.support.seeds import TURNS, in_turns
from tutorial.dice import Player

Work: TypeAlias = Callable[[LogCluster, list[bytes]], Coroutine[Any, Any, None]]
"""It says which records of the log were acknowledged."""

END_SECONDS: Final = 60.0
"""Virtual ones: what is told to stop may wait for answers, each of which has its own limit."""

WAITS_MAX: Final = 250
"""Of work that never ends by itself: two lives of it, or more."""


async def two_ledgers(cluster: LogCluster, acked: list[bytes]) -> None:
    """One that is closed, and one that is left open, recovered and deleted."""
    client = whole_client(cluster)
    async with await client.create_ledger() as writer:
        for number in range(3):
            await writer.append(b"%d" % number)
    left = await client.create_ledger()
    await left.append(b"left open")
    async with await client.open_ledger_without_recovery(left.ledger) as reader:
        await reader.last_confirmed()
    async with await client.open_ledger(left.ledger) as reader:
        assert [entry.payload async for entry in reader.read(0)] == [b"left open"]
    await client.ledger_inventory(left.ledger)
    await client.delete_ledger(left.ledger)
    await client.close()


async def two_lives_of_a_log(cluster: LogCluster, acked: list[bytes]) -> None:
    client = whole_client(cluster)
    for life in range(2):
        async with await client.open_log(NAME) as log:
            for number in range(3):
                record = b"%d.%d" % (life, number)
                await log.append(record)
                acked.append(record)
                await log.roll()
        async with await client.read_log(NAME) as reader:
            assert [record.payload async for record in reader] == acked
        await client.log_end(NAME, linearizable=True)
    acked.clear()
    await client.trim_log(NAME, LATEST)
    await client.delete_log(NAME)


async def two_jobs(cluster: LogCluster, acked: list[bytes]) -> None:
    """Parts that a log adopts, and those of a job that is given up."""
    client = cluster.new_client()
    for sequence in range(2):
        first = 100 * sequence
        parts = [await write_part(client, "job", first + at, 3) for at in (0, 3)]
        await ingest(client, parts, sequence=sequence)
        acked += numbered(first, 6)
    await write_part(client, "given up", 900, 3)
    await client.logs.ingest(NAME).drop("given up")


async def a_lost_manifest(cluster: LogCluster, acked: list[bytes]) -> None:
    client = whole_client(cluster)
    async with await client.open_log(NAME) as log:
        await log.append(b"before")
    cursor = await client.log_cursors(NAME).open("cursor")
    await cursor.advance(1)
    await cluster.store.delete(PATH)
    await admin.rebuild(client, NAME)
    acked.append(b"before")
    assert await cursor.lag() == 0


async def a_player(cluster: LogCluster, acked: list[bytes]) -> None:
    """Follows another player, is elected when that one stops, and leads."""
    other = asyncio.create_task(Player(whole_client(cluster), "other", 0.2).play())
    asyncio.get_running_loop().call_later(1.0, other.cancel)
    try:
        await Player(whole_client(cluster), "this", 0.2).play()
    finally:
        other.cancel()
        await asyncio.wait([other])


async def go_on(cluster: LogCluster, acked: list[bytes]) -> None:
    """Take the log over, find everything that was acknowledged, and leave nothing else behind."""
    client = cluster.new_client()
    for _ in range(2):  # a ledger that was never listed is an orphan when a later epoch has begun
        async with await client.open() as log:
            await log.append(b"next")
    assert (await client.payloads())[: len(acked)] == acked
    for job in ("job", "given up"):
        await client.logs.ingest(NAME).drop(job)
    await client.logs.gc()
    await cluster.check_all_listed()


def stops_in_time(work: Work, wait: int) -> bool:
    """Cancel some work at its n-th wait; False when it was over before that."""
    outcome: list[bool] = []

    async def main() -> None:
        acked: list[bytes] = []
        async with LogCluster() as cluster:
            task = asyncio.create_task(cancelled_at(wait, work(cluster, acked)))
            await asyncio.wait([task], timeout=END_SECONDS)
            assert task.done(), f"cancelled at its wait {wait}, it goes on"
            if not task.cancelled():
                task.result()
            outcome.append(task.cancelled())
            if acked:
                await go_on(cluster, acked)

    run(main)
    return outcome[0]


@pytest.mark.parametrize(
    "work", [two_ledgers, two_lives_of_a_log, two_jobs, a_lost_manifest, a_player]
)
@in_turns
def test_whoever_is_cancelled_ends(work: Work, turn: int) -> None:
    wait = turn
    while wait <= WAITS_MAX and stops_in_time(work, wait):
        wait += TURNS
    assert wait > 30


def close(service: Any, ended: asyncio.Event) -> None:
    ended.set()


def cancel(service: Any, ended: asyncio.Event) -> None:
    ended.set()
    service._main.cancel()


@pytest.mark.parametrize("end", [close, cancel])
@in_turns
def test_a_service_that_ends_lets_nobody_wait(
    end: Callable[[Any, asyncio.Event], None], turn: int
) -> None:
    """Submitters, and who hands over, at whatever its own task waits for."""

    async def main(wait: int) -> None:
        async with LogCluster() as cluster:
            service: Any = Replica(cluster, "replica", snapshot_records=3).service
            ended = asyncio.Event()
            live = service._live
            service._live = lambda: at_wait(wait, lambda: end(service, ended), live())
            users: list[asyncio.Task[None]] = []

            async def submit() -> None:
                with suppress(LeadershipLostError, OutcomeUnknownError):
                    await service.submit(b"command")

            async def use() -> None:
                while not ended.is_set():
                    with suppress(QuireError):
                        await service.wait_role(Role.LEADER)
                        users.extend(asyncio.create_task(submit()) for _ in range(5))
                        await asyncio.sleep(0)
                        await service.hand_over()
                    await asyncio.sleep(0.05)

            users.append(asyncio.create_task(use()))
            async with asyncio.timeout(END_SECONDS), service:
                await ended.wait()
            _, waiting = await asyncio.wait(users, timeout=END_SECONDS)
            assert not waiting, f"ended at its wait {wait}: {waiting}"
            for user in users:
                user.result()

    for wait in range(turn, WAITS_MAX, TURNS):
        run(partial(main, wait))
