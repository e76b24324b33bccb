"""What clients conclude when a bookie says that it dropped the ledger as deleted (B11)."""

from __future__ import annotations

import pytest

from quire.errors import LedgerFencedError, NoSuchLedgerError, StoreWentBackError
from quire.ledger.metadata import LedgerState
from quire.metastore.layout import ledger_path
from tests.ledger.recovering import after_calls, scenario
from tests.support.memory_cluster import MemoryCluster, down
from tests.support.planted_ledger import PASSWORD, PlantedLedger


@pytest.mark.parametrize("retired", ["b0", "b1 b2", "b0 b1 b2"])
def test_recovery_never_closes_a_ledger_that_a_bookie_dropped_as_deleted(retired: str) -> None:
    """An old copy of the store has the record again. All bookies deny: it is not empty."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0, 1)
        for bookie in retired.split():
            cluster.bookies[bookie].retire(planted.ledger)
        for bookie in {"b0", "b1", "b2"}.difference(retired.split()):
            cluster.bookies[bookie].before = down("read_tail")
        with pytest.raises(StoreWentBackError, match=r"ledger 7 has a record.*metadata adopt"):
            await planted.read_all()
        assert (await planted.metadata()).state is LedgerState.IN_RECOVERY

    scenario(3, body)


@pytest.mark.parametrize("method", ["read", "add"])
def test_recovery_stops_at_an_answer_of_any_of_its_steps(method: str) -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0, 1)

        async def retire() -> None:
            for bookie in cluster.bookies.values():
                bookie.retire(planted.ledger)

        for bookie in cluster.bookies.values():
            bookie.before = after_calls(method, 1, retire)
        with pytest.raises(StoreWentBackError):
            await planted.read_all()
        assert not (await planted.metadata()).is_closed

    scenario(3, body)


def test_recovery_of_a_ledger_that_was_deleted_meanwhile_says_so() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0)

        async def delete() -> None:
            await cluster.store.delete(ledger_path(planted.ledger))
            for bookie in cluster.bookies.values():
                bookie.retire(planted.ledger)

        cluster.bookies["b0"].before = after_calls("read_tail", 1, delete)
        with pytest.raises(NoSuchLedgerError) as caught:
            await planted.read_all()
        assert type(caught.value) is NoSuchLedgerError

    scenario(3, body)


def test_a_reader_has_no_verdict_from_retired_answers() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0, 1)
        assert await planted.read_all() == [0, 1]
        reader = await cluster.catalog.open(planted.ledger, password=PASSWORD)
        cluster.bookies["b0"].retire(planted.ledger)
        assert await planted.read_all() == [0, 1], "one copy is enough"
        for bookie in cluster.bookies.values():
            bookie.retire(planted.ledger)
        with pytest.raises(StoreWentBackError):
            await reader.read_entry(0)
        await cluster.store.delete(ledger_path(planted.ledger))
        with pytest.raises(NoSuchLedgerError):
            await reader.read_entry(0)

    scenario(3, body)


def test_a_reader_of_an_open_ledger_is_told_as_well() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0)
        reader = await cluster.catalog.open_without_recovery(planted.ledger, password=PASSWORD)
        for bookie in cluster.bookies.values():
            bookie.retire(planted.ledger)
        for ask in (reader.last_confirmed, reader.last_acknowledged):
            with pytest.raises(StoreWentBackError):
                await ask()

    scenario(3, body)


def test_a_deposed_writer_gets_nothing_acknowledged_when_its_ledger_was_dropped() -> None:
    """It sees nothing of the store. Its ledger was fenced, closed, deleted and dropped."""

    async def body(cluster: MemoryCluster) -> None:
        writer = await cluster.catalog.create(password=PASSWORD)
        await writer.append(b"before")
        await (await cluster.client().open(writer.ledger, password=PASSWORD)).close()
        await cluster.client().delete(writer.ledger)
        for bookie in cluster.bookies.values():
            bookie.retire(writer.ledger)
        with pytest.raises((LedgerFencedError, NoSuchLedgerError)):
            await writer.append(b"after")

    scenario(3, body)
