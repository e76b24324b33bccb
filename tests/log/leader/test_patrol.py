"""The patrol: leaders at rest learn of other leaders, of options, and of ledgers that are gone."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from math import inf

import pytest

from quire.errors import DeposedError, QuireError
from quire.log.leader.log import Log
from quire.log.leader.patrol import ROUND_SECONDS, Patrol
from quire.log.manifest.options import LogOptions
from tests.support.log_cluster import (
    NAME,
    LogCluster,
    append_all,
    numbered,
    refuse,
    run,
)
from tests.support.resting_logs import REST, open_log, rest, rests


class Asleep:
    """Port `Sleeper`: it saw a record that was never there."""

    _due_at = inf

    def __init__(self) -> None:
        self.roused = 0

    def _views(self) -> dict[str, int | None]:
        return {f"/{id(self)}": 7}

    def _rouse(self) -> None:
        self.roused += 1


def test_another_leader_is_noticed_at_rest() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await open_log(cluster.new_client())
            await log.append(b"0")
            await rest(log)
            other = await open_log(cluster.new_client())
            await asyncio.sleep(2 * ROUND_SECONDS)
            assert log.is_deposed
            await other.close()

    run(main)


def test_a_store_that_is_away_wakes_no_log() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await open_log(client)
            await rest(log)
            client.store.before = refuse()
            await asyncio.sleep(5 * ROUND_SECONDS)
            assert rests(log)
            client.store.before = refuse("nothing")
            await client.logs.set_options(NAME, {"roll_entries": "2"})
            await asyncio.sleep(2 * ROUND_SECONDS)
            assert log.options.roll_entries == 2

    run(main)


def test_options_of_the_log_are_obeyed_at_rest_and_kept_over_it() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await open_log(client)
            await log.append(b"0")
            await client.logs.set_options(NAME, {"roll_entries": "2"})
            await rest(log)
            assert log.options.roll_entries == 2
            await append_all(log, numbered(1, 1))
            assert log._live.now.roll_entries == 2
            await asyncio.sleep(1)
            assert (await client.manifest()).next_segment == 3

    run(main)


def test_options_set_in_the_moment_after_a_rest_are_obeyed() -> None:
    """A leader that was just woken does not watch yet: the patrol goes on until it does."""

    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await open_log(client, rest_seconds=100.0)
            await asyncio.sleep(250)
            assert rests(log)
            await log.append(b"0")
            await client.logs.set_options(NAME, {"roll_entries": "2"})
            await asyncio.sleep(2 * ROUND_SECONDS)
            assert not rests(log)
            assert log.options.roll_entries == 2

    run(main)


def test_two_leaders_of_one_client_do_not_hide_each_other() -> None:
    """The patrol asks for a path once; of two leaders at rest one was deposed by the other."""

    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            first = await open_log(client)
            await first.append(b"0")
            await rest(first)
            second = await open_log(client, rest_seconds=1.0)
            await asyncio.sleep(3)
            await asyncio.sleep(3 * ROUND_SECONDS)
            assert first.is_deposed
            assert not second.is_deposed
            await second.append(b"1")

    run(main)


def test_many_logs_are_asked_for_together() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            options = LogOptions(rest_seconds=REST)
            logs = [await client.logs.open(f"log {number}", options) for number in range(7)]
            await asyncio.sleep(3 * REST)
            assert all(map(rests, logs))
            calls: list[str] = []

            async def note(method: str, path: str) -> None:
                calls.append(method)

            client.store.before = note
            await asyncio.sleep(ROUND_SECONDS * 4)
            assert set(calls) == {"changed"}
            assert len(calls) <= 4

    run(main)


def test_the_patrol_goes_on_when_its_last_leader_goes_and_another_comes() -> None:
    """Both in one turn: the task of the one before must not count for the next one."""

    async def main() -> None:
        async with LogCluster() as cluster:
            patrol = Patrol(cluster.store)
            one, two = Asleep(), Asleep()
            for _ in range(3):
                patrol.watch("/one", one)
                await asyncio.sleep(0)
                patrol.forget("/one", one)
                patrol.watch("/two", two)
                await asyncio.sleep(ROUND_SECONDS + 1)
                assert two.roused
                patrol.forget("/two", two)
                two.roused = 0

    run(main)


def test_a_defect_of_one_leader_does_not_end_the_patrol() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            patrol = Patrol(cluster.store)
            defect, other = Asleep(), Asleep()
            defect._rouse = lambda: 1 / 0  # type: ignore[assignment, method-assign]
            patrol.watch("/a", defect)
            patrol.watch("/b", other)
            await asyncio.sleep(ROUND_SECONDS + 1)
            patrol.forget("/a", defect)
            await asyncio.sleep(2 * ROUND_SECONDS)
            assert other.roused
            patrol.forget("/b", other)

    run(main)


def test_ledgers_that_another_client_could_not_delete_are_deleted() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client, other = cluster.new_client(), cluster.new_client()
            log = await open_log(client, retention_interval=30.0)
            await log.append(b"0")
            await log.roll()
            position = (await log.append(b"1")).position
            other.store.before = refuse("delete", "commit")
            with suppress(QuireError):
                await other.logs.trim(NAME, position)
            assert (await client.manifest()).doomed
            await asyncio.sleep(90)
            assert not (await client.manifest()).doomed
            assert rests(log)

    run(main)


async def delete_the_ledger(cluster: LogCluster) -> None:
    (ledger,) = await cluster.ledgers()
    await cluster.catalog.delete(ledger)


def test_a_ledger_that_is_deleted_during_a_rest_ends_the_log() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await open_log(cluster.new_client())
            await log.append(b"0")
            await rest(log)
            await delete_the_ledger(cluster)
            await asyncio.sleep(ROUND_SECONDS + 1)
            with pytest.raises(DeposedError, match="deleted its ledger"):
                await log.append(b"1")

    run(main)


async def write_on(log: Log) -> None:
    for _ in range(int(4 * ROUND_SECONDS)):
        await log.append(b"1")
        await asyncio.sleep(0.5)


@pytest.mark.parametrize("in_use", [0.5, 25.0])
def test_a_ledger_that_is_deleted_after_a_rest_ends_the_log(in_use: float) -> None:
    """Also when the log stays in use: its ledger is watched again."""

    async def main() -> None:
        async with LogCluster() as cluster:
            log = await open_log(cluster.new_client())
            await log.append(b"0")
            await rest(log)
            for _ in range(int(in_use / 0.5)):
                await log.append(b"x")
                await asyncio.sleep(0.5)
            await delete_the_ledger(cluster)
            with pytest.raises(DeposedError, match="deleted its ledger"):
                await write_on(log)

    run(main)


def test_a_log_whose_ledger_was_guarded_rests_all_night() -> None:
    """The creation of the log moved the version of the ledger's record: that is no news."""

    async def main() -> None:
        async with LogCluster() as cluster:
            log = await open_log(cluster.new_client())
            await log.append(b"0")
            await rest(log)
            for _ in range(8):
                await asyncio.sleep(ROUND_SECONDS / 2)
                assert rests(log)

    run(main)


def test_a_defect_of_the_store_does_not_end_the_patrol() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            patrol, sleeper = Patrol(client.store), Asleep()

            async def fail(method: str, path: str) -> None:
                raise ValueError("by order of the test")

            client.store.before = fail
            patrol.watch("/a", sleeper)
            await asyncio.sleep(3 * ROUND_SECONDS)
            before = sleeper.roused
            client.store.before = refuse("nothing")
            await asyncio.sleep(2 * ROUND_SECONDS)
            assert (before, bool(sleeper.roused)) == (0, True)
            patrol.forget("/a", sleeper)

    run(main)
