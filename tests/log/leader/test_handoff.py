"""A planned handoff: drained, closed and passed on by name, in a fraction of a crash's time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from quire.election.election import Election
from quire.election.leadership import Leadership
from quire.log.leader.log import Log
from tests.support.log_cluster import Client, LogCluster, append_all, eventually, numbered, run

SESSION_SECONDS = 6.0


class Candidate:
    """Leads when its turn comes, appends its name, and goes when it is told to."""

    def __init__(self, cluster: LogCluster, name: str, led: list[tuple[str, float]]) -> None:
        self.name = name
        self.client: Client = cluster.new_client()
        self.led = led
        self.end: Callable[[Log, Leadership], Awaitable[None]] | None = None
        self.go = asyncio.Event()
        rng = random.Random(name)
        self.election = Election(
            self.client.store, "e", name, rng=rng, session_timeout=SESSION_SECONDS
        )
        self.task = asyncio.create_task(self.run())

    async def run(self) -> None:
        async with self.election.lead() as leadership:
            log = await self.client.open()
            await log.append(self.name.encode())
            self.led.append((self.name, asyncio.get_running_loop().time()))
            await self.go.wait()
            assert self.end is not None
            await self.end(log, leadership)


async def stand(cluster: LogCluster, led: list[tuple[str, float]]) -> list[Candidate]:
    candidates = []
    for name in ("alice", "bob", "carol"):
        candidates.append(Candidate(cluster, name, led))
        await asyncio.sleep(0.5)
    await eventually(lambda: bool(led))
    return candidates


@pytest.mark.parametrize("named", ["bob", "carol"])
def test_the_named_successor_leads_next_and_soon_and_loses_nothing(named: str) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            led: list[tuple[str, float]] = []
            candidates = await stand(cluster, led)
            appended: list[object] = []

            async def end(log: Log, leadership: Leadership) -> None:
                futures = [await log.submit(record) for record in numbered(0, 50)]
                assert await leadership.hand_over(named)
                await log.close()
                appended.extend([await future for future in futures])
                assert (await cluster.check()).open_segments == (), "nothing is left to recover"

            candidates[0].end = end
            started = asyncio.get_running_loop().time()
            candidates[0].go.set()
            await candidates[0].task
            await eventually(lambda: len(led) == 2)
            assert led[1][0] == named
            assert led[1][1] - started < SESSION_SECONDS / 20
            assert len(appended) == 50
            await asyncio.sleep(20)
            assert len(led) == 2, "the first in the queue does not depose the one that was named"
            for candidate in candidates[1:]:
                candidate.task.cancel()
            await asyncio.gather(*(each.task for each in candidates), return_exceptions=True)

    run(main)


def test_whoever_comes_after_the_named_one_is_the_first_in_the_queue() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            led: list[tuple[str, float]] = []
            candidates = await stand(cluster, led)

            async def to_carol(log: Log, leadership: Leadership) -> None:
                assert not await leadership.hand_over("nobody")
                assert await leadership.hand_over("carol")
                await log.close()

            async def to_anybody(log: Log, leadership: Leadership) -> None:
                assert await leadership.hand_over()
                await log.close()

            alice, bob, carol = candidates
            alice.end, carol.end, bob.end = to_carol, to_anybody, to_carol
            alice.go.set()
            await eventually(lambda: len(led) == 2)
            carol.go.set()
            await eventually(lambda: len(led) == 3)
            assert [name for name, _ in led] == ["alice", "carol", "bob"]
            records = await bob.client.read()
            assert [each.epoch for each in records] == sorted(each.epoch for each in records)
            bob.task.cancel()
            await asyncio.gather(*(each.task for each in candidates), return_exceptions=True)

    run(main)


def test_a_successor_that_died_meanwhile_is_passed_over() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            led: list[tuple[str, float]] = []
            alice, bob, carol = await stand(cluster, led)

            async def end(log: Log, leadership: Leadership) -> None:
                assert await leadership.hand_over("carol")
                carol.task.cancel()
                await asyncio.gather(carol.task, return_exceptions=True)
                await append_all(log, [b"last"])
                await log.close()

            alice.end = end
            alice.go.set()
            await eventually(lambda: len(led) == 2)
            assert led[1][0] == "bob"
            bob.task.cancel()
            await asyncio.gather(alice.task, bob.task, return_exceptions=True)

    run(main)
