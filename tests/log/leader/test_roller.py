"""A ledger created ahead: there when a roll needs it, used for nothing else, left to nobody."""

from __future__ import annotations

import asyncio

import pytest

from quire.log.leader.log import Log
from quire.log.maintenance.orphans import Labels
from quire.log.records.keyring import Keyring
from quire.log.records.position import Position
from quire.metastore.layout import LEDGERS
from tests.support.log_cluster import (
    NAME,
    PATH,
    Client,
    Gate,
    LogCluster,
    lose_answer,
    numbered,
    refuse,
    run,
)

HALF, FULL = 5, 10


async def fill(log: Log, count: int, first: int = 0) -> None:
    """Append so many entries, and let the background work be done."""
    for record in numbered(first, count):
        await log.append(record)
    await asyncio.sleep(0.1)


async def spares(cluster: LogCluster, client: Client) -> list[int]:
    manifest = await client.manifest()
    return [
        each
        for each in await cluster.ledgers()
        if not manifest.lists(each) and each not in manifest.doomed
    ]


def test_the_next_ledger_is_there_before_it_is_needed() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open(roll_entries=FULL, batch_records=1)
            await fill(log, HALF - 1)
            assert await spares(cluster, client) == [], "a short log pays for none"
            await fill(log, 1, first=HALF - 1)
            [spare] = await spares(cluster, client)
            creations = Gate("create", LEDGERS)
            client.store.before = creations  # from now on no ledger can be created
            await fill(log, FULL, first=HALF)
            assert (await client.manifest()).segments[1].ledger == spare
            client.store.before = refuse("nothing")
            creations.open.set()
            await log.close()
            assert await spares(cluster, client) == []
            assert await client.payloads() == numbered(0, HALF + FULL)
            await cluster.check()

    run(main)


@pytest.mark.parametrize("how", ["crash", "deposed", "close"])
def test_a_ledger_that_is_not_needed_any_more_goes(how: str) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open(roll_entries=FULL, batch_records=1)
            await fill(log, HALF)
            [spare] = await spares(cluster, client)
            assert await client.logs.gc() == (), "its leader lives"
            if how == "close":
                await log.close()
                assert await spares(cluster, client) == []
                return
            if how == "crash":
                log.abandon()
            other = await cluster.new_client().open()
            await asyncio.sleep(1)
            if how == "crash":
                assert await spares(cluster, client) == [spare]
                assert await client.logs.gc() == (spare,)
            assert await spares(cluster, client) == []
            await other.append(b"x")
            await other.close()
            await log.close()
            await cluster.check()

    run(main)


def test_a_ledger_whose_bookie_went_away_is_replaced_before_it_is_used() -> None:
    async def main() -> None:
        async with LogCluster(4) as cluster:
            client = cluster.new_client()
            log = await client.open(roll_entries=FULL, batch_records=1)
            await fill(log, HALF)
            [spare] = await spares(cluster, client)
            gone = (await client.catalog.metadata(spare)).last_fragment.bookies[0]
            await cluster.unregister(gone)
            await fill(log, FULL, first=HALF)
            segment = (await client.manifest()).segments[1]
            assert segment.ledger != spare
            assert spare not in await cluster.ledgers()
            metadata = await client.catalog.metadata(segment.ledger)
            assert [each.first for each in metadata.fragments] == [0]
            assert gone not in metadata.last_fragment.bookies
            await log.close()
            await cluster.check()

    run(main)


def test_a_ledger_is_made_for_the_next_segment_whatever_edits_end_late() -> None:
    """Found by the simulator: two ledgers were labelled as one segment, so that the manifest could
    not have been rebuilt. A trim had read the manifest before a roll, and had its answer after it.
    """

    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open(roll_entries=FULL, batch_records=1)
            await fill(log, 2)
            late = Gate("get", PATH)

            async def after(method: str, path: str) -> None:
                if method == "get" and path == PATH and not late.reached.is_set():
                    await late(method, path)

            client.store.after = after
            trimming = asyncio.create_task(log.trim(Position(1, 0, 0)))
            await late.reached.wait()
            rolling = asyncio.create_task(log.roll())
            await asyncio.sleep(1)
            late.open.set()
            await asyncio.gather(trimming, rolling)
            await fill(log, HALF, first=2)
            [spare] = await spares(cluster, client)
            labels = Labels.of((await cluster.catalog.metadata(spare)).custom_metadata)
            assert labels is not None
            assert labels.segment == (await client.manifest()).next_segment == 3
            await log.close()

    run(main)


def test_a_ledger_made_for_another_key_is_replaced() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            keyring = Keyring({"a": bytes(32), "b": b"b" * 32}, current="a")
            log = await client.open(roll_entries=FULL, batch_records=1, keyring=keyring)
            await fill(log, HALF)
            keyring.rotate("b")
            await fill(log, FULL, first=HALF)
            tail = (await client.manifest()).segments[1].ledger
            assert (await client.catalog.metadata(tail)).custom_metadata["key"] == "b"
            await log.close()
            assert await spares(cluster, client) == []

    run(main)


def test_a_ledger_that_may_be_listed_is_never_deleted() -> None:
    async def main() -> None:
        async with LogCluster(4) as cluster:
            client = cluster.new_client()
            log = await client.open(roll_entries=FULL, batch_records=1)
            await fill(log, HALF)
            [spare] = await spares(cluster, client)
            gone = (await client.catalog.metadata(spare)).last_fragment.bookies[0]
            client.store.after = lose_answer("put", path=PATH, times=1)
            client.store.before = Gate("get", PATH)  # so that the answer stays unknown
            appending = asyncio.create_task(fill(log, HALF, first=HALF))
            await client.store.before.reached.wait()
            await cluster.unregister(gone)
            reading, client.store.before = client.store.before, refuse("get", path=PATH)
            reading.open.set()
            await asyncio.sleep(3)
            client.store.before = refuse("nothing")
            await appending
            await fill(log, HALF, first=FULL)
            assert (await cluster.check()).segments[1].ledger == spare
            await log.close()
            assert await client.payloads() == numbered(0, FULL + HALF)

    run(main)


def test_a_handle_that_has_ended_starts_no_timer_for_settings_it_still_sees() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client, owner = cluster.new_client(), cluster.new_client()
            log = await client.open()
            place, _ = await log.append(b"0")
            late = Gate("get", PATH)
            client.store.before = late
            trimming = asyncio.create_task(log.trim(place))
            await late.reached.wait()
            log.abandon()
            await owner.logs.set_options(NAME, {"roll_seconds": "5"})
            late.open.set()
            await trimming
            assert log.options.roll_seconds == 5, "the test tests nothing"
            timer = log._roller._age
            assert timer is not None
            assert timer.cancelled()

    run(main)
