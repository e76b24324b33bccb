"""Delayed changes: a failed bookie keeps its place while the others suffice."""

from __future__ import annotations

import asyncio

from quire.errors import ReadOnlyBookieError
from quire.ledger.quorum import Replication
from tests.support.virtual import virtually
from tests.support.writing import Writing, settle


def test_a_delayed_change_leaves_a_failed_bookie_its_place_while_the_others_suffice() -> None:
    async def main() -> None:
        async with Writing(Replication(3, 3, 2), bookies=5, delay_ensemble_change=True) as world:
            world.bookies["a"].fail()
            await asyncio.gather(*world.entries(3))
            await settle(5)
            assert len((await world.metadata()).fragments) == 1
            # A second one of the same write set: now it must not wait.
            world.bookies["b"].fail()
            await asyncio.gather(*world.entries(3, first=3))
            await settle()
            last = (await world.metadata()).last_fragment
            assert (last.first, last.bookies[2]) == (3, "c")
            assert not {"a", "b"}.intersection(last.bookies)

    virtually(main)


def test_a_delayed_change_probes_the_bookie_that_kept_its_place() -> None:
    async def main() -> None:
        async with Writing(Replication(3, 3, 2), bookies=4, delay_ensemble_change=True) as world:
            world.bookies["a"].fail()
            await world.writer.append(b"a")
            world.bookies["a"].heal()
            await settle(2)
            await world.writer.append(b"b")
            await settle()
            assert world.bookies["a"].held() == [1]
            assert world.bookies["d"].held() == []

    virtually(main)


def test_a_read_only_bookie_is_replaced_even_if_changes_are_delayed() -> None:
    async def main() -> None:
        async with Writing(Replication(3, 3, 2), bookies=4, delay_ensemble_change=True) as world:
            world.bookies["a"].fail_with(ReadOnlyBookieError("a", "by order of the test"))
            await world.writer.append(b"a")
            await settle(1)
            assert "a" not in (await world.metadata()).last_fragment.bookies

    virtually(main)


def test_striped_write_sets_are_counted_one_by_one() -> None:
    async def main() -> None:
        async with Writing(Replication(4, 2, 1), bookies=6, delay_ensemble_change=True) as world:
            world.bookies["a"].fail()
            world.bookies["c"].fail()
            await asyncio.gather(*world.entries(8))
            await settle(1)
            assert len((await world.metadata()).fragments) == 1, "no write set has both"
            world.bookies["b"].fail()
            await asyncio.gather(*world.entries(8, first=8))
            await settle(1)
            assert "b" not in (await world.metadata()).last_fragment.bookies

    virtually(main)
