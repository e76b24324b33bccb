"""Room: bounded, first come first served, and nothing leaks when somebody gives up."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from quire.log.leader.flow_control import Room


def take(calls: list[int], number: int) -> bool:
    calls.append(number)
    return True


def test_who_finds_no_room_waits_in_line() -> None:
    async def main() -> None:
        room = Room(2, 100)
        assert room.enter_now(1, 10)
        assert room.enter_now(1, 10)
        assert not room.enter_now(1, 10)
        order: list[int] = []
        tasks = [
            asyncio.create_task(room.enter(1, 10, partial(take, order, number)))
            for number in range(3)
        ]
        await asyncio.sleep(0)
        room.leave(1, 10)
        assert not room.enter_now(1, 10), "nobody slips in before those in line"
        assert order == [0], "served at once, before the task runs"
        room.leave(1, 10)
        room.leave(1, 10)
        await asyncio.gather(*tasks)
        assert order == [0, 1, 2]
        assert room.records == 2

    asyncio.run(main())


def test_what_exceeds_the_whole_room_gets_in_alone() -> None:
    room = Room(2, 100)
    assert room.enter_now(5, 1000)
    assert not room.enter_now(1, 1)
    room.leave(5, 1000)
    assert room.enter_now(1, 1)
    assert not room.enter_now(1, 1000)


@pytest.mark.parametrize("served", [False, True])
def test_who_gives_up_leaves_the_line_unless_he_was_served(served: bool) -> None:
    async def main() -> None:
        room = Room(1, 100)
        room.enter_now(1, 10)
        calls: list[int] = []
        waiting = asyncio.create_task(room.enter(1, 10, partial(take, calls, 1)))
        await asyncio.sleep(0)
        if served:
            room.leave(1, 10)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        if not served:
            room.leave(1, 10)
        assert (room.records, len(calls)) == (int(served), int(served))

    asyncio.run(main())


def test_when_it_shuts_everybody_in_line_is_told() -> None:
    async def main() -> None:
        room = Room(1, 100)
        room.enter_now(1, 10)
        waiting = [asyncio.create_task(room.enter(1, 1, bool)) for _ in range(2)]
        await asyncio.sleep(0)
        room.shut(lambda: ValueError("shut"))
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert [str(each) for each in outcomes] == ["shut", "shut"]

    asyncio.run(main())


def test_any_number_in_line_may_need_no_room_after_all() -> None:
    async def main() -> None:
        room = Room(1, 100)
        room.enter_now(1, 10)
        waiting = [asyncio.create_task(room.enter(1, 1, bool)) for _ in range(3000)]
        await asyncio.sleep(0)
        room.leave(1, 10)
        await asyncio.gather(*waiting)
        assert room.enter_now(1, 10)
        assert not room.enter_now(1, 10)

    asyncio.run(main())


def test_who_fails_when_he_is_served_takes_nothing_from_those_behind_him() -> None:
    def fail() -> bool:
        raise ValueError("no")

    async def main() -> None:
        room, served = Room(1, 100), list[int]()
        room.enter_now(1, 10)
        waiting = [
            asyncio.create_task(room.enter(1, 1, serve))
            for serve in (fail, partial(take, served, 1))
        ]
        await asyncio.sleep(0)
        room.leave(1, 10)
        told, behind = await asyncio.gather(*waiting, return_exceptions=True)
        assert (str(told), behind, served, room.records) == ("no", None, [1], 1)
        room.leave(1, 1)
        with pytest.raises(ValueError, match="no"):
            await room.enter(1, 1, fail)
        assert room.records == 0

    asyncio.run(main())
