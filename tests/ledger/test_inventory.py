"""The inventory of a ledger: what bookies say they hold, beside what metadata says they must."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.entry import BookieId, DigestKind, EntryId, LedgerId
from quire.errors import CorruptEntryError, NoSuchLedgerError, QuireError
from quire.ledger import inventory
from quire.ledger.inventory import Inventory, Shortage, compare, take_inventory
from quire.ledger.metadata import Fragment, LedgerMetadata, LedgerState
from quire.ledger.quorum import Replication
from quire.ledger.ranges import Ranges
from quire.ledger.writer import LedgerWriter
from tests.support.memory_cluster import Hook, MemoryCluster, down, hung, until
from tests.support.virtual import virtually

SECONDS = 1.0


async def taken(cluster: MemoryCluster, ledger: LedgerId) -> Inventory:
    return await take_inventory(cluster.catalog.records, cluster.roster, ledger, SECONDS)


async def written(cluster: MemoryCluster, replication: Replication | None = None) -> LedgerWriter:
    """The writer of a ledger of ten entries, of which every copy has arrived."""
    writer = await cluster.catalog.create(replication)
    await writer.append_many([b"x"] * 10)
    bookies = writer._metadata.last_fragment.bookies
    sets = [writer._metadata.write_set(entry) for entry in range(10)]
    assert {*chain.from_iterable(sets)} == set(bookies)
    await until(
        lambda: all(
            set(each) <= set(cluster.holders(writer.ledger, entry))
            for entry, each in enumerate(sets)
        )
    )
    return writer


@asynccontextmanager
async def closed_ledger(
    size: int = 3, replication: Replication | None = None
) -> AsyncIterator[tuple[MemoryCluster, LedgerMetadata]]:
    """A cluster of `size` bookies, and the metadata of a ledger as `written`, which is closed."""
    async with MemoryCluster(size) as cluster:
        writer = await written(cluster, replication)
        await writer.close()
        yield cluster, writer._metadata


def forget(cluster: MemoryCluster, bookie: BookieId, ledger: LedgerId, *entries: EntryId) -> None:
    for entry in entries:
        del cluster.bookies[bookie].ledgers[ledger].frames[entry]


@pytest.mark.parametrize("shape", [(3, 3, 2), (5, 3, 2), (4, 1, 1)])
def test_a_closed_ledger_has_all_copies(shape: tuple[int, int, int]) -> None:
    async def main() -> None:
        async with closed_ledger(6, Replication(*shape)) as (cluster, metadata):
            found = await taken(cluster, metadata.ledger)
            assert (found.compared_to, found.shortages, found.lost) == (9, [], [])
            named = sorted(metadata.last_fragment.bookies)
            assert [each.bookie for each in found.holdings] == named
            assert all(not each.missing and not each.error for each in found.holdings)
            for each in found.holdings:
                held = chain.from_iterable(range(low, high + 1) for low, high in each.held)
                assert list(held) == [
                    entry
                    for entry in range(10)
                    if each.bookie in cluster.holders(metadata.ledger, entry)
                ]

    virtually(main)


def test_what_bookies_lack_is_named_by_bookie_and_by_entry() -> None:
    async def main() -> None:
        async with closed_ledger() as (cluster, metadata):
            forget(cluster, "b0", metadata.ledger, 2, 3, 4, 7)
            forget(cluster, "b1", metadata.ledger, 4, 5, 7)
            forget(cluster, "b2", metadata.ledger, 7)
            found = await taken(cluster, metadata.ledger)
            assert [list(each.missing) for each in found.holdings] == [
                [(2, 4), (7, 7)],
                [(4, 5), (7, 7)],
                [(7, 7)],
            ]
            assert found.shortages == [
                Shortage(2, 3, copies=2, unknown=0),
                Shortage(4, 4, copies=1, unknown=0),
                Shortage(5, 5, copies=2, unknown=0),
                Shortage(7, 7, copies=0, unknown=0),
            ]
            assert found.lost == [Shortage(7, 7, copies=0, unknown=0)]

    virtually(main)


@pytest.mark.parametrize("trouble", [down("list_entries"), hung("list_entries")])
def test_a_bookie_without_an_answer_is_unknown_and_nothing_is_said_to_be_lost(
    trouble: Hook,
) -> None:
    async def main() -> None:
        async with closed_ledger() as (cluster, metadata):
            for bookie in ("b0", "b2"):
                forget(cluster, bookie, metadata.ledger, 9)
            cluster.bookies["b1"].before = trouble
            found = await taken(cluster, metadata.ledger)
            unknown = found.holdings[1]
            assert "is unavailable" in unknown.error
            assert (unknown.held, unknown.missing) == ((), ())
            assert found.shortages == [
                Shortage(0, 8, copies=2, unknown=1),
                Shortage(9, 9, copies=0, unknown=1),
            ]
            assert found.lost == []

    virtually(main)


def test_a_list_that_comes_in_pieces_is_put_together() -> None:
    async def main() -> None:
        async with closed_ledger(3, Replication(3, 2, 2)) as (cluster, metadata):
            whole = await taken(cluster, metadata.ledger)
            for bookie in cluster.bookies.values():
                bookie.ranges_max = 1
            assert await taken(cluster, metadata.ledger) == whole
            assert not whole.shortages

    virtually(main)


def test_a_bookie_that_left_the_cluster_is_unknown() -> None:
    async def main() -> None:
        async with closed_ledger(4) as (_, metadata):
            stranger = metadata.with_replica(0, 1, "never-seen")
            answers: dict[BookieId, Ranges | QuireError] = {
                each: [(0, 9)] for each in stranger.last_fragment.bookies if each != "never-seen"
            }
            found = compare(stranger, answers)
            assert found.shortages == [Shortage(0, 9, copies=2, unknown=1)]

    virtually(main)


def test_of_an_open_ledger_the_finished_fragments_are_compared() -> None:
    async def main() -> None:
        async with MemoryCluster(4) as cluster:
            writer = await written(cluster)
            assert (await taken(cluster, writer.ledger)).compared_to == -1
            gone = writer._metadata.last_fragment.bookies[0]
            cluster.bookies[gone].before = down("add")
            await writer.append_many([b"y"] * 5)
            await until(lambda: len(writer._metadata.fragments) == 2)
            await writer.append(b"z")
            forget(cluster, gone, writer.ledger, 1)
            found = await taken(cluster, writer.ledger)
            assert found.compared_to == 9
            assert len(found.holdings) == 4
            assert found.shortages == [Shortage(1, 1, copies=2, unknown=0)]

    virtually(main)


def test_a_bookie_that_metadata_does_not_name_is_shown_if_it_holds_something() -> None:
    async def main() -> None:
        async with closed_ledger(4) as (cluster, metadata):
            named = set(metadata.last_fragment.bookies)
            (other,) = set(cluster.bookies) - named
            assert other not in [
                each.bookie for each in (await taken(cluster, metadata.ledger)).holdings
            ]
            source = cluster.bookies[min(named)]
            run = await source.read(metadata.ledger, 3, 3)
            key = source.ledgers[metadata.ledger].key
            assert key is not None
            await cluster.bookies[other].add(metadata.ledger, key, run, recovery=True)
            found = await taken(cluster, metadata.ledger)
            (extra,) = [each for each in found.holdings if each.bookie == other]
            assert (list(extra.held), list(extra.missing)) == ([(3, 3)], [])
            assert found.shortages == []

    virtually(main)


def test_bookies_are_asked_again_when_metadata_changed_meanwhile() -> None:
    async def main() -> None:
        async with MemoryCluster(3) as cluster:
            writer = await written(cluster)
            asked = 0

            async def before(method: str, ledger: LedgerId) -> None:
                nonlocal asked
                if method == "list_entries":
                    asked += 1
                    await writer.close()

            cluster.bookies["b2"].before = before
            found = await taken(cluster, writer.ledger)
            assert asked == 4, "twice, each time until nothing more came"
            assert found.ledger.is_closed
            assert found.compared_to == 9

    virtually(main)


def test_a_ledger_that_is_deleted_meanwhile_is_not_said_to_be_lost() -> None:
    async def main() -> None:
        async with closed_ledger() as (cluster, metadata):

            async def before(method: str, ledger: LedgerId) -> None:
                await cluster.catalog.delete(ledger)
                cluster.bookies["b0"].before = down("nothing")

            cluster.bookies["b0"].before = before
            with pytest.raises(NoSuchLedgerError):
                await taken(cluster, metadata.ledger)

    virtually(main)


@pytest.mark.real_time
async def test_the_loop_goes_on_while_a_ledger_is_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A million striped entries take seconds of a busy core. A bookie that stood still so long
    would answer no writer.
    """
    went_on, loop = threading.Event(), asyncio.get_running_loop()

    def comparing(*args: Any) -> Inventory:
        loop.call_soon_threadsafe(went_on.set)
        assert went_on.wait(30), "the loop stood still"
        return compare(*args)

    monkeypatch.setattr(inventory, "compare", comparing)
    async with closed_ledger() as (cluster, metadata):
        found = await taken(cluster, metadata.ledger)
        assert (found.compared_to, list(found.shortages)) == (9, [])


