"""Single steps of a take-over: what it recovers, asks before each attempt, and leaves in doubt."""

from __future__ import annotations

import asyncio

import pytest

from quire.errors import LeadershipLostError, StoreOutcomeUnknownError, StoreUnavailableError
from quire.log.maintenance.orphans import Labels
from quire.log.manifest.options import LogOptions
from quire.metastore.layout import LEDGERS
from tests.support.log_cluster import NAME, PATH, Gate, LogCluster, append_all, numbered, run


def test_two_open_segments_are_recovered_with_the_records_of_both() -> None:
    """The leader died between a roll and the seal of what it left: offsets go on over both."""

    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open()
            await append_all(log, numbered(0, 3))
            sealing = Gate("put", LEDGERS)
            client.store.before = sealing
            rolling = asyncio.ensure_future(log.roll())
            await sealing.reached.wait()
            await append_all(log, numbered(3, 2))
            assert len((await cluster.new_client().manifest()).open_segments) == 2
            log.abandon()
            await asyncio.gather(rolling, return_exceptions=True)
            other = await cluster.new_client().open()
            manifest = await cluster.check()
            ends = [(each.first_offset, each.records) for each in manifest.segments[:2]]
            assert ends == [(0, 3), (3, 2)]
            await other.append(b"5")
            await other.close()
            records = await cluster.new_client().read()
            assert [(each.offset, each.payload) for each in records] == list(
                enumerate(numbered(0, 6))
            )

    run(main)


def test_whether_it_still_leads_is_asked_before_each_attempt() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            asked = 0

            def is_leader() -> bool:
                nonlocal asked
                asked += 1
                return asked < 3

            async def refuse_twice(method: str, path: str) -> None:
                if asked < 3 and method == "create" and path.startswith(LEDGERS):
                    raise StoreUnavailableError("faulty:", "refused by order of the test")

            client.store.before = refuse_twice
            options = LogOptions(open_timeout=20.0)
            with pytest.raises(LeadershipLostError):
                await client.logs.open(NAME, options, is_leader=is_leader)
            assert asked == 3
            assert await cluster.ledgers() == []

    run(main)


def test_the_ledger_of_a_creation_that_may_yet_arrive_stays() -> None:
    """The creation of the log is lost on its way, and the log cannot be told from a deleted one.
    Should the creation arrive after all, it lists that ledger.
    """

    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            lost: list[str] = []

            async def lose_the_first(method: str, path: str) -> None:
                if path == PATH and method == "commit" and not lost:
                    lost.append(path)
                    raise StoreOutcomeUnknownError(path, "on its way, by order of the test")

            client.store.before = lose_the_first
            log = await client.open()
            await log.append(b"0")
            await log.close()
            manifest = await client.manifest()
            [left] = [each for each in await cluster.ledgers() if not manifest.lists(each)]
            labels = Labels.of((await cluster.catalog.metadata(left)).custom_metadata)
            assert labels is not None
            assert labels.log_id != manifest.log_id
            assert lost

    run(main)
