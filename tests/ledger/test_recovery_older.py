"""Recovery of ledgers that are older than the store's incarnation (docs/protocol.md, I2).

The store was put back from a backup: the record names the ensemble of the day of the backup.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from quire.entry import LedgerId
from quire.errors import LedgerFencedError, StoreWentBackError, UnreadableError
from quire.ledger.metadata import LedgerMetadata, LedgerState
from quire.metastore.cluster import Cluster
from quire.metastore.layout import CLUSTER, cookie_path, ledger_path
from tests.ledger.recovering import scenario
from tests.support.memory_cluster import Hook, MemoryCluster, down, hung
from tests.support.planted_ledger import PlantedLedger


async def put_back(cluster: MemoryCluster, incarnation: int = 1, *, adopted: bool = True) -> None:
    """Let the store be of an incarnation."""
    record = Cluster("c" * 32, incarnation, adopted)
    await cluster.store.create(CLUSTER, record.encode())


async def left_behind(cluster: MemoryCluster) -> PlantedLedger:
    """Entries 0 and 1 on the ensemble of the record, 2 to 4 on the next one, 5 on a third one."""
    planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
    await planted.add("b0 b1", 0, 1)
    await planted.add("b3 b4", 2, 3, 4, lac=1)
    await planted.add("b4 b5", 5, lac=4)
    return planted


def counting(asked: list[str], bookie: str) -> Hook:
    async def before(method: str, ledger: LedgerId) -> None:
        asked.append(bookie)

    return before


def test_entries_of_unknown_ensembles_are_found_and_moved_to_the_recorded_one() -> None:
    async def body(cluster: MemoryCluster) -> None:
        await put_back(cluster)
        planted = await left_behind(cluster)
        assert await planted.read_all() == [0, 1, 2, 3, 4, 5]
        metadata = await planted.metadata()
        for entry in range(6):
            holders = set(cluster.holders(planted.ledger, entry))
            assert len(holders.intersection(metadata.write_set(entry))) >= 2, entry

    scenario(6, body)


@pytest.mark.parametrize("silent", ["b0", "b3", "b4", "b5"])
def test_qa_minus_one_bookies_may_be_away(silent: str) -> None:
    async def body(cluster: MemoryCluster) -> None:
        await put_back(cluster)
        planted = await left_behind(cluster)
        cluster.bookies[silent].before = down()
        assert await planted.read_all() == [0, 1, 2, 3, 4, 5]

    scenario(6, body)


@pytest.mark.parametrize("silence", [down(), hung()])
def test_more_bookies_away_decide_nothing(silence: Hook) -> None:
    async def body(cluster: MemoryCluster) -> None:
        await put_back(cluster)
        planted = await left_behind(cluster)
        cluster.bookies["b4"].before = cluster.bookies["b5"].before = silence
        with pytest.raises(UnreadableError, match="b4 unknown, b5 unknown"):
            await planted.read_all()
        assert (await planted.metadata()).state is LedgerState.IN_RECOVERY
        cluster.bookies["b4"].before = down("nothing")
        assert await planted.read_all() == [0, 1, 2, 3, 4, 5]

    scenario(6, body)


def test_a_bookie_that_only_has_a_cookie_may_hold_the_entries() -> None:
    async def body(cluster: MemoryCluster) -> None:
        await put_back(cluster)
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        for bookie in ("b8", "b9"):
            await cluster.store.create(cookie_path(bookie), b"")
        with pytest.raises(UnreadableError, match="b8 unknown, b9 unknown"):
            await planted.read_all()
        await cluster.store.delete(cookie_path("b9"))
        assert await planted.read_all() == []

    scenario(3, body)


def test_every_bookie_is_fenced() -> None:
    async def body(cluster: MemoryCluster) -> None:
        await put_back(cluster)
        planted = await left_behind(cluster)
        await planted.read_all()
        fenced = 0
        for bookie in cluster.bookies:
            try:
                await planted.add(bookie, 6, lac=5)
            except LedgerFencedError:
                fenced += 1
        assert fenced >= 5, "fewer than Qa bookies take an entry of the old writer"

    scenario(6, body)


def test_a_ledger_of_this_incarnation_is_asked_of_its_last_ensemble_only() -> None:
    async def body(cluster: MemoryCluster) -> None:
        await put_back(cluster)
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.put(replace(await planted.metadata(), incarnation=1))
        await planted.add("b0 b1 b2", 0)
        asked: list[str] = []
        for name, bookie in cluster.bookies.items():
            bookie.before = counting(asked, name)
        assert await planted.read_all() == [0]
        assert set(asked) == {"b0", "b1", "b2"}

    scenario(5, body)


def test_a_store_that_is_not_adopted_is_not_believed() -> None:
    async def body(cluster: MemoryCluster) -> None:
        await put_back(cluster, adopted=False)
        planted = await left_behind(cluster)
        with pytest.raises(StoreWentBackError, match="metadata adopt"):
            await planted.read_all()
        assert not (await planted.metadata()).is_closed

    scenario(6, body)


def test_a_new_ledger_notes_the_incarnation_of_its_store() -> None:
    async def body(cluster: MemoryCluster) -> None:
        await put_back(cluster, 3)
        writer = await cluster.catalog.create()
        assert (await cluster.catalog.metadata(writer.ledger)).incarnation == 3
        await writer.close()
        assert (await cluster.catalog.metadata(writer.ledger)).incarnation == 3

    scenario(3, body)


def test_a_record_without_an_incarnation_is_of_the_first() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        path = ledger_path(planted.ledger)
        plain = (await planted.metadata()).encode()
        assert b"incarnation" not in plain
        assert LedgerMetadata.decode(path, plain).incarnation == 0
        newer = replace(await planted.metadata(), incarnation=2)
        assert LedgerMetadata.decode(path, newer.encode()) == newer

    scenario(3, body)
