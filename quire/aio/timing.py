"""A limit of time for a block, on every Python that quire runs on."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final


@asynccontextmanager
async def limit_in_cleanup(seconds: float | None) -> AsyncIterator[asyncio.Timeout]:
    """Do what `asyncio.timeout` does since Python 3.11.3.

    Before that, in a task that has been cancelled and is cleaning up, it raises `CancelledError`
    when the time is up, and the caller cannot tell that it is: the process that does not stop would
    not be killed, the disk that hangs would not be given up (gh-102780).
    """
    task = asyncio.current_task()
    assert task is not None
    cancelled_before = task.cancelling()
    limit = _PLAIN(seconds)
    try:
        async with limit:
            yield limit
    except asyncio.CancelledError as error:
        if limit.expired() and task.cancelling() <= cancelled_before:
            raise TimeoutError from error
        raise


def time_limit(seconds: float | None) -> AbstractAsyncContextManager[asyncio.Timeout]:
    """Return a context that ends with `TimeoutError` when its block takes longer; None: never.

    A block that is cancelled under such a limit ends in `CancelledError`, as without the limit.
    """
    if seconds is None and _LIMIT is _PLAIN:
        return asyncio.Timeout(None)  # as `timeout` does, which asks for the loop besides
    return _LIMIT(seconds)


_PLAIN: Final = asyncio.timeout
_LIMIT: Final = _PLAIN if sys.version_info >= (3, 11, 3) else limit_in_cleanup
