"""Recoveries that meet others, or die half way (numbers: tests/scenarios/README.md)."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from dataclasses import replace

import pytest

from quire.entry import NO_ENTRY, LedgerId
from quire.errors import CorruptRecordError, QuireError, RetryError
from quire.ledger.metadata import Fragment, LedgerState
from quire.ledger.quorum import Replication
from tests.ledger.recovering import after_calls, scenario
from tests.support.memory_cluster import Hook, MemoryCluster, down, hung, slowly
from tests.support.planted_ledger import PlantedLedger
from tests.support.seeds import seeds

# --- others who change metadata meanwhile ---------------------------------------------------


def test_an_end_decided_by_somebody_else_is_adopted() -> None:
    """11: the ledger is closed empty while this recovery writes back; its own end is dropped."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0", 0, 1)

        async def close() -> None:
            await planted.put((await planted.metadata()).closed(NO_ENTRY, 0))

        cluster.bookies["b0"].before = after_calls("add", 1, close)
        assert await planted.read_all() == []

    scenario(3, body)


def test_a_writer_that_closes_meanwhile_is_adopted() -> None:
    """19: exactly one end."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0, 1)

        async def close() -> None:
            await planted.put((await planted.metadata()).closed(1, 20))

        cluster.bookies["b0"].before = after_calls("read_tail", 1, close)
        assert await planted.read_all() == [0, 1]

    scenario(3, body)


def test_a_fragment_added_during_recovery_fails_it() -> None:
    """12."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0)

        async def grow() -> None:
            metadata = await planted.metadata()
            await planted.put(metadata.with_fragment(Fragment(1, ("b1", "b2", "b3"))))

        cluster.bookies["b0"].before = after_calls("add", 1, grow)
        with pytest.raises(CorruptRecordError, match="while it was in recovery"):
            await planted.read_all()

    scenario(4, body)


def test_re_replication_of_an_older_fragment_is_kept() -> None:
    """17: the record moved on, the decision stands."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"), (2, "b1 b2 b3"))
        await planted.add("b0 b1 b2 b4", 0, 1)
        await planted.add("b1 b2 b3", 2)

        async def repair() -> None:
            await planted.put((await planted.metadata()).with_replica(0, 0, "b4"))

        cluster.bookies["b1"].before = after_calls("add", 1, repair)
        assert await planted.read_all() == [0, 1, 2]
        assert (await planted.metadata()).fragments[0].bookies == ("b4", "b1", "b2")

    scenario(5, body)


def test_a_ledger_left_in_recovery_is_taken_up() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1", 0)
        await planted.put((await planted.metadata()).with_state(LedgerState.IN_RECOVERY))
        assert await planted.read_all() == [0]

    scenario(3, body)


def test_a_closed_ledger_is_left_alone() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0)
        await planted.put(replace(await planted.metadata(), state=LedgerState.OPEN).closed(0, 10))
        before = await planted.current()
        assert await planted.read_all() == [0]
        assert await planted.current() == before
        assert not cluster.bookies["b0"].look(7).fenced

    scenario(3, body)


# --- several recoveries, and recoveries that die --------------------------------------------


@pytest.mark.parametrize("seed", seeds(15, first=1))
def test_concurrent_recoveries_agree(seed: int) -> None:
    """2, 16, 17: whatever the interleaving, one end, and everything acked is in it."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1", 0, 1)
        await planted.add("b2", 0, 1, 2)
        if seed % 2:
            cluster.bookies[f"b{seed % 3}"].before = down("add")
        results = await asyncio.gather(*(planted.read_all() for _ in range(4)))
        assert all(result == results[0] for result in results)
        assert results[0][:2] == [0, 1]

    scenario(4, body, seed)


@pytest.mark.parametrize("step", range(1, 14))
def test_a_recovery_that_dies_anywhere_can_be_repeated(step: int) -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0, 1, 2, lac=0)
        await planted.add("b0 b1", 3)
        calls = 0
        recovering = asyncio.create_task(planted.read_all())

        async def before(method: str, ledger: LedgerId) -> None:
            nonlocal calls
            calls += 1
            if calls == step:
                recovering.cancel()

        for bookie in cluster.bookies.values():
            bookie.before = before
        await asyncio.gather(recovering, return_exceptions=True)
        assert await planted.read_all() == [0, 1, 2, 3]

    scenario(3, body)


def test_a_recovery_that_lost_the_race_does_not_shift_what_is_announced() -> None:
    """L7 seen from the bookies: LAC there never passes the last entry of the closed ledger."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0, 1)
        await planted.add("b2", 2, 3)

        async def close() -> None:
            await planted.put((await planted.metadata()).closed(1, 20))

        cluster.bookies["b0"].before = after_calls("add", 1, close)
        cluster.bookies["b1"].before = down("read")
        assert await planted.read_all() == [0, 1]
        tails = [await bookie.read_tail(7) for bookie in cluster.bookies.values()]
        assert max(tail.hint for tail in tails) <= 1

    scenario(3, body)


@pytest.mark.parametrize("seed", seeds(16, first=1))
def test_under_churn_nothing_acked_is_lost(seed: int) -> None:
    """21: a writer, several recoveries, bookies that fail and return, random interleavings."""

    async def body(cluster: MemoryCluster) -> None:
        rng = random.Random(seed)
        faults: list[Hook] = [down(), down("add"), down("read"), hung("add"), slowly(0.02)]
        for bookie in cluster.bookies.values():
            bookie.before = slowly(0.001)
        replication = rng.choice([Replication(3, 3, 2), Replication(4, 3, 2), Replication(5, 3, 2)])
        writer = await cluster.catalog.create(replication)
        acked: list[int] = []

        async def write() -> None:
            with suppress(QuireError):
                while True:
                    acked.extend(await writer.append_many([b"x" * rng.randrange(2000)] * 3))

        async def churn() -> None:
            while True:
                bookie = cluster.bookies[f"b{rng.randrange(7)}"]
                bookie.before = rng.choice(faults)
                await asyncio.sleep(rng.uniform(0, 0.1))
                bookie.before = slowly(0.001)
                await asyncio.sleep(rng.uniform(0, 0.05))

        async def recover() -> tuple[int | None, int | None]:
            while True:
                with suppress(RetryError):
                    metadata = (await cluster.client().open(writer.ledger))._metadata
                    return metadata.last_entry, metadata.length
                await asyncio.sleep(rng.uniform(0, 0.5))

        writing = asyncio.create_task(write())
        churning = [asyncio.create_task(churn()) for _ in range(rng.randrange(1, 4))]
        await asyncio.sleep(rng.uniform(0.05, 0.5))
        ends = await asyncio.gather(*(recover() for _ in range(3)))
        for task in churning:
            task.cancel()
        await asyncio.gather(*churning, return_exceptions=True)
        for bookie in cluster.bookies.values():
            bookie.before = slowly(0)
        assert ends == [ends[0]] * 3
        assert acked == list(range(len(acked)))
        assert len(acked) <= (ends[0][0] or 0) + 1
        reader = await cluster.client().open(writer.ledger)
        entries = [entry async for entry in reader.read()]
        assert [entry.entry for entry in entries] == list(range(len(entries)))
        assert ends[0] == (len(entries) - 1, sum(len(entry.payload) for entry in entries))
        writer.abandon()
        await writer.close()
        await writing

    scenario(7, body, seed)
