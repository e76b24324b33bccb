"""Retries: which errors are transient, how long to pause, when to stop.

Retried work must be safe to repeat, because an error with an unknown outcome is retried too. The
clock is the event loop's, so a simulation retries in virtual time; `retry_blocking` serves the
threads that have no loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final, TypeAlias, TypeVar

from quire.aio.backoff import Backoff
from quire.errors import ConflictError, RetryError, StoreOutcomeUnknownError

TRANSIENT: Final = (RetryError, StoreOutcomeUnknownError, ConflictError)

BACKOFF: Final = Backoff(first=0.02, last=2.0)
"""The pauses of work that changes metadata, which two leaders may do at once."""

Errors: TypeAlias = type[Exception] | tuple[type[Exception], ...]

T = TypeVar("T")


def _never(error: Exception) -> bool:
    return False


async def retry(
    work: Callable[[], Awaitable[T]],
    rng: Random | None = None,
    *,
    on: Errors = TRANSIENT,
    unless: Callable[[Exception], bool] = _never,
    backoff: Backoff = BACKOFF,
    attempts: int | None = None,
    timeout: float | None = None,
) -> T:
    """Do the work until it succeeds or fails permanently.

    Args:
        work: makes one attempt.
        rng: jitters the pauses; None: no jitter.
        on: the errors that are retried; any other is raised at once.
        unless: tells of such an error whether it is raised nevertheless.
        backoff: the pauses between attempts.
        attempts: the last error is raised after so many; None: without bound.
        timeout: seconds. The first error after this time is raised; None: never. It does not cut
            an attempt short: every request has its own time limit.

    Cancellation:
        Ends the attempt, or the pause, that is under way.
    """
    loop = asyncio.get_running_loop()
    started, failures = loop.time(), 0
    while True:
        try:
            return await work()
        except on as error:
            last = attempts is not None and failures + 1 >= attempts
            late = timeout is not None and loop.time() - started >= timeout
            if last or late or unless(error):
                raise
        await asyncio.sleep(backoff.seconds(failures, rng))
        failures += 1


def retry_blocking(
    work: Callable[[], T],
    *,
    on: Errors = TRANSIENT,
    unless: Callable[[Exception], bool] = _never,
    backoff: Backoff,
    timeout: float,
) -> T:
    """Do what `retry` does in a thread that may block. `timeout` is as there."""
    started, failures = time.monotonic(), 0
    while True:
        try:
            return work()
        except on as error:
            if time.monotonic() - started >= timeout or unless(error):
                raise
        time.sleep(backoff.seconds(failures))
        failures += 1
