"""The close of a ledger by its writer: by one caller at a time, once, and not if it is abandoned.

    OPEN ──begin──→ CLOSING ──finish──→ CLOSED        the record has the end
      │                │                  ↑
      └────────────────┴──abandon─→ ABANDONED         left to the next client that opens the ledger

A task of the writer sends a close's requests to bookies and to the metadata store, whichever caller
asked for the close. So `abandon` ends the close itself, as a crash would, and not only its callers.
A request that is on its way then may still be carried out.

Not here: the conditions that a close waits for (`writer`), and the change of the record
(`ledger_record`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Final

from quire.aio.tasks import Tasks
from quire.entry import LedgerId
from quire.errors import HandleClosedError


class ClosingStage(StrEnum):
    """How far the close of a ledger is, for its writer."""

    OPEN = "open"
    CLOSING = "closing"
    """The writer takes nothing new."""
    CLOSED = "closed"
    ABANDONED = "abandoned"


class ClosingEvent(StrEnum):
    """What happens to a close."""

    BEGIN = "begin"
    FINISH = "finish"
    ABANDON = "abandon"


TRANSITIONS: Final[dict[tuple[ClosingStage, ClosingEvent], ClosingStage]] = {
    (ClosingStage.OPEN, ClosingEvent.BEGIN): ClosingStage.CLOSING,
    (ClosingStage.OPEN, ClosingEvent.ABANDON): ClosingStage.ABANDONED,
    (ClosingStage.CLOSING, ClosingEvent.BEGIN): ClosingStage.CLOSING,
    (ClosingStage.CLOSING, ClosingEvent.FINISH): ClosingStage.CLOSED,
    (ClosingStage.CLOSING, ClosingEvent.ABANDON): ClosingStage.ABANDONED,
    (ClosingStage.CLOSED, ClosingEvent.BEGIN): ClosingStage.CLOSED,
    (ClosingStage.CLOSED, ClosingEvent.ABANDON): ClosingStage.CLOSED,
    (ClosingStage.ABANDONED, ClosingEvent.BEGIN): ClosingStage.ABANDONED,
    (ClosingStage.ABANDONED, ClosingEvent.ABANDON): ClosingStage.ABANDONED,
    # The record was written before the task noticed that it was cancelled.
    (ClosingStage.ABANDONED, ClosingEvent.FINISH): ClosingStage.CLOSED,
}
"""A missing pair is a defect of the writer."""


class Closing:
    """The close of one writer's ledger."""

    __slots__ = ("_ledger", "_tasks", "_turn", "stage")

    def __init__(self, ledger: LedgerId, tasks: Tasks) -> None:
        self.stage = ClosingStage.OPEN
        self._ledger = ledger
        self._tasks = tasks
        self._turn = asyncio.Lock()

    @property
    def is_begun(self) -> bool:
        """Whether the writer takes nothing new."""
        return self.stage is not ClosingStage.OPEN

    @property
    def is_decided(self) -> bool:
        """Whether this writer has nothing to do for the close any more."""
        return self.stage in (ClosingStage.CLOSED, ClosingStage.ABANDONED)

    def abandon(self) -> None:
        """Close no more; the owner cancels its tasks. A ledger that is closed stays so."""
        self._move(ClosingEvent.ABANDON)

    async def run(self, close: Callable[[], Awaitable[None]], abandon: Callable[[], None]) -> None:
        """Call `close` when no other caller is closing. Cancelling calls `abandon`.

        Raises `HandleClosedError` when the writer is abandoned meanwhile: the ledger may be open.
        """
        before = self.stage
        self._move(ClosingEvent.BEGIN)
        async with self._turn:
            try:
                await close()
            except asyncio.CancelledError:
                abandon()
                raise
        if self.stage is not ClosingStage.CLOSED and before is not ClosingStage.ABANDONED:
            raise HandleClosedError(f"writer of ledger {self._ledger}")

    async def carry_out(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run `work`, unless the close is abandoned meanwhile; raises the errors of `work`."""

        async def close() -> None:
            await work()
            self._move(ClosingEvent.FINISH)

        await self._tasks.run(close(), f"close of ledger {self._ledger}")

    def _move(self, event: ClosingEvent) -> None:
        assert (self.stage, event) in TRANSITIONS, f"{event} while {self.stage}"
        self.stage = TRANSITIONS[self.stage, event]
