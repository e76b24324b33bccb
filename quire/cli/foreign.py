"""Printing the records of another system's log."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, nullcontext
from typing import TypeVar

from quire.cli.output import progress

T = TypeVar("T")


async def print_records(
    log: str, records: AsyncGenerator[T, None], show: Callable[[T], None], limit: int | None
) -> None:
    """Print the records of a log, `limit` at most. While the lines go to a file, a terminal on
    stderr shows the progress.
    """
    shown = nullcontext(_ignore) if sys.stdout.isatty() else progress(f"Reading {log}", limit)
    left = limit
    with shown as advance:
        async with aclosing(records):
            while left is None or left > 0:
                record = await anext(records, None)
                if record is None:
                    return
                show(record)
                advance(1)
                left = None if left is None else left - 1


def _ignore(more: int) -> None:
    """The lines on the terminal are the progress."""
