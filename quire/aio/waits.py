"""Waiting for tasks and ending them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def stop(task: asyncio.Task[None]) -> None:
    """Cancel a task and wait until it is gone, whatever its outcome."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def first_of(*waits: Coroutine[Any, Any, Any]) -> None:
    """Return when one of some waits is over, cancelling the others."""
    finished = asyncio.Event()
    tasks = [asyncio.create_task(wait) for wait in waits]
    for task in tasks:
        task.add_done_callback(lambda _: finished.set())
    try:
        await finished.wait()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
