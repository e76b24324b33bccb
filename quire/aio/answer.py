"""Answers without futures: a call back in the step that learns the outcome.

A future calls back in a later turn of the event loop, which costs more than much of the work that
it reports. Where thousands of answers come a second, the asker is called back at once instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

Answered: TypeAlias = Callable[[Exception | None], object]
"""Called once: with None when the work is done, or with the error that it met."""


def tell(answered: Answered, outcome: Exception | None) -> None:
    """Call back. A defect of the callee goes to the loop's handler: it ends no other's work."""
    try:
        answered(outcome)
    except Exception as error:
        context = {"message": f"{answered!r} failed with an answer", "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)


def resolve(future: asyncio.Future[None], outcome: Exception | None) -> None:
    """End a future, if it has not ended; with it, work is awaited that calls back."""
    if future.done():
        return
    if outcome is None:
        future.set_result(None)
    else:
        future.set_exception(outcome)


def settle(future: asyncio.Future[None], outcome: Exception | None) -> None:
    """End a future as `resolve`. asyncio does not complain when no task waits for its error."""
    resolve(future, outcome)
    if outcome is not None and not future.cancelled():
        future.exception()
