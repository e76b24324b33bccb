"""A block that is held by a task of its own ends when the call that leaves it is cut short."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from quire.sync.portal import _Held


@pytest.mark.parametrize("error", [None, KeyError("of the block")])
def test_nothing_goes_on_behind_whoever_interrupts_the_end_of_a_block(
    error: Exception | None,
) -> None:
    ended: list[str] = []
    ending = asyncio.Event()

    @asynccontextmanager
    async def block() -> AsyncIterator[str]:
        try:
            yield "entered"
        finally:
            try:
                ended.append("begins to end")
                ending.set()
                await asyncio.Event().wait()
            finally:
                ended.append("is over")

    async def main() -> None:
        held = _Held(block())
        assert await held.enter() == "entered"
        leaving = asyncio.create_task(held.leave(error))
        await ending.wait()
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        assert ended == ["begins to end", "is over"]
        assert held._task is not None
        assert held._task.done()

    asyncio.run(asyncio.wait_for(main(), 20))
