"""The close of a ledger by its writer: by one caller at a time, once, and not if it is abandoned.

A task of the writer sends a close's requests to bookies and to the metadata store, whichever caller
asked for the close. So `abandon` ends the close itself, as a crash would, and not only its callers.
A request that is on its way then may still be carried out.

Not here: the conditions that a close waits for (`writer`), and the change of the record
(`ledger_record`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from quire.aio.tasks import Tasks
from quire.entry import LedgerId
from quire.errors import HandleClosedError


class Closing:
    """How far the close of one writer's ledger is."""

    __slots__ = ("_ledger", "_tasks", "_turn", "is_abandoned", "is_begun", "is_done")

    def __init__(self, ledger: LedgerId, tasks: Tasks) -> None:
        self.is_begun = False
        """Whether the writer takes nothing new."""
        self.is_done = False
        """Whether the ledger is closed."""
        self.is_abandoned = False
        """Whether the close is left to another client."""
        self._ledger = ledger
        self._tasks = tasks
        self._turn = asyncio.Lock()

    @property
    def is_decided(self) -> bool:
        """Whether this writer has nothing to do for it any more."""
        return self.is_done or self.is_abandoned

    def abandon(self) -> None:
        """Close no more; the owner cancels its tasks. A ledger that is closed stays so."""
        self.is_begun = True
        self.is_abandoned = not self.is_done

    async def run(self, close: Callable[[], Awaitable[None]], abandon: Callable[[], None]) -> None:
        """Call `close` when no other caller is closing. Cancelling calls `abandon`.

        Raises `HandleClosedError` when the writer is abandoned meanwhile: the ledger may be open.
        """
        was_abandoned = self.is_abandoned
        self.is_begun = True
        async with self._turn:
            try:
                await close()
            except asyncio.CancelledError:
                abandon()
                raise
        if not self.is_done and not was_abandoned:
            raise HandleClosedError(f"writer of ledger {self._ledger}")

    async def carry_out(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run `work`, unless the close is abandoned meanwhile; raises the errors of `work`."""

        async def close() -> None:
            await work()
            self.is_done = True

        await self._tasks.run(close(), f"close of ledger {self._ledger}")
