"""Retries: which errors are transient, how long to pause, when to stop.

Retried work must be safe to repeat, because an error with an unknown outcome is retried too. Pauses
grow and are jittered, so that two colliding leaders do not collide in step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final, TypeVar

from quire.errors import ConflictError, RetryError, StoreOutcomeUnknownError

TRANSIENT: Final = (RetryError, StoreOutcomeUnknownError, ConflictError)
PAUSE_FIRST_SECONDS: Final = 0.02
PAUSE_MAX_SECONDS: Final = 2.0
_DOUBLINGS_MAX: Final = 10

T = TypeVar("T")


def pause_seconds(rng: Random, attempt: int) -> float:
    """Return how long to pause after a failed attempt, counted from 0."""
    ceiling: float = PAUSE_FIRST_SECONDS * 2 ** min(attempt, _DOUBLINGS_MAX)
    return min(ceiling, PAUSE_MAX_SECONDS) * rng.uniform(0.5, 1.0)


async def retry(
    work: Callable[[], Awaitable[T]], rng: Random, *, timeout: float | None = None
) -> T:
    """Do the work until it succeeds or fails permanently.

    A transient error is retried until `timeout` seconds have passed (None: forever), then raised.
    The timeout does not cut an attempt short: every request below has its own timeout.
    """
    loop = asyncio.get_running_loop()
    started, attempt = loop.time(), 0
    while True:
        try:
            return await work()
        except TRANSIENT:
            if timeout is not None and loop.time() - started >= timeout:
                raise
        await asyncio.sleep(pause_seconds(rng, attempt))
        attempt += 1
