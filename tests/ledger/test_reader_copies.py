"""Copies that fail, bookies out of reach and replicas that moved are passed over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from quire.entry import LedgerId
from quire.errors import NoSuchLedgerError, StoreUnavailableError, UnreadableError
from quire.ledger.known import KnownLedger
from quire.ledger.metadata import Fragment
from quire.ledger.quorum import Replication
from quire.ledger.reader import LedgerReader
from tests.ledger.reading import LAYOUTS, closed, count_reads, ids, scenario
from tests.support.memory_cluster import MemoryCluster, down, hung, slowly
from tests.support.planted_ledger import PlantedLedger


@pytest.mark.parametrize("replication", LAYOUTS[1:], ids=str)
@pytest.mark.parametrize("victim", [0, 1, 2])
def test_damaged_copies_are_passed_over(replication: Replication, victim: int) -> None:
    async def body(cluster: MemoryCluster) -> None:
        names = [f"b{number}" for number in range(replication.ensemble)]
        planted = await PlantedLedger.create(cluster, (0, " ".join(names)), replication=replication)
        reader = await closed(planted, 60)
        for entry in range(60):
            if replication.is_written_to(entry, victim) and entry % 4:
                planted.corrupt(names[victim], entry)
        assert await ids(reader) == list(range(60))

    scenario(5, body)


@pytest.mark.parametrize("replication", LAYOUTS[1:], ids=str)
@pytest.mark.parametrize("hook", [down(), hung()], ids=["down", "hung"])
def test_a_bookie_out_of_reach_is_passed_over(
    replication: Replication, hook: Callable[[str, LedgerId], Awaitable[None]]
) -> None:
    async def body(cluster: MemoryCluster) -> None:
        names = [f"b{number}" for number in range(replication.ensemble)]
        planted = await PlantedLedger.create(cluster, (0, " ".join(names)), replication=replication)
        reader = await closed(planted, 100)
        for victim in names:
            cluster.bookies[victim].before = hook
            began = asyncio.get_running_loop().time()
            assert await ids(reader) == list(range(100))
            assert asyncio.get_running_loop().time() - began < 2
            cluster.bookies[victim].before = down("nothing")

    scenario(5, body)


def test_a_slow_bookie_is_overtaken_and_then_avoided() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        reader = await closed(planted, 10)
        counts = count_reads(cluster)
        cluster.bookies["b0"].before = slowly(1.0)
        time = asyncio.get_running_loop().time
        assert await reader.read_entry(0)
        assert time() == cluster.options.speculative_delay
        assert await reader.read_entry(3)
        assert time() == cluster.options.speculative_delay
        assert counts["b1"] == 2

    scenario(3, body)


def test_with_every_copy_damaged_the_error_names_the_entry() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        reader = await closed(planted, 5)
        for bookie in ("b0", "b1", "b2"):
            planted.corrupt(bookie, 3)
        with pytest.raises(UnreadableError, match=r"entry 3 of ledger 7.*damaged copy"):
            await ids(reader)

    scenario(3, body)


def test_a_replica_that_moved_is_found_by_looking_at_metadata_again() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0"), replication=Replication(1, 1, 1))
        reader = await closed(planted, 5)
        run = await cluster.bookies["b0"].read(7, 0, 4)
        await cluster.bookies["b1"].add(7, planted.sealer.access_key, run)
        await planted.put((await planted.metadata()).with_replica(0, 0, "b1"))
        cluster.bookies["b0"].before = down()
        assert await ids(reader) == list(range(5))
        assert reader._metadata.last_fragment == Fragment(0, ("b1",))

    scenario(2, body)


async def _moved(cluster: MemoryCluster) -> LedgerReader:
    """A reader of a ledger whose only replica went from b0, which forgot it, to b1."""
    planted = await PlantedLedger.create(cluster, (0, "b0"), replication=Replication(1, 1, 1))
    reader = await closed(planted, 5)
    run = await cluster.bookies["b0"].read(7, 0, 4)
    await cluster.bookies["b1"].add(7, planted.sealer.access_key, run)
    await planted.put((await planted.metadata()).with_replica(0, 0, "b1"))
    cluster.bookies["b0"].ledgers.clear()
    return reader


def test_metadata_that_somebody_else_refreshed_meanwhile_is_used_too() -> None:
    """As a follower's watch does while a read by the old metadata is under way."""

    async def body(cluster: MemoryCluster) -> None:
        reader = await _moved(cluster)

        async def refresh(method: str, ledger: LedgerId) -> None:
            if method == "read":
                await reader._known.refresh()

        cluster.bookies["b0"].before = refresh
        assert await ids(reader) == list(range(5))

    scenario(2, body)


def test_nothing_is_denied_by_metadata_that_cannot_be_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def body(cluster: MemoryCluster) -> None:
        reader = await _moved(cluster)

        async def refuse(self: KnownLedger) -> None:
            raise StoreUnavailableError("memory:", "by order of the test")

        with monkeypatch.context() as store_down:
            store_down.setattr(KnownLedger, "refresh", refuse)
            with pytest.raises(StoreUnavailableError):
                await ids(reader)
        assert await ids(reader) == list(range(5))

    scenario(2, body)


def test_a_deleted_ledger_is_named_when_its_entries_are_gone() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        reader = await closed(planted, 5)
        await cluster.catalog.delete(7)
        for bookie in cluster.bookies.values():
            bookie.ledgers.clear()
        with pytest.raises(NoSuchLedgerError):
            await ids(reader)

    scenario(3, body)
