"""A cluster heals itself: a bookie is killed and its disk removed under load, and all is whole."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from quire import connect
from quire.client import Client
from quire.cluster import LocalCluster
from quire.healing.summary import Count, State, Summary, read_summary
from quire.ledgers import Replication
from quire.metastore import open_store
from quire.metastore.layout import HEALING_SUMMARY
from tests.support.command import Finished, quire

HEAL_SECONDS = 120.0
LEDGERS_BEFORE = 30
LEDGERS_AFTER = 10


class Load:
    """A client that makes ledgers one after the other; `acknowledged` counts entries of each."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.acknowledged: dict[int, int] = {}
        self._closed = asyncio.Condition()

    async def run(self) -> None:
        while True:
            writer = await self._client.create_ledger(Replication(3, 3, 2))
            for number in range(20):
                await writer.append(b"%d:%d " % (writer.ledger, number) + bytes(200))
                self.acknowledged[writer.ledger] = number + 1
            await writer.close()
            async with self._closed:
                self._closed.notify_all()

    async def reach(self, ledgers: int) -> None:
        """Return when so many ledgers have entries."""
        async with asyncio.timeout(HEAL_SECONDS), self._closed:
            await self._closed.wait_for(lambda: len(self.acknowledged) > ledgers)


async def healed(cluster: LocalCluster, lost: str) -> Summary:
    """Return the auditor's findings once a bookie counts as lost, and nothing is to be healed."""

    def is_done(summary: Summary) -> bool:
        return (summary.lost, summary.open, summary.state) == ((lost,), 0, State.IDLE)

    store = await open_store(cluster.store_uri)
    try:
        async with asyncio.timeout(HEAL_SECONDS):
            while True:
                summary = await read_summary(store)
                if summary is not None and is_done(summary):
                    return summary
                version = None if summary is None else (await store.get(HEALING_SUMMARY)).version
                await store.wait(HEALING_SUMMARY, version)
    finally:
        await store.close()


async def command(cluster: LocalCluster, *arguments: str) -> Finished:
    return await asyncio.to_thread(quire, *arguments, store=cluster.store_uri)


@pytest.mark.timeout(300)
def test_a_bookie_and_its_disk_are_lost_under_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUIRE_HEALING_DELAY", "2s")

    async def main() -> None:
        async with LocalCluster(tmp_path, 5) as cluster, connect(cluster.store_uri) as client:
            load = Load(client)
            writing = asyncio.create_task(load.run())
            await load.reach(LEDGERS_BEFORE)
            ready = cluster.ready(0)
            assert ready is not None
            cluster.kill(0)
            shutil.rmtree(tmp_path / "bookie-0")
            await load.reach(len(load.acknowledged) + LEDGERS_AFTER)
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
            summary = await healed(cluster, ready.bookie)
            assert summary.count(Count.NO_COPY) == 0

            whole = 0
            for ledger, count in load.acknowledged.items():
                reader = await client.open_ledger(ledger)  # closes the last one, if it is open
                read = [entry.payload async for entry in reader.read(0, count - 1)]
                assert read == [b"%d:%d " % (ledger, at) + bytes(200) for at in range(count)]
                inventory = await client.ledger_inventory(ledger)
                info = await client.ledger_info(ledger)
                named = any(ready.bookie in each.bookies for each in info.fragments)
                whole += not inventory.shortages and not named
            assert whole >= len(load.acknowledged) - 1  # one was open when the writer ended

            status = await command(cluster, "healing", "status", "--json")
            assert status.code == 0, status.err
            (found,) = status.json
            assert (found["state"], found["lost"], found["open"]) == ("idle", [ready.bookie], 0)
            shown = await command(cluster, "cluster", "status")
            assert "healing  idle, 0 ledgers to heal" in shown.out
            health = await command(cluster, "cluster", "health", "--json")
            codes = {each["code"] for each in json.loads(health.out)["reasons"]}
            assert not codes & {"short", "one-copy", "no-copy", "mass-loss", "no-room"}

            paused = await command(
                cluster, "healing", "pause", "--reason", "drill", "--until", "1h"
            )
            assert paused.code == 0, paused.err
            health = await command(cluster, "cluster", "health", "--json")
            assert "healing-paused" in {each["code"] for each in json.loads(health.out)["reasons"]}
            assert (await command(cluster, "healing", "resume")).code == 0

    asyncio.run(main())
