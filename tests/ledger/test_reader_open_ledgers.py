"""Reading open ledgers: what is confirmed, who says so, and no further."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from quire.entry import LedgerId
from quire.errors import InvalidRequestError, NoSuchEntryError, UnreadableError
from tests.ledger.reading import ids, opened, scenario
from tests.support.memory_cluster import MemoryCluster, down, hung
from tests.support.planted_ledger import PlantedLedger


def test_reads_stop_at_what_is_confirmed() -> None:
    """35: LAC rides on the next entry, so the last one confirmed is not yet known."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", *range(6), lac=3)
        reader = await opened(planted)
        assert await reader.last_confirmed() == 3
        assert await ids(reader) == [0, 1, 2, 3]
        with pytest.raises(InvalidRequestError, match="past the last confirmed entry 3"):
            await reader.read_entry(4)
        with pytest.raises(InvalidRequestError, match="past the last confirmed"):
            await ids(reader, 0, 4)
        assert not cluster.bookies["b0"].look(7).fenced

    scenario(3, body)


def test_an_explicit_lac_is_seen() -> None:
    """35."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", *range(6), lac=3)
        packet, key = planted.sealer.seal_lac(5), planted.sealer.access_key
        for bookie in ("b0", "b1"):
            await cluster.bookies[bookie].write_lac(7, key, packet)
        assert await (await opened(planted)).last_confirmed() == 5

    scenario(3, body)


def test_lac_never_falls() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1", *range(6), lac=3)
        reader = await opened(planted)
        assert await reader.last_confirmed() == 3
        for bookie in ("b0", "b1"):
            cluster.bookies[bookie].ledgers.clear()
        assert await reader.last_confirmed() == 3

    scenario(3, body)


def test_a_fragment_that_began_confirms_everything_below_it() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"), (4, "b3 b4 b5"))
        await planted.add("b0 b1 b2", *range(4))
        reader = await opened(planted)
        assert await reader.last_confirmed() == 3
        assert await ids(reader) == [0, 1, 2, 3]

    scenario(6, body)


@pytest.mark.parametrize("hook", [down(), hung()], ids=["down", "hung"])
def test_lac_needs_coverage(hook: Callable[[str, LedgerId], Awaitable[None]]) -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1", 0, 1, lac=0)
        cluster.bookies["b0"].before = hook
        reader = await opened(planted)
        assert await reader.last_confirmed() == 0
        cluster.bookies["b1"].before = hook
        with pytest.raises(UnreadableError, match="1 of 3"):
            await reader.last_confirmed()

    scenario(3, body)


def test_a_damaged_tail_is_no_answer() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0, 1, lac=0)
        planted.corrupt("b0", 1)
        planted.corrupt("b1", 1)
        with pytest.raises(UnreadableError):
            await (await opened(planted)).last_confirmed()

    scenario(3, body)


def test_a_ledger_closed_meanwhile_is_noticed() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0, 1)
        reader = await opened(planted)
        await planted.put((await planted.metadata()).closed(1, 20))
        assert await ids(reader) == [0, 1]
        assert reader.is_closed

    scenario(3, body)


def test_unconfirmed_entries_can_be_asked_for() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1", 0, 1)
        await planted.add("b2", 0, 1, 2)
        reader = await opened(planted)
        entries = reader.read_unconfirmed(0, 9)
        assert [(await anext(entries)).entry for _ in range(3)] == [0, 1, 2]
        with pytest.raises(NoSuchEntryError, match="no entry 3"):
            await anext(entries)

    scenario(3, body)


@pytest.mark.parametrize(("first", "before", "missing"), [(0, [0, 1], 2), (2, [], 2), (7, [], 7)])
def test_of_a_closed_ledger_what_was_left_out_is_not_there(
    first: int, before: list[int], missing: int
) -> None:
    """Entry 2 was on its way when its writer died: whoever closed the ledger did not meet it."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0, 1)
        await planted.add("b2", 2)
        await planted.put((await planted.metadata()).closed(1, 20))
        reader = await opened(planted)
        entries = reader.read_unconfirmed(first, 9)
        assert [(await anext(entries)).entry for _ in before] == before
        with pytest.raises(NoSuchEntryError, match=f"no entry {missing}"):
            await anext(entries)

    scenario(3, body)
