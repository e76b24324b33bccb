"""A limit of time holds wherever it is set: in cleaning up, too."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest

from quire.aio.timing import limit_in_cleanup, time_limit
from tests.support.virtual import virtually

Limit = Callable[[float | None], AbstractAsyncContextManager[asyncio.Timeout]]
pytestmark = pytest.mark.parametrize("limit", [time_limit, limit_in_cleanup])


def test_a_block_that_takes_too_long_is_ended(limit: Limit) -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with limit(1.0):
                await asyncio.sleep(9)
        async with limit(1.0), limit(None):
            await asyncio.sleep(0.5)
        return asyncio.get_running_loop().time()

    assert virtually(main) == pytest.approx(1.5)


def test_a_cancelled_task_that_cleans_up_has_its_limits(limit: Limit) -> None:
    async def main() -> list[str]:
        heard: list[str] = []

        async def work() -> None:
            try:
                await asyncio.sleep(100)
            finally:
                try:
                    async with limit(1.0):
                        await asyncio.sleep(100)
                except TimeoutError:
                    heard.append("time is up")

        working = asyncio.create_task(work())
        await asyncio.sleep(1)
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        return heard

    assert virtually(main) == ["time is up"]


@pytest.mark.parametrize("is_cleaning_up", [False, True])
def test_a_cancellation_is_no_end_of_time(limit: Limit, is_cleaning_up: bool) -> None:
    async def main() -> list[str]:
        heard: list[str] = []

        async def limited() -> None:
            try:
                async with limit(10.0):
                    await asyncio.sleep(100)
            except TimeoutError:
                heard.append("time is up")

        async def work() -> None:
            try:
                await asyncio.sleep(100)
            finally:
                await limited()

        working = asyncio.create_task(work() if is_cleaning_up else limited())
        for _ in range(1 + is_cleaning_up):
            await asyncio.sleep(1)
            working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        return heard

    assert virtually(main) == []


def test_what_goes_wrong_in_the_block_comes_out(limit: Limit) -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match="for the test"):
            async with limit(1.0):
                raise ValueError("for the test")

    virtually(main)
