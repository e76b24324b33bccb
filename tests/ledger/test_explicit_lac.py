"""LAC is told once, when nothing else carries it, and within its time."""

from __future__ import annotations

import asyncio

from quire.aio.later import Later
from quire.ledger.explicit_lac import ExplicitLac
from tests.support.virtual import virtually


def test_told_once_after_falling_idle() -> None:
    async def main() -> None:
        loop, told = asyncio.get_running_loop(), list[tuple[float, int]]()
        teller = ExplicitLac(Later(0.010), lambda lac: told.append((round(loop.time(), 4), lac)))
        teller.sent()
        await asyncio.sleep(0.004)
        teller.confirmed(0)
        teller.confirmed(3)
        await asyncio.sleep(1)
        assert told == [(0.014, 3)]
        teller.confirmed(3)
        await asyncio.sleep(1)
        assert len(told) == 1

    virtually(main)


def test_an_entry_that_carries_lac_makes_it_needless() -> None:
    async def main() -> None:
        told: list[int] = []
        teller = ExplicitLac(Later(0.010), told.append)
        teller.confirmed(0)
        await asyncio.sleep(0.005)
        teller.told = 0
        await asyncio.sleep(1)
        assert told == []

    virtually(main)


def test_entries_that_keep_coming_put_it_off() -> None:
    async def main() -> None:
        told: list[int] = []
        teller = ExplicitLac(Later(0.010), told.append)
        for lac in range(20):
            teller.told = lac - 1
            teller.sent()
            teller.confirmed(lac)
            await asyncio.sleep(0.009)
        assert told == []
        await asyncio.sleep(0.002)
        assert told == [19]
        teller.confirmed(20)
        teller.stop()
        await asyncio.sleep(1)
        assert told == [19]

    virtually(main)


def test_who_is_answered_in_the_last_moment_may_still_append() -> None:
    async def main() -> None:
        loop, told = asyncio.get_running_loop(), list[int]()
        teller = ExplicitLac(Later(0.010), told.append)

        def append() -> None:
            teller.told = 0
            teller.sent()

        loop.call_later(0.010, lambda: loop.call_soon(append))
        teller.confirmed(0)
        await asyncio.sleep(1)
        assert told == []

    virtually(main)


def test_nothing_is_told_after_the_end() -> None:
    async def main() -> None:
        loop, told = asyncio.get_running_loop(), list[int]()
        teller = ExplicitLac(Later(0.010), told.append)
        teller.confirmed(0)
        loop.call_later(0.010, teller.stop)  # in the very turn in which the time is up
        await asyncio.sleep(1)
        assert told == []

    virtually(main)


def test_a_caller_that_was_just_answered_may_still_append() -> None:
    """In a busy loop the timer comes late: the entry after the one it was set for is confirmed."""

    async def main() -> None:
        loop, told = asyncio.get_running_loop(), list[int]()
        later = Later(0.010)
        teller = ExplicitLac(later, told.append)

        def append() -> None:
            teller.told = 1
            teller.sent()

        def answer() -> None:
            teller.confirmed(1)
            loop.call_soon(append)

        later.call(loop, answer)  # in the very step in which LAC is looked at
        teller.confirmed(0)
        teller.told = 0
        await asyncio.sleep(1)
        assert told == []
        teller.confirmed(2)
        await asyncio.sleep(1)
        assert told == [2]

    virtually(main)
