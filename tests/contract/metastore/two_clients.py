"""A scenario of two clients of one tree, and the check that a wait waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from quire.metastore.store import MetadataStore
from tests.support.store_backends import Backend

Scenario: TypeAlias = Callable[[MetadataStore, MetadataStore, Backend], Awaitable[None]]
Run: TypeAlias = Callable[[Scenario], None]
SESSION_SECONDS = 5.0


async def wakes(
    waiting: Awaitable[None], store: MetadataStore, change: Callable[[], Awaitable[object]]
) -> None:
    """Check that a wait waits, and that a change ends it."""
    task = asyncio.ensure_future(waiting)
    for _ in range(3):
        await store.children("/")
        await asyncio.sleep(0.01)
    assert not task.done()
    await change()
    await task
