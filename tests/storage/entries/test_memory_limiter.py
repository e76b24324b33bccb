"""The gate bounds bytes, keeps the order, and forgets nobody."""

from __future__ import annotations

import asyncio

import pytest

from quire.errors import BookieBusyError, ReadOnlyBookieError
from quire.storage.entries.memory_limiter import Gate
from tests.storage.scene import drive


def test_whoever_came_first_goes_first_and_the_rest_is_busy() -> None:
    async def main() -> None:
        calls: list[None] = []
        gate = Gate("b", 10, lambda: calls.append(None), stall_seconds=60)
        assert gate.try_enter(8)
        order: list[str] = []

        async def enter(name: str, size: int) -> None:
            await gate.enter(size)
            order.append(name)

        large = asyncio.ensure_future(enter("large", 9))
        small = asyncio.ensure_future(enter("small", 1))
        await asyncio.sleep(0)
        assert calls
        assert not gate.try_enter(1), "a newcomer may not overtake"
        with pytest.raises(BookieBusyError):
            await gate.enter(1)
        gate.leave(8)
        await asyncio.gather(large, small)
        assert order == ["large", "small"]
        assert gate.bytes == 10

    drive(main())


def test_a_cancelled_waiter_takes_no_room() -> None:
    async def main() -> None:
        gate = Gate("b", 10, lambda: None, stall_seconds=60)
        assert gate.try_enter(10)
        gone = asyncio.ensure_future(gate.enter(10))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        gate.leave(10)
        assert gate.bytes == 0
        assert gate.try_enter(10)
        woken = asyncio.ensure_future(gate.enter(5))
        await asyncio.sleep(0)
        gate.leave(10)
        woken.cancel()
        await asyncio.gather(woken, return_exceptions=True)
        assert gate.bytes == 0

    drive(main())


def test_more_than_the_limit_goes_alone() -> None:
    gate = Gate("b", 10, lambda: None, stall_seconds=60)
    assert gate.try_enter(50)
    assert not gate.try_enter(1)
    gate.leave(50)
    assert gate.bytes == 0


def test_who_is_turned_away_and_cancelled_at_once_gives_nothing_back() -> None:
    """It was never let in: what it gave back would be somebody else's room."""

    async def main() -> None:
        gate = Gate("b", 10, lambda: None, stall_seconds=60)
        assert gate.try_enter(10)
        refused = asyncio.ensure_future(gate.enter(5))
        await asyncio.sleep(0)
        gate.turn_away(ReadOnlyBookieError("b", "full"))
        refused.cancel()
        await asyncio.gather(refused, return_exceptions=True)
        assert gate.bytes == 10

    drive(main())


def test_when_no_room_comes_everybody_is_told() -> None:
    async def main() -> None:
        gate = Gate("b", 10, lambda: None, stall_seconds=0.05)
        assert gate.try_enter(9)
        with pytest.raises(BookieBusyError, match="nothing was flushed"):
            await gate.enter(5, has_priority=True)
        assert gate.try_enter(1)
        gate.leave(1)
        stalled = gate.is_stalled
        assert stalled, "who came in meanwhile and was refused has flushed nothing"
        gate.leave(9)
        stalled = gate.is_stalled
        assert not stalled
        assert gate.bytes == 0

    drive(main())


def test_whoever_was_turned_away_or_left_waits_no_longer() -> None:
    """They stood behind one that stays, and counted as if they stayed as well."""

    async def main() -> None:
        gate = Gate("b", 10, lambda: None, stall_seconds=60)
        assert gate.try_enter(10)
        urgent = asyncio.ensure_future(gate.enter(4, has_priority=True))
        refused = asyncio.ensure_future(gate.enter(4))
        gone = asyncio.ensure_future(gate.enter(2, has_priority=True))
        await asyncio.sleep(0)
        gate.turn_away(ReadOnlyBookieError("b", "full"))
        gone.cancel()
        await asyncio.gather(refused, gone, return_exceptions=True)
        late = asyncio.ensure_future(gate.enter(6))
        await asyncio.sleep(0)
        assert not late.done(), "six bytes of ten may wait beside four"
        gate.leave(10)
        await asyncio.gather(urgent, late)
        assert gate.bytes == 10

    drive(main())


def test_one_that_leaves_lets_in_those_behind_it() -> None:
    async def main() -> None:
        gate = Gate("b", 10, lambda: None, stall_seconds=60)
        assert gate.try_enter(8)
        large = asyncio.ensure_future(gate.enter(8))
        small = asyncio.ensure_future(gate.enter(2))
        await asyncio.sleep(0)
        large.cancel()
        await small
        assert gate.bytes == 10
        assert not gate.is_crowded

    drive(main())
