"""Spares that are missing, late or few: nothing hangs (numbers: BookKeeper's issues)."""

from __future__ import annotations

import asyncio

from tests.ledger.changing import ensembles
from tests.support.virtual import virtually
from tests.support.writing import Writing, settle


def test_a_change_without_replacement_does_not_hang_the_writer() -> None:
    """4261: a second failure found nothing to change and nobody ran the ack pump again."""

    async def main() -> None:
        async with Writing(bookies=3) as world:
            gate = world.bookies["b"].hold()
            world.bookies["a"].fail()
            tasks = world.entries(3)
            await settle()
            gate.set()
            assert [await task for task in tasks] == [0, 1, 2]

    virtually(main)


def test_without_a_spare_the_writer_goes_on_with_an_ack_quorum() -> None:
    async def main() -> None:
        async with Writing(bookies=3) as world:
            world.bookies["a"].fail()
            assert [await task for task in world.entries(3)] == [0, 1, 2]
            await asyncio.sleep(10)
            tries = len(world.bookies["a"].sent)
            assert tries < 20, "probed with back-off"
            world.bookies["a"].heal()
            await asyncio.gather(*world.entries(2, 3))
            await asyncio.sleep(1.1)
            await asyncio.gather(*world.entries(2, 5))
            await settle()
            assert world.bookies["a"].held()[-1] == 6
            assert ensembles(await world.metadata()) == [(0, "abc")]

    virtually(main)


def test_a_spare_that_appears_later_is_used() -> None:
    async def main() -> None:
        async with Writing() as world:
            world.roster.hidden.add("d")
            world.bookies["a"].fail()
            await asyncio.gather(*world.entries(3))
            assert ensembles(await world.metadata()) == [(0, "abc")]
            world.roster.hidden.clear()
            await asyncio.sleep(1.1)
            await world.writer.append(b"3")
            await asyncio.sleep(1.1)
            assert [each for _, each in ensembles(await world.metadata())] == ["abc", "dbc"]
            first = (await world.metadata()).last_fragment.first
            assert world.bookies["d"].held() == list(range(first, 4))

    virtually(main)


def test_below_an_ack_quorum_appends_stall_until_bookies_return() -> None:
    async def main() -> None:
        async with Writing(bookies=3) as world:
            for name in "ab":
                world.bookies[name].fail()
            tasks = world.entries(3)
            await asyncio.sleep(10)
            assert not any(task.done() for task in tasks)
            world.bookies["b"].heal()
            assert [await task for task in tasks] == [0, 1, 2]
            assert world.bookies["b"].held() == world.bookies["c"].held() == [0, 1, 2]

    virtually(main)


def test_half_a_repair_is_better_than_none() -> None:
    async def main() -> None:
        async with Writing(bookies=4) as world:
            for name in "ab":
                world.bookies[name].fail()
            assert [await task for task in world.entries(3)] == [0, 1, 2]
            assert ensembles(await world.metadata()) == [(0, "dbc")]

    virtually(main)


def test_a_bookie_that_just_failed_is_no_spare() -> None:
    async def main() -> None:
        async with Writing(bookies=4, quarantine=30.0) as world:
            world.bookies["a"].fail()
            await world.writer.append(b"0")
            await settle()
            world.bookies["a"].heal()
            world.bookies["b"].fail()
            await world.writer.append(b"1")
            await asyncio.sleep(5)
            assert ensembles(await world.metadata())[-1][1] == "dbc", "b stays, down"
            await asyncio.sleep(30)
            await world.writer.append(b"2")
            await asyncio.sleep(2)
            assert ensembles(await world.metadata())[-1][1] == "dac"

    virtually(main)


def test_a_spare_is_used_even_while_the_old_bookie_is_being_probed() -> None:
    async def main() -> None:
        async with Writing(request_timeout=5.0) as world:
            world.roster.hidden.add("d")
            world.bookies["a"].hold()
            await world.writer.append(b"0")
            await asyncio.sleep(5.1)
            await world.writer.append(b"1")
            await settle()
            assert len(world.bookies["a"].sent) == 2, "the probe hangs like the run before it"
            world.roster.hidden.clear()
            await asyncio.sleep(1.0)
            assert ensembles(await world.metadata())[-1][1] == "dbc"

    virtually(main)
