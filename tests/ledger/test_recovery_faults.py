"""Bookies that hang, fail or hold damage deny nothing (numbers: tests/scenarios/README.md)."""

from __future__ import annotations

import asyncio

import pytest

from quire.errors import (
    BookieUnavailableError,
    CorruptEntryError,
    EntryUnknownError,
    QuireError,
    UnauthorizedError,
    UnreadableError,
)
from quire.ledger.metadata import LedgerState
from tests.ledger.recovering import failing, scenario
from tests.support.memory_cluster import MemoryCluster, down, hung
from tests.support.planted_ledger import PlantedLedger


@pytest.mark.parametrize("method", ["read_tail", "read", "add", None])
@pytest.mark.parametrize("bookie", ["b0", "b1", "b2"])
def test_a_hung_bookie_blocks_nothing(bookie: str, method: str | None) -> None:
    """5, #1067: with coverage met, nobody waits for the last answer."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0, 1, 2, lac=1)
        cluster.bookies[bookie].before = hung(*([method] if method else []))
        assert await planted.read_all() == [0, 1, 2]
        assert asyncio.get_running_loop().time() < cluster.options.request_timeout / 2

    scenario(4, body)


def test_when_all_are_down_the_ledger_stays_in_recovery() -> None:
    """9: and can be recovered later."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0)
        for bookie in cluster.bookies.values():
            bookie.before = down()
        with pytest.raises(UnreadableError, match="0 of 3 bookies"):
            await planted.read_all()
        assert (await planted.metadata()).state is LedgerState.IN_RECOVERY
        for bookie in cluster.bookies.values():
            bookie.before = down("nothing")
        assert await planted.read_all() == [0]

    scenario(3, body)


UNUSABLE = [
    BookieUnavailableError("b", "by order of the test"),
    EntryUnknownError(7, 1, "may have been lost"),
    CorruptEntryError(7, 1, "its copy is damaged"),
    UnauthorizedError(7),
]


@pytest.mark.parametrize("error", UNUSABLE, ids=lambda error: type(error).__name__)
def test_an_error_is_never_a_negative(error: QuireError) -> None:
    """#2908: one explicit negative and two bookies that cannot say do not end a ledger."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0)
        for bookie in ("b0", "b1"):
            cluster.bookies[bookie].before = failing(error, "read")
        with pytest.raises(UnreadableError, match="unknown"):
            await planted.read_all()
        metadata = await planted.metadata()
        assert metadata.state is LedgerState.IN_RECOVERY

    scenario(3, body)


def test_a_hung_quorum_fails_recovery_at_the_deadline() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        for bookie in ("b0", "b1"):
            cluster.bookies[bookie].before = hung()
        with pytest.raises(UnreadableError):
            await planted.read_all()
        assert asyncio.get_running_loop().time() == cluster.options.request_timeout

    scenario(3, body)


def test_a_damaged_copy_is_replaced_by_a_good_one() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0, 1, 2)
        planted.corrupt("b0", 1)
        planted.corrupt("b1", 1)
        assert await planted.read_all() == [0, 1, 2]
        assert planted.held("b0", 1).entry == 1

    scenario(3, body)


def test_damaged_copies_do_not_end_the_ledger() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1", 0, 1)
        await planted.add("b2", 0)
        planted.corrupt("b0", 1)
        planted.corrupt("b1", 1)
        with pytest.raises(UnreadableError):
            await planted.read_all()
        assert (await planted.metadata()).state is LedgerState.IN_RECOVERY

    scenario(3, body)


def test_a_damaged_tail_proves_nothing() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0)
        planted.corrupt("b0", 0)
        planted.corrupt("b1", 0)
        with pytest.raises(UnreadableError, match="1 of 3"):
            await planted.read_all()

    scenario(3, body)
