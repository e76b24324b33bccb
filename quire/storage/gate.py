"""The bound on memory: who wants to bring bytes in waits here, first come first served.

Bytes are inside from an add's arrival until its entries are in an entry-log file, so one number
bounds the journal's queue and both write caches. Whoever waits asks for a flush (`on_full`); when
as many bytes wait as may be inside, the next one is refused as busy.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from quire.errors import BookieBusyError


class Gate:
    """A bounded room for bytes, with a bounded queue before it."""

    def __init__(self, bookie: str, bytes_max: int, on_full: Callable[[], None]) -> None:
        self._bookie = bookie
        self._bytes_max = bytes_max
        self._on_full = on_full
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._waiting_bytes = 0
        self.bytes = 0

    def try_enter(self, size: int) -> bool:
        """Enter at once if there is room and nobody waits."""
        if self._waiting or not self._fits(size):
            return False
        self.bytes += size
        return True

    def _fits(self, size: int) -> bool:
        return self.bytes == 0 or self.bytes + size <= self._bytes_max

    async def enter(self, size: int) -> None:
        """Wait for room. Raises `BookieBusyError` when too many bytes wait already."""
        if self.try_enter(size):
            return
        self._on_full()
        if self._waiting_bytes + size > self._bytes_max:
            raise BookieBusyError(self._bookie, f"{self._waiting_bytes} bytes wait for memory")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        self._waiting_bytes += size
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave(size)
            raise

    def leave(self, size: int) -> None:
        """Give room back, and let in those who now fit, in order."""
        self.bytes -= size
        while self._waiting and (self._waiting[0][1].done() or self._fits(self._waiting[0][0])):
            size, turn = self._waiting.popleft()
            self._waiting_bytes -= size
            if not turn.done():
                self.bytes += size
                turn.set_result(None)
        if self._waiting:
            self._on_full()
