"""Bookies that fail while recovery writes back (numbers: tests/scenarios/README.md)."""

from __future__ import annotations

import pytest

from quire.errors import NotEnoughBookiesError
from quire.ledger.metadata import Fragment, LedgerMetadata, LedgerState
from tests.ledger.recovering import after_calls, scenario
from tests.support.memory_cluster import Hook, MemoryCluster, down, hung
from tests.support.planted_ledger import PlantedLedger


def test_reading_is_not_enough_when_nothing_can_be_written() -> None:
    """10."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0)
        for bookie in cluster.bookies.values():
            bookie.before = down("add")
        with pytest.raises(NotEnoughBookiesError):
            await planted.read_all()
        assert (await planted.metadata()).state is LedgerState.IN_RECOVERY

    scenario(3, body)


@pytest.mark.parametrize("hook", [down("add"), hung("add")], ids=["down", "hung"])
def test_without_a_spare_the_ack_quorum_suffices(hook: Hook) -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1", 0)
        cluster.bookies["b2"].before = hook
        assert await planted.read_all() == [0]
        assert [each.first for each in (await planted.metadata()).fragments] == [0]

    scenario(3, body)


def test_a_failed_bookie_is_replaced_in_the_closing_change() -> None:
    """13: the fragment at the first entry recovered is replaced when it starts there."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1", 0, 1)
        cluster.bookies["b1"].before = down("add")
        assert await planted.read_all() == [0, 1]
        assert (await planted.metadata()).fragments == (Fragment(0, ("b0", "b3", "b2")),)
        assert cluster.holders(7, 1) == ["b0", "b1", "b2", "b3"]

    scenario(4, body)


def test_a_fragment_is_appended_where_confirmed_entries_lie_before() -> None:
    """13."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0, 1, 2, 3, lac=1)
        cluster.bookies["b2"].before = down("add")
        assert await planted.read_all() == [0, 1, 2, 3]
        assert (await planted.metadata()).fragments == (
            Fragment(0, ("b0", "b1", "b2")),
            Fragment(2, ("b0", "b1", "b3")),
        )

    scenario(4, body)


def test_two_bookies_that_fail_on_one_entry_make_one_fragment() -> None:
    """13."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0, 1, lac=0)
        for bookie in ("b0", "b1"):
            cluster.bookies[bookie].before = down("add")
        assert await planted.read_all() == [0, 1]
        fragments = (await planted.metadata()).fragments
        assert [each.first for each in fragments] == [0, 1]
        assert sorted(fragments[1].bookies) == ["b2", "b3", "b4"]

    scenario(5, body)


def test_a_spare_that_fails_too_is_replaced_in_turn() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0)
        for bookie in ("b0", "b3", "b4"):
            cluster.bookies[bookie].before = down("add")
        assert await planted.read_all() == [0]
        fragments = (await planted.metadata()).fragments
        assert [sorted(each.bookies) for each in fragments] == [["b1", "b2", "b5"]]

    scenario(6, body)


def test_a_mended_ensemble_stays_in_memory_until_the_end() -> None:
    """TLA: written earlier, a second recovery would ask bookies that never had the entries."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0, 1)
        seen: list[LedgerMetadata] = []

        async def look() -> None:
            seen.append(await planted.metadata())

        cluster.bookies["b2"].before = down("add")
        cluster.bookies["b3"].before = after_calls("add", 1, look)
        assert await planted.read_all() == [0, 1]
        assert [each.fragments for each in seen] == [(Fragment(0, ("b0", "b1", "b2")),)]
        assert (await planted.metadata()).fragments == (Fragment(0, ("b0", "b1", "b3")),)

    scenario(4, body)
