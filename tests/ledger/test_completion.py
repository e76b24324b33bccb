"""Full quorum: a closed ledger has every entry on its whole write set, whoever closed it."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.entry import EntryId
from quire.errors import CorruptEntryError, NotEnoughBookiesError, QuireError
from quire.ledger.completion import missing, stretches
from quire.ledger.metadata import LedgerMetadata
from quire.ledger.options import LedgerOptions
from quire.ledger.quorum import Replication
from tests.sim.policy import Policy
from tests.support.memory_cluster import MemoryCluster, down
from tests.support.virtual import virtually

OPTIONS = LedgerOptions(request_timeout=1.0, quarantine=1.0)
PATIENCE = 0.2


def is_full(cluster: MemoryCluster, metadata: LedgerMetadata) -> bool:
    assert metadata.last_entry is not None
    return all(
        set(metadata.write_set(entry)) <= set(cluster.holders(metadata.ledger, entry))
        for entry in range(metadata.last_entry + 1)
    )


@given(st.lists(st.integers(0, 30), unique=True), st.integers(0, 10), st.integers(-1, 30))
def test_what_is_missing(held: list[EntryId], first: int, last: int) -> None:
    ranges = [(part[0], part[-1]) for part in stretches(sorted(held))] if held else []
    expected = [entry for entry in range(first, last + 1) if entry not in held]
    assert list(missing(ranges, first, last)) == expected


def test_a_bookie_that_was_away_is_given_what_it_missed_before_the_writer_closes() -> None:
    async def main(full_quorum: bool) -> bool:
        async with MemoryCluster(3, options=OPTIONS) as cluster:
            writer = await cluster.catalog.create(full_quorum=full_quorum)
            assert writer.metadata.full_quorum is full_quorum
            away = writer.metadata.last_fragment.bookies[1]
            await writer.append(b"a")
            cluster.bookies[away].before = down("add")
            await writer.append(b"b")
            cluster.bookies[away].before = down("nothing")
            await asyncio.sleep(PATIENCE)
            await writer.append(b"c")
            await writer.close()
            return is_full(cluster, await cluster.catalog.metadata(writer.ledger))

    assert virtually(lambda: main(True))
    assert not virtually(lambda: main(False)), "without the option Qa copies are enough"


def test_nothing_is_copied_that_a_later_piece_of_a_list_names() -> None:
    async def main() -> None:
        async with MemoryCluster(4, options=OPTIONS) as cluster:
            writer = await cluster.catalog.create(Replication(4, 3, 2), full_quorum=True)
            bookies = writer.metadata.last_fragment.bookies
            await writer.append_many([b"x"] * 12)
            cluster.bookies[bookies[0]].before = down("add")
            await writer.append(b"x")
            cluster.bookies[bookies[0]].before = down("nothing")
            await asyncio.sleep(PATIENCE)
            copied: list[str] = []

            async def before(method: str, ledger: int) -> None:
                copied.extend([method] if method == "add" else [])

            for bookie in bookies[1:]:
                cluster.bookies[bookie].before = before
            for each in cluster.bookies.values():
                each.ranges_max = 1
            await writer.close()
            assert is_full(cluster, await cluster.catalog.metadata(writer.ledger))
            assert copied == []

    virtually(main)


def test_a_bookie_that_cannot_say_what_it_holds_is_given_all_of_it_again() -> None:
    """Found by the simulator: of a ledger on all bookies there are, none could take its place."""

    async def main() -> None:
        async with MemoryCluster(3, options=OPTIONS) as cluster:
            writer = await cluster.catalog.create(full_quorum=True)
            damaged = writer.metadata.last_fragment.bookies[1]
            cluster.bookies[damaged].before = down("add")
            await writer.append(b"a")
            await writer.append(b"b")

            async def before(method: str, ledger: int) -> None:
                if method == "list_entries":
                    raise CorruptEntryError(ledger, 0, "its chunk fails its checksum")

            cluster.bookies[damaged].before = before
            await writer.close()
            assert is_full(cluster, await cluster.catalog.metadata(writer.ledger))

    virtually(main)


def test_a_bookie_lost_for_good_is_replaced_in_every_fragment() -> None:
    async def main() -> None:
        async with MemoryCluster(5, options=OPTIONS) as cluster:
            writer = await cluster.catalog.create(Replication(3, 3, 2), full_quorum=True)
            lost = writer.metadata.last_fragment.bookies[0]
            await writer.append(b"a")
            cluster.bookies[lost].before = down()
            await cluster.unregister(lost)
            await writer.append(b"b")
            await asyncio.sleep(PATIENCE)
            assert len(writer.metadata.fragments) == 2
            await writer.close()
            metadata = await cluster.catalog.metadata(writer.ledger)
            assert all(lost not in fragment.bookies for fragment in metadata.fragments)
            assert is_full(cluster, metadata)

    virtually(main)


def test_without_a_spare_it_is_not_closed_and_closing_can_be_repeated() -> None:
    async def main() -> None:
        async with MemoryCluster(3, options=OPTIONS) as cluster:
            writer = await cluster.catalog.create(full_quorum=True)
            cluster.bookies["b1"].before = down()
            await writer.append(b"a")
            with pytest.raises(NotEnoughBookiesError):
                await writer.close()
            assert not (await cluster.catalog.metadata(writer.ledger)).is_closed
            await cluster.register("b3")
            await asyncio.sleep(PATIENCE)
            await writer.close()
            assert is_full(cluster, await cluster.catalog.metadata(writer.ledger))

    virtually(main)


def test_recovery_completes_the_confirmed_part_too() -> None:
    async def main() -> None:
        async with MemoryCluster(4, options=OPTIONS) as cluster:
            writer = await cluster.catalog.create(full_quorum=True)
            await writer.append(b"a")
            await writer.append(b"b")
            ensemble = writer.metadata.last_fragment.bookies
            await asyncio.sleep(PATIENCE)
            writer.abandon()
            lacking = cluster.bookies[ensemble[2]].ledgers[writer.ledger]
            lacking.frames.clear()
            reader = await cluster.catalog.open(writer.ledger)
            assert [entry.payload async for entry in reader.read()] == [b"a", b"b"]
            assert is_full(cluster, reader.metadata)
            assert ensemble[2] in reader.metadata.last_fragment.bookies, "it was not replaced"

    virtually(main)


def test_a_recovery_that_cannot_complete_leaves_the_ledger_in_recovery() -> None:
    async def main() -> None:
        async with MemoryCluster(3, options=OPTIONS) as cluster:
            writer = await cluster.catalog.create(full_quorum=True)
            await writer.append(b"a")
            writer.abandon()
            cluster.bookies["b2"].before = down()
            with pytest.raises(NotEnoughBookiesError):
                await cluster.catalog.open(writer.ledger)
            assert (await cluster.catalog.metadata(writer.ledger)).state == "in-recovery"
            cluster.bookies["b2"].before = down("nothing")
            reader = await cluster.catalog.open(writer.ledger)
            assert is_full(cluster, reader.metadata)

    virtually(main)


def test_a_replacement_that_fails_is_replaced_in_turn() -> None:
    async def main() -> None:
        async with MemoryCluster(6, options=OPTIONS) as cluster:
            writer = await cluster.catalog.create(full_quorum=True)
            ensemble = writer.metadata.last_fragment.bookies
            await writer.append(b"a")
            writer.abandon()
            spares = sorted(set(cluster.bookies) - set(ensemble))
            cluster.bookies[ensemble[0]].before = down()
            for bookie in spares[:2]:
                cluster.bookies[bookie].before = down("add")
            reader = await cluster.catalog.open(writer.ledger)
            assert reader.metadata.last_fragment.bookies[0] == spares[2]
            assert is_full(cluster, reader.metadata)

    virtually(main)


@pytest.mark.parametrize("seed", range(30))
def test_whatever_fails_a_closed_ledger_is_full(seed: int) -> None:
    async def main() -> None:
        rng = random.Random(seed)
        async with MemoryCluster(7, options=OPTIONS, seed=seed) as cluster:
            shape = rng.choice([Replication(3, 3, 2), Replication(4, 3, 2), Replication(4, 2, 1)])
            writer = await cluster.catalog.create(shape, full_quorum=True)
            for number in range(20):
                bookie = cluster.bookies[f"b{rng.randrange(7)}"]
                if rng.random() < 0.2:
                    bookie.before = down(rng.choice(["add", "list_entries", "read"]))
                elif rng.random() < 0.3:
                    bookie.before = down("nothing")
                await writer.append(b"%d" % number)
            for name in rng.sample(sorted(cluster.bookies), 5):
                cluster.bookies[name].before = down("nothing")
            with suppress(QuireError):
                await writer.close()
            writer.abandon()
            metadata = await cluster.catalog.metadata(writer.ledger)
            if not metadata.is_closed:
                for bookie in cluster.bookies.values():
                    bookie.before = down("nothing")
                metadata = (await cluster.catalog.open(writer.ledger)).metadata
            assert metadata.last_entry == 19
            assert is_full(cluster, metadata)

    virtually(main, seed, Policy.WALK)
