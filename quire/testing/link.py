"""The line between the clients of a process and one bookie in memory: killed, paused, cut.

state        a request
up           is answered
down         fails at once, as at a port that is closed
silent       waits for the bookie to be up again, at most `REQUEST_SECONDS`
"""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import Final

from quire.aio.timing import time_limit
from quire.bookie import BookieInfo
from quire.entry import BookieId, LedgerId
from quire.errors import BookieUnavailableError
from quire.testing.bookie import MemoryBookie

REQUEST_SECONDS: Final = 1.0
"""A test does not want to wait as long as production does."""


class LineState(StrEnum):
    """Whether the clients of this process reach the bookie."""

    UP = "up"
    DOWN = "down"
    SILENT = "silent"


class SwitchedBookie(MemoryBookie):
    """A reference bookie with a line that can be switched. Its entries survive each switch."""

    def __init__(self, bookie: BookieId) -> None:
        super().__init__(bookie)
        self.state = LineState.UP
        self._changed = asyncio.Event()
        self.before = self._pass

    def switch(self, state: LineState) -> None:
        """Change how requests are answered, waiting requests included."""
        self.state = state
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        if state is LineState.DOWN:
            self.crash()

    async def close(self) -> None:
        """A client has closed its link; the bookie serves the others."""

    async def info(self) -> BookieInfo:
        """See `Bookie.info`."""
        await self._pass("info", -1)
        return await super().info()

    async def _pass(self, method: str, ledger: LedgerId) -> None:
        try:
            async with time_limit(REQUEST_SECONDS):
                while self.state is LineState.SILENT:
                    await self._changed.wait()
        except TimeoutError:
            raise BookieUnavailableError(
                self.bookie, f"it did not answer within {REQUEST_SECONDS:g} s"
            ) from None
        if self.state is LineState.DOWN:
            raise BookieUnavailableError(self.bookie, "it is not running")
