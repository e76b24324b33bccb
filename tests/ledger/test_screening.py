"""Which ledgers are whole by the outlines of their bookies."""

from __future__ import annotations

from quire.entry import LedgerId
from quire.ledger.quorum import Replication
from quire.ledger.screening import whole_among
from tests.support.memory_cluster import MemoryCluster, down

ALL_THREE = Replication(3, 3, 2)
SECONDS = 5.0


async def a_ledger(
    cluster: MemoryCluster, entries: int = 5, replication: Replication = ALL_THREE
) -> LedgerId:
    """A closed ledger whose copies are all there."""
    writer = await cluster.catalog.create(replication)
    for number in range(entries):
        await writer.append(b"%d" % number)
    await writer.close()
    return writer.ledger


async def whole(
    cluster: MemoryCluster, *ledgers: LedgerId, up: set[str] | None = None
) -> set[LedgerId]:
    records = cluster.catalog.records
    return await whole_among(records, cluster.roster, ledgers, up, SECONDS)


async def test_closed_ledgers_with_all_copies_are_whole() -> None:
    async with MemoryCluster(3) as cluster:
        full, empty = await a_ledger(cluster), await a_ledger(cluster, 0)
        assert await whole(cluster, full, empty) == {full, empty}


async def test_a_missing_entry_is_seen_wherever_it_is() -> None:
    for entry in (0, 2, 4):
        async with MemoryCluster(3) as cluster:
            full, short = await a_ledger(cluster), await a_ledger(cluster)
            del cluster.bookies["b1"].look(short).frames[entry]
            assert await whole(cluster, full, short) == {full}


async def test_an_open_ledger_is_not_judged() -> None:
    async with MemoryCluster(3) as cluster, await cluster.catalog.create(ALL_THREE) as writer:
        await writer.append(b"0")
        assert await whole(cluster, writer.ledger) == set()


async def test_a_ledger_without_a_record_is_passed_over() -> None:
    async with MemoryCluster(3) as cluster:
        full = await a_ledger(cluster)
        assert await whole(cluster, full, full + 7) == {full}


async def test_a_bookie_that_does_not_answer_makes_doubt() -> None:
    async with MemoryCluster(3) as cluster:
        full, empty = await a_ledger(cluster), await a_ledger(cluster, 0)
        cluster.bookies["b2"].before = down("outlines")
        assert await whole(cluster, full, empty) == {empty}


async def test_bookies_that_do_not_count_make_doubt() -> None:
    async with MemoryCluster(3) as cluster:
        full, empty = await a_ledger(cluster), await a_ledger(cluster, 0)
        assert await whole(cluster, full, empty, up={"b0", "b1"}) == {empty}


async def test_three_numbers_do_not_prove_a_striped_ledger() -> None:
    async with MemoryCluster(3) as cluster:
        striped = await a_ledger(cluster, 6, Replication(3, 2, 2))
        assert await whole(cluster, striped) == set()
