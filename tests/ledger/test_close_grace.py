"""The grace of a close: a bookie that is only slow gets its copies, any other delays nothing."""

from __future__ import annotations

import asyncio

import pytest

from quire.errors import HandleClosedError, LedgerFencedError
from quire.ledger.metadata import LedgerState
from quire.ledger.quorum import Replication
from tests.support.virtual import virtually
from tests.support.writing import Writing, settle


async def fill(world: Writing, count: int = 5) -> None:
    for number in range(count):
        await world.writer.append(b"%d" % number)


def now() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.parametrize("replication", [Replication(3, 3, 2), Replication(4, 3, 2)])
def test_a_slow_bookie_gets_its_copies_before_the_close(replication: Replication) -> None:
    async def main() -> None:
        async with Writing(replication, runs_outstanding_max=1) as world:
            gate = world.bookies["c"].hold()
            await fill(world)
            asyncio.get_running_loop().call_later(0.5, gate.set)
            await world.writer.close()
            assert 0.5 <= now() < 0.6
            assert (await world.metadata()).is_closed
            owed = [entry for entry in range(5) if "c" in world.writer._metadata.write_set(entry)]
            assert world.bookies["c"].held() == owed

    virtually(main)


def test_without_a_slow_bookie_a_close_waits_for_nothing() -> None:
    async def main() -> None:
        async with Writing(Replication(4, 3, 2)) as world:
            await fill(world, 3)
            await world.writer.close()
            assert now() < 0.1

    virtually(main)


def test_a_bookie_that_hangs_delays_a_close_by_the_grace() -> None:
    async def main() -> None:
        async with Writing(close_grace=2.0) as world:
            world.bookies["c"].hold()
            await fill(world)
            await world.writer.close()
            assert 2.0 <= now() < 2.1
            assert (await world.metadata()).is_closed

    virtually(main)


def test_a_bookie_that_is_down_is_not_waited_for() -> None:
    async def main() -> None:
        async with Writing(bookies=3) as world:
            world.bookies["c"].fail()
            await fill(world)
            await world.writer.close()
            assert now() < 0.1
            assert (await world.metadata()).is_closed

    virtually(main)


def test_a_bookie_that_fails_during_the_grace_ends_it() -> None:
    async def main() -> None:
        async with Writing(bookies=3, request_timeout=0.3) as world:
            world.bookies["c"].hold()
            await fill(world)
            await world.writer.close()
            assert 0.3 <= now() < 0.4

    virtually(main)


def test_an_abandoned_writer_ends_its_grace() -> None:
    async def main() -> None:
        async with Writing() as world:
            world.bookies["c"].hold()
            await fill(world)
            closing = asyncio.ensure_future(world.writer.close())
            await settle()
            world.writer.abandon()
            with pytest.raises(HandleClosedError):
                await closing
            assert now() < 0.1

    virtually(main)


def test_a_writer_that_is_fenced_ends_its_grace() -> None:
    async def main() -> None:
        async with Writing() as world:
            world.bookies["c"].hold()
            await fill(world)
            closing = asyncio.ensure_future(world.writer.close())
            await settle()
            await world.edit(lambda current: current.with_state(LedgerState.IN_RECOVERY))
            with pytest.raises(LedgerFencedError):
                await closing
            assert now() < 0.1

    virtually(main)
