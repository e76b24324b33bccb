"""Deferred sync: what is answered, what is confirmed, and that nothing confirmed can be lost."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.entry import NO_ENTRY, EntryId
from quire.errors import (
    AppendOutcomeUnknownError,
    HandleClosedError,
    LedgerFencedError,
    QuireError,
)
from quire.ledger.forcing import vouched
from quire.ledger.quorum import Replication
from quire.testing.sim.policy import Policy
from tests.support.memory_cluster import MemoryCluster
from tests.support.virtual import virtually
from tests.support.writing import LEDGER, Writing, settle

REPLICATIONS = [
    Replication(1, 1, 1),
    Replication(3, 3, 2),
    Replication(4, 2, 2),
    Replication(5, 3, 2),
]


def ranges(held: set[EntryId]) -> list[tuple[EntryId, EntryId]]:
    found: list[tuple[EntryId, EntryId]] = []
    for entry in sorted(held):
        if found and found[-1][1] == entry - 1:
            found[-1] = (found[-1][0], entry)
        else:
            found.append((entry, entry))
    return found


@given(
    st.sampled_from(REPLICATIONS),
    st.integers(0, 4),
    st.integers(0, 5),
    st.integers(0, 12),
    st.sets(st.integers(0, 20)),
)
def test_a_bookie_vouches_up_to_its_first_missing_entry(
    replication: Replication, position: int, first: int, more: int, held: set[int]
) -> None:
    position %= replication.ensemble
    last = first + more
    named = {entry for entry in held if first <= entry <= last}
    missing = [
        entry
        for entry in range(first, last + 1)
        if replication.is_written_to(entry, position) and entry not in held
    ]
    expected = min([last, *(entry - 1 for entry in missing)])
    assert vouched(replication, position, first, last, ranges(named)) == expected


class Deferring(Writing):
    """A writer with deferred sync."""

    deferred_sync = True


def test_appends_are_answered_and_lac_stands_still_until_it_is_forced() -> None:
    async def main() -> None:
        async with Deferring() as world:
            assert [await task for task in world.entries(3)] == [0, 1, 2]
            assert world.writer.last_confirmed == NO_ENTRY
            await settle(0.1)
            assert world.bookies["a"].held() == []
            assert world.bookies["a"].told == NO_ENTRY, "followers are told of nothing"
            assert await world.writer.force() == 2
            assert world.writer.last_confirmed == 2
            await settle(0.1)
            assert world.bookies["a"].held() == [0, 1, 2]
            assert world.bookies["a"].told == 2

    virtually(main)


def test_a_force_with_nothing_to_force_returns_at_once() -> None:
    async def main() -> None:
        async with Deferring() as world:
            assert await world.writer.force() == NO_ENTRY
        async with Writing() as world:
            await world.writer.append(b"a")
            assert await world.writer.force() == 0

    virtually(main)


def test_an_ack_quorum_of_syncs_is_enough() -> None:
    async def main() -> None:
        async with Deferring(Replication(3, 3, 2), bookies=3) as world:
            await world.writer.append(b"a")
            world.bookies["b"].fail()
            assert await world.writer.force() == 0

    virtually(main)


def test_every_write_set_needs_its_own_quorum() -> None:
    async def main() -> None:
        async with Deferring(Replication(4, 2, 2), bookies=4, append_timeout=2.0) as world:
            await asyncio.gather(*world.entries(4))
            world.bookies["c"].fail()
            with pytest.raises(AppendOutcomeUnknownError):
                await world.writer.force()
            assert world.writer.last_confirmed == 0, "entry 0 is on a and b, entry 1 on b and c"
            world.bookies["c"].heal()
            assert await world.writer.force() == 3

    virtually(main)


def test_a_bookie_that_lost_what_it_accepted_is_sent_it_again() -> None:
    async def main() -> None:
        async with Deferring(Replication(3, 3, 3), bookies=3) as world:
            await world.writer.append(b"a")
            world.bookies["b"].crash()
            assert await world.writer.force() == 0
            assert world.bookies["b"].held() == [0]
            assert world.bookies["b"].sent == [(0,), (0,)]

    virtually(main)


def test_a_replacement_is_sent_everything_not_forced() -> None:
    async def main() -> None:
        async with Deferring(Replication(3, 3, 3), bookies=4) as world:
            await world.writer.append(b"a")
            await world.writer.force()
            await asyncio.gather(*world.entries(2, first=1))
            world.bookies["b"].fail()
            assert await world.writer.force() == 2
            assert world.bookies["d"].held() == [1, 2]
            assert [each.first for each in (await world.metadata()).fragments] == [0, 1]

    virtually(main)


def test_a_full_writer_forces_by_itself() -> None:
    async def main() -> None:
        async with Deferring(entries_in_flight_max=4) as world:
            assert [await task for task in world.entries(50)] == list(range(50))
            assert world.writer.last_confirmed >= 45

    virtually(main)


def test_closing_forces_what_was_answered() -> None:
    async def main() -> None:
        async with Deferring() as world:
            await asyncio.gather(*world.entries(3))
            await world.writer.close()
            assert (await world.metadata()).last_entry == 2

    virtually(main)


def test_who_waits_for_a_force_is_told_when_the_writer_ends() -> None:
    async def main() -> None:
        async with Deferring() as world:
            await world.writer.append(b"a")
            for name in "abc":
                world.bookies[name].hold_syncs()
            force = asyncio.create_task(world.writer.force())
            await settle()
            world.writer.abandon()
            with pytest.raises(AppendOutcomeUnknownError):
                await force
            with pytest.raises(HandleClosedError):
                await world.writer.force()

    virtually(main)


def test_a_fence_refuses_the_force() -> None:
    async def main() -> None:
        async with Deferring() as world:
            await world.writer.append(b"a")
            await world.bookies["b"].read_tail(LEDGER, fence_key=world.sealer.access_key)
            with pytest.raises(LedgerFencedError):
                await world.writer.force()

    virtually(main)


@pytest.mark.parametrize("seed", range(40))
def test_whatever_crashes_forced_entries_stay(seed: int) -> None:
    """Bookies lose what is not durable at random moments; what a force confirmed is recovered."""

    async def main() -> None:
        rng = random.Random(seed)
        async with MemoryCluster(5, seed=seed) as cluster:
            shape = rng.choice(REPLICATIONS)
            writer = await cluster.catalog.create(shape, deferred_sync=True)
            forced = NO_ENTRY
            for _ in range(30):
                match rng.randrange(4):
                    case 0:
                        with suppress(QuireError):
                            forced = await writer.force()
                    case 1:
                        cluster.bookies[f"b{rng.randrange(5)}"].crash()
                    case _:
                        await writer.append(b"%d" % (writer.last_pushed + 1))
            writer.abandon()
            for bookie in cluster.bookies.values():
                bookie.crash()
            reader = await cluster.catalog.open(writer.ledger)
            read = [(entry.entry, entry.payload) async for entry in reader.read()]
            assert read == [(entry, b"%d" % entry) for entry in range(len(read))]
            assert len(read) > forced
            await writer.close()

    virtually(main, seed, Policy.WALK)
