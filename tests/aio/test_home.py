"""The home of handles: one for each event loop, as long as a handle uses it."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from quire.aio.home import Home, home_here
from quire.errors import WrongLoopError


async def made_here() -> Home:
    return home_here()


def test_handles_of_one_loop_share_their_home() -> None:
    async def main() -> None:
        assert home_here() is home_here()
        home_here().check("a handle")

    asyncio.run(main())


def test_each_loop_has_a_home_of_its_own() -> None:
    first = asyncio.run(made_here())

    async def main() -> None:
        assert home_here() is not first
        with pytest.raises(WrongLoopError, match="a handle"):
            first.check("a handle")

    asyncio.run(main())


def test_handles_made_outside_a_loop_share_nothing() -> None:
    first, second = home_here(), home_here()
    assert first is not second

    async def main() -> None:
        first.check("a handle")  # from now on it belongs to this loop
        assert home_here() is not first

    asyncio.run(main())
    with pytest.raises(WrongLoopError):
        asyncio.run(check(first))


async def check(home: Home) -> None:
    home.check("a handle")


def test_a_home_goes_with_its_last_handle() -> None:
    home = asyncio.run(made_here())
    watched = weakref.ref(home)
    del home
    gc.collect()
    assert watched() is None
