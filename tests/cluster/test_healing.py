"""`quire healing` on real processes: a bookie is lost for good, and the others take its places."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from quire import connect
from quire.client import Client
from quire.cluster import LocalCluster
from quire.ledgers import Replication
from tests.support.command import Finished, quire

LEDGERS = 12
PAYLOADS = [b"%d:" % number + bytes(500) for number in range(40)]


async def command(cluster: LocalCluster, *arguments: str) -> Finished:
    return await asyncio.to_thread(quire, *arguments, store=cluster.store_uri)


async def gone(client: Client, bookie: str) -> None:
    """Return when a bookie is not registered any more."""
    async with asyncio.timeout(60):
        while bookie in [each.bookie for each in client.bookies()]:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def filled(client: Client) -> list[int]:
    """Write closed ledgers over three of four bookies, some of them striped; return their ids."""
    ledgers = []
    for number in range(LEDGERS):
        replication = Replication(4, 3, 2) if number % 3 == 0 else Replication(3, 3, 2)
        writer = await client.create_ledger(replication)
        await writer.append_many(PAYLOADS[: 1 + 3 * number])
        await writer.close()
        ledgers.append(writer.ledger)
    empty = await client.create_ledger(Replication(3, 3, 2))
    await empty.close()
    return [*ledgers, empty.ledger]


async def check(client: Client, ledgers: list[int], *, lost: str) -> None:
    """Every ledger has all copies, and no record names the lost bookie."""
    for number, ledger in enumerate(ledgers):
        info = await client.ledger_info(ledger)
        assert not any(lost in each.bookies for each in info.fragments)
        inventory = await client.ledger_inventory(ledger)
        assert inventory.shortages == []
        reader = await client.open_ledger(ledger)
        last = info.last_entry
        assert last is not None
        payloads = [entry.payload async for entry in reader.read(0, last)] if last >= 0 else []
        assert payloads == (PAYLOADS[: 1 + 3 * number] if number < LEDGERS else [])


@pytest.mark.timeout(300)
def test_the_places_of_a_lost_bookie_go_to_others(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            LocalCluster(tmp_path, 5) as cluster,
            connect(cluster.store_uri) as client,
        ):
            ledgers = await filled(client)
            ready = cluster.ready(0)
            assert ready is not None
            lost = ready.bookie
            up = await command(cluster, "healing", "run", "--lost", lost)
            assert up.code == 2
            assert "is not lost: it is registered" in up.err
            mistyped = await command(cluster, "healing", "run", "--lost", f"{lost[:8]}x")
            assert (mistyped.code, "is not known" in mistyped.err) == (3, True)
            whole = await command(cluster, "healing", "run", "--json")
            assert whole.code == 0, whole.err

            named = [
                each
                for each in ledgers
                if any(lost in it.bookies for it in (await client.ledger_info(each)).fragments)
            ]
            assert named
            cluster.kill(0)
            await gone(client, lost)
            dry = await command(cluster, "healing", "run", "--lost", lost, "--dry-run", "--json")
            assert dry.code == 0, dry.err
            *asked, result = [json.loads(line) for line in dry.out.splitlines()]
            assert {each["ledger"] for each in asked} == set(named)
            assert {each["reason"] for each in asked} == {"lost"}
            assert result["planned"] == len(asked)
            none = await command(cluster, "healing", "list")
            assert "No bookie is asked for a copy." in none.out

            healed = await command(cluster, "healing", "run", "--lost", lost[:8], "--json")
            assert healed.code == 0, healed.err
            done = json.loads(healed.out)
            assert (done["done"], done["left"], done["open"]) == (done["planned"], {}, [])
            await check(client, ledgers, lost=lost)
            again = await command(cluster, "healing", "run", "--lost", lost, "--json")
            assert json.loads(again.out)["planned"] == 0

            # The copies are whole: with another bookie away every ledger can still be read.
            cluster.kill(1)
            for number, ledger in enumerate(ledgers[:-1]):
                reader = await client.open_ledger(ledger)
                found = [entry.payload async for entry in reader.read(0, 3 * number)]
                assert found == PAYLOADS[: 1 + 3 * number]

    asyncio.run(main())


@pytest.mark.timeout(300)
def test_places_without_a_bookie_for_them_are_named(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            LocalCluster(tmp_path, 4) as cluster,
            connect(cluster.store_uri) as client,
        ):
            ledgers = await filled(client)
            ready = cluster.ready(0)
            assert ready is not None
            cluster.kill(0)
            await gone(client, ready.bookie)
            unplaced = await command(cluster, "healing", "run", "--lost", ready.bookie, "--json")
            assert unplaced.code == 4, unplaced.err
            result = json.loads(unplaced.out)
            striped = ledgers[0:LEDGERS:3]
            assert {int(each) for each in result["unplaced"]} == set(striped)
            assert result["done"] == result["planned"] > 0
            assert "add bookies" in unplaced.err
            cancelled = await command(cluster, "healing", "cancel", "--json")
            assert json.loads(cancelled.out) == {"cancelled": 0, "dry_run": False}
            listed = await command(cluster, "healing", "list", "--json")
            assert listed.out == ""

    asyncio.run(main())


@pytest.mark.timeout(300)
def test_a_bookie_that_is_drained_holds_nothing_in_the_end(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            LocalCluster(tmp_path, 5) as cluster,
            connect(cluster.store_uri) as client,
        ):
            ledgers = await filled(client)
            ready = cluster.ready(0)
            assert ready is not None
            leaves = ready.bookie
            drain = ("bookie", "drain", leaves, "--json")
            (dry,) = (await command(cluster, *drain, "--dry-run")).json
            assert (dry["departure"]["stuck"], dry["departure"]["waiting"]) == ({}, [])
            assert dry["departure"]["closed"] == dry["ledgers"] > 0
            assert dry["departure"]["bytes"] > 0
            assert (await command(cluster, *drain)).code == 0

            watching = asyncio.create_task(command(cluster, *drain, "--watch"))
            healed = await command(cluster, "healing", "run", "--json")
            assert healed.code == 0, healed.err
            watched = await watching
            assert watched.code == 0, watched.err
            assert watched.json[-1] == {"bookie": leaves, "left": 0, "waiting": 0}
            await check(client, ledgers, lost=leaves)
            refused = await command(cluster, "bookie", "forget", leaves)
            assert (refused.code, "stop it first" in refused.err) == (7, True)
            cluster.kill(0)
            await gone(client, leaves)
            forgotten = await command(cluster, "bookie", "forget", leaves, "--json")
            assert forgotten.code == 0, forgotten.err
            await check(client, ledgers, lost=leaves)

    asyncio.run(main())
