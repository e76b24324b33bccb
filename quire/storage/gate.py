"""The bound on memory: who wants to bring bytes in waits here, first come first served.

Bytes are inside from an add's arrival until its entries are in an entry-log file, so one number
bounds the journal's queue and both write caches. Whoever waits asks for a flush (`on_full`); when
as many bytes wait as may be inside, the next one is refused as busy.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from quire.errors import BookieBusyError, QuireError


class _Waiter(NamedTuple):
    """Somebody before the gate; `has_priority` when only memory may keep it there."""

    size: int
    turn: asyncio.Future[None]
    has_priority: bool


class Gate:
    """A bounded room for bytes, with a bounded queue before it."""

    def __init__(self, bookie: str, bytes_max: int, on_full: Callable[[], None]) -> None:
        self._bookie = bookie
        self._bytes_max = bytes_max
        self._on_full = on_full
        self._waiting: deque[_Waiter] = deque()
        self._waiting_bytes = 0
        self.bytes = 0

    @property
    def is_crowded(self) -> bool:
        """Somebody waits for room."""
        return bool(self._waiting)

    def try_enter(self, size: int) -> bool:
        """Enter at once if there is room and nobody waits."""
        if self._waiting or not self._fits(size):
            return False
        self.bytes += size
        return True

    def _fits(self, size: int) -> bool:
        return self.bytes == 0 or self.bytes + size <= self._bytes_max

    async def enter(self, size: int, *, has_priority: bool = False) -> None:
        """Wait for room. Raises `BookieBusyError` when too many bytes wait already, and what
        `turn_away` says, except to those with priority.
        """
        if self.try_enter(size):
            return
        self._on_full()
        if self._waiting_bytes + size > self._bytes_max:
            raise BookieBusyError(self._bookie, f"{self._waiting_bytes} bytes wait for memory")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiter(size, turn, has_priority))
        self._waiting_bytes += size
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.leave(size)
            raise

    def leave(self, size: int) -> None:
        """Give room back, and let in those who now fit, in order."""
        self.bytes -= size
        while self._waiting and (self._waiting[0].turn.done() or self._fits(self._waiting[0].size)):
            size, turn, _ = self._waiting.popleft()
            self._waiting_bytes -= size
            if not turn.done():
                self.bytes += size
                turn.set_result(None)
        if self._waiting:
            self._on_full()

    def turn_away(self, error: QuireError) -> None:
        """Refuse those who wait without priority: there will be no room for them soon."""
        for waiter in self._waiting:
            if not waiter.has_priority and not waiter.turn.done():
                waiter.turn.set_exception(error)
        while self._waiting and self._waiting[0].turn.done():
            self._waiting_bytes -= self._waiting.popleft().size
