"""Bookies that are fenced, refuse, are busy, slow or hung, and what their writer makes of it."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from quire.errors import (
    AppendOutcomeUnknownError,
    BookieBusyError,
    LedgerFencedError,
    ReadOnlyBookieError,
    RetryError,
    UnauthorizedError,
)
from quire.ledger.metadata import LedgerState
from tests.support.virtual import virtually
from tests.support.writing import LEDGER, Writing, settle


def test_a_fence_ends_the_writer_with_every_outcome_unknown() -> None:
    async def main() -> None:
        async with Writing(entries_in_flight_max=4) as world:
            await world.writer.append(b"0")
            gates = [world.bookies[name].hold() for name in "bc"]
            tasks = world.entries(5, 1)
            await settle()
            failed: list[int] = []

            def note(number: int, task: asyncio.Task[int]) -> None:
                failed.append(number)

            for number, task in enumerate(tasks):
                task.add_done_callback(partial(note, number))
            await world.bookies["b"].read_tail(LEDGER, fence_key=world.sealer.access_key)
            for gate in gates:
                gate.set()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert [type(result) for result in results] == [LedgerFencedError] * 5
            assert failed == list(range(5)), "in order"
            for _ in range(2):
                with pytest.raises(LedgerFencedError):
                    await world.writer.append(b"late")
            with pytest.raises(LedgerFencedError):
                await world.writer.close()
            assert (await world.metadata()).state is LedgerState.OPEN, "untouched"
            assert world.writer.last_confirmed == 0

    virtually(main)


def test_a_refused_key_ends_the_writer() -> None:
    async def main() -> None:
        async with Writing() as world:
            for name in "ab":
                world.bookies[name].fail_with(UnauthorizedError(LEDGER))
            with pytest.raises(AppendOutcomeUnknownError, match="password"):
                await world.writer.append(b"x")
            with pytest.raises(UnauthorizedError):
                await world.writer.append(b"x")
            with pytest.raises(UnauthorizedError):
                await world.writer.submit(b"x")

    virtually(main)


def test_a_busy_bookie_is_asked_again_and_not_replaced() -> None:
    async def main() -> None:
        async with Writing() as world:
            world.bookies["a"].fail_with(BookieBusyError("a", "queue full"))
            await asyncio.gather(*world.entries(3))
            await asyncio.sleep(1)
            world.bookies["a"].heal()
            await asyncio.sleep(1)
            assert world.bookies["a"].held() == [0, 1, 2]
            assert len((await world.metadata()).fragments) == 1

    virtually(main)


def test_a_bookie_that_stays_busy_is_replaced() -> None:
    async def main() -> None:
        async with Writing() as world:
            world.bookies["a"].fail_with(BookieBusyError("a", "queue full"))
            await world.writer.append(b"x")
            await asyncio.sleep(world.options.request_timeout + 1)
            assert (await world.metadata()).last_fragment.bookies == ("d", "b", "c")

    virtually(main)


def test_a_read_only_bookie_is_replaced() -> None:
    async def main() -> None:
        async with Writing() as world:
            world.bookies["b"].fail_with(ReadOnlyBookieError("b", "disk full"))
            await world.writer.append(b"x")
            await settle()
            assert (await world.metadata()).last_fragment.bookies == ("a", "d", "c")

    virtually(main)


def test_a_fence_is_noticed_even_when_idle() -> None:
    async def main() -> None:
        async with Writing() as world:
            await world.writer.append(b"x")
            await world.bookies["a"].read_tail(LEDGER, fence_key=world.sealer.access_key)
            await asyncio.sleep(0.1)
            with pytest.raises(LedgerFencedError):
                await world.writer.append(b"x")
            assert world.writer.last_pushed == 0, "nothing was sent any more"

    virtually(main)


def test_a_slow_bookie_holds_the_writer_back_instead_of_losing_copies() -> None:
    """Entries are confirmed without it, but at most so many that it has yet to be sent."""

    async def main() -> None:
        async with Writing(entries_in_flight_max=4, runs_outstanding_max=1) as world:
            gate = world.bookies["c"].hold()
            confirmed = 0
            for number in range(20):
                task = world.entries(1, number)[0]
                await settle(0.01)
                if not task.done():
                    break
                confirmed += 1
            assert 4 <= confirmed <= 6
            gate.set()
            world.bookies["c"].heal()
            await world.writer.drain()
            await settle()
            assert world.bookies["c"].held() == list(range(confirmed + 1))

    virtually(main)


def test_a_hung_bookie_that_everybody_waits_for_is_replaced_early() -> None:
    async def main() -> None:
        async with Writing(entries_in_flight_max=4, stall_timeout=1.0) as world:
            world.bookies["c"].hold()
            for number in range(20):
                await asyncio.gather(*world.entries(1, number))
            assert asyncio.get_running_loop().time() < 1.5
            assert (await world.metadata()).last_fragment.bookies == ("a", "b", "d")

    virtually(main)


def test_running_out_of_room_without_a_failure_is_reported_as_busy() -> None:
    async def main() -> None:
        async with Writing(
            append_timeout=2.0, request_timeout=60.0, stall_timeout=60.0, entries_in_flight_max=1
        ) as world:
            for name in "abc":
                world.bookies[name].hold()
            results = await asyncio.gather(*world.entries(2), return_exceptions=True)
            assert isinstance(results[0], AppendOutcomeUnknownError)
            assert isinstance(results[1], RetryError)

    virtually(main)
