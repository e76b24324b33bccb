"""Run a test on the simulator's loop: virtual time, no threads, nothing left behind unnoticed."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from tests.sim.loop import new_loop

T = TypeVar("T")


def virtually(main: Callable[[], Coroutine[Any, Any, T]], seed: int = 0) -> T:
    """Return what `main` returns; hours of it take no time."""
    loop = new_loop(random.Random(f"{seed}"))
    try:
        result: T = loop.run_until_complete(main())
        return result
    finally:
        loop.dispose()
