"""Tests on the simulator's loop: virtual time, a deadlock is an error, and so is a busy loop."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from quire.testing.sim.loop import new_loop
from quire.testing.sim.policy import Policy

T = TypeVar("T")


def virtually(
    main: Callable[[], Coroutine[Any, Any, T]], seed: int = 0, policy: Policy = Policy.INTERLEAVE
) -> T:
    """Run `main` to its end on a virtual loop. `Policy.WALK` draws every interleaving anew."""
    loop = new_loop(random.Random(seed), policy)
    try:
        result: T = loop.run_until_complete(main())
        return result
    finally:
        loop.dispose()