def test_a_bookie_with_damage_says_so() -> None:
    async def main() -> None:
        async with closed_ledger() as (cluster, metadata):

            async def before(method: str, ledger: LedgerId) -> None:
                raise CorruptEntryError(ledger, 4, "its chunk fails its checksum")

            cluster.bookies["b1"].before = before
            found = await taken(cluster, metadata.ledger)
            assert "entry 4" in found.holdings[1].error

    virtually(main)


NAMES = [f"b{number}" for number in range(7)]


@st.composite
def ledgers(draw: st.DrawFn) -> LedgerMetadata:
    ensemble = draw(st.integers(1, 5))
    quorum = draw(st.integers(1, ensemble))
    firsts = sorted(draw(st.sets(st.integers(1, 30), max_size=3)))
    fragments = tuple(
        Fragment(first, tuple(draw(st.permutations(NAMES))[:ensemble])) for first in [0, *firsts]
    )
    last = draw(st.integers(max([-1, *firsts]), 40))
    return LedgerMetadata(
        ledger=1,
        replication=Replication(ensemble, quorum, quorum),
        digest=DigestKind.CRC32C,
        key_check="k",
        fragments=fragments,
        created_ms=0,
        token="t",
        state=LedgerState.CLOSED,
        last_entry=last,
        length=0,
    )


