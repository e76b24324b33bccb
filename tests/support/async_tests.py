"""Tests that are coroutines: `async def test_…`, which tests/conftest.py hands to this module.

A test runs on the simulator's loop: virtual time, so that a wait takes none. A wait without end, a
busy loop and a failed task that no other task awaits are errors. A test that needs processes,
sockets or threads has the marker `real_time` and runs on a loop of asyncio; without the marker it
fails (`SimEscape`).

A value of a fixture that is an asynchronous context manager, such as `cluster`, is entered before
the test and left after it, in the loop of the test.
"""

from __future__ import annotations

import asyncio
import inspect
import random
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, Final

import pytest

from quire.aio.timing import time_limit
from quire.testing.sim.loop import new_loop

SECONDS_MAX: Final = 600.0
"""Virtual seconds that a test may take."""


def run_virtually(main: Callable[[], Awaitable[Any]], seed: int = 0) -> None:
    """Run a test on virtual time. Fails when it waits for something that cannot happen."""
    loop = new_loop(random.Random(seed))

    async def limited() -> None:
        async with time_limit(SECONDS_MAX):
            await main()

    try:
        loop.run_until_complete(limited())
        loop.check_unhandled()
    finally:
        loop.dispose()


def call(test: pytest.Function) -> None:
    """Run a test that is a coroutine function."""
    names = inspect.signature(test.obj).parameters
    values = {name: test.funcargs[name] for name in names}

    async def main() -> None:
        async with AsyncExitStack() as stack:
            for name, value in values.items():
                if isinstance(value, AbstractAsyncContextManager):
                    values[name] = await stack.enter_async_context(value)
            await test.obj(**values)

    if test.get_closest_marker("real_time"):
        asyncio.run(main())
    else:
        run_virtually(main)
