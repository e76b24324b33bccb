"""What senders and their ensemble wait for: calls of a bookie, and the end of a lag.

Senders work in steps, so that they may be compiled (docs/decisions/0068-compiled-wheels.md), which
a coroutine may not be. The coroutines are here. Each gets the step that asks, and the steps that
take the outcome: they run in the coroutine's task, without a turn of the loop between.

Not here: the questions, and the meaning of answers (replica_sender.py, ensemble.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from quire.aio.timing import time_limit
from quire.errors import BookieBusyError, LedgerFencedError, UnauthorizedError
from quire.ledger.quorum_call import BUSY_BACKOFF

T = TypeVar("T")


async def add_again(add: Callable[[], Awaitable[None]]) -> None:
    """Pause and send a run, until the bookie is not busy. Raises any other error of it."""
    pauses = BUSY_BACKOFF.pauses()
    while True:
        await asyncio.sleep(pauses.next())
        with suppress(BookieBusyError):
            return await add()


async def ask(
    call: Callable[[], Awaitable[T]],
    answered: Callable[[T], None],
    failed: Callable[[Exception], None],
) -> None:
    """Make a call, and pass on its answer or its error."""
    try:
        answer = await call()
    except Exception as error:
        failed(error)
        return
    answered(answer)


async def tell(
    call: Callable[[], Awaitable[None]], seconds: float, refused: Callable[[Exception], None]
) -> None:
    """Make a call that may fail, for some seconds at most; only a refusal is passed on."""
    try:
        async with time_limit(seconds):
            await call()
    except (LedgerFencedError, UnauthorizedError) as error:
        refused(error)
    except Exception:
        return  # the next add finds out; followers hear of LAC from the other bookies


async def settle(is_lagging: Callable[[], bool], moved: asyncio.Event, seconds: float) -> None:
    """Wait until nothing lags, for some seconds at most; `moved` is set after each change."""
    with suppress(TimeoutError):
        async with time_limit(seconds):
            while is_lagging():
                moved.clear()
                await moved.wait()