def as_ranges(entries: set[EntryId]) -> list[tuple[EntryId, EntryId]]:
    found: list[tuple[EntryId, EntryId]] = []
    for entry in sorted(entries):
        if found and found[-1][1] == entry - 1:
            found[-1] = (found[-1][0], entry)
        else:
            found.append((entry, entry))
    return found


@given(ledgers(), st.data())
def test_the_comparison_is_that_of_single_entries(
    metadata: LedgerMetadata, data: st.DataObject
) -> None:
    answers: dict[BookieId, Ranges | QuireError] = {}
    held: dict[BookieId, set[EntryId] | None] = {}
    for name in NAMES:
        entries = data.draw(st.none() | st.sets(st.integers(0, 45)))
        held[name] = entries
        answers[name] = CorruptEntryError(1, 0, "x") if entries is None else as_ranges(entries)
    found = compare(metadata, answers)
    assert metadata.last_entry is not None
    assert found.compared_to == metadata.last_entry
    counted = {
        entry: (each.copies, each.unknown)
        for each in found.shortages
        for entry in range(each.first, each.last + 1)
    }
    missing: dict[BookieId, set[EntryId]] = {name: set() for name in NAMES}
    for entry in range(metadata.last_entry + 1):
        holders = [held[name] for name in metadata.write_set(entry)]
        unknown = sum(each is None for each in holders)
        copies = sum(each is not None and entry in each for each in holders)
        whole = (metadata.replication.write_quorum, 0)
        assert counted.pop(entry, whole) == (copies, unknown)
        for name in metadata.write_set(entry):
            entries = held[name]
            if entries is not None and entry not in entries:
                missing[name].add(entry)
    assert counted == {}
    for each in found.holdings:
        lacked = chain.from_iterable(range(low, high + 1) for low, high in each.missing)
        assert set(lacked) == missing[each.bookie]
