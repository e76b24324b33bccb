"""The bound on memory: requests that bring bytes in wait here, first come first served.

Bytes are inside from an add's arrival until its entries are in an entry-log file, so one number
bounds the journal's queue and both write caches. A waiting request asks for a flush (`on_full`).
When as many bytes wait as may be inside, the next request is refused as busy. All requests are
refused when no space came for `stall_seconds`: then the disk that entries are flushed to hangs, but
perhaps not the journal's disk.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from quire.aio.timing import time_limit
from quire.errors import BookieBusyError, QuireError


class _Waiter(NamedTuple):
    """A request before the gate; `has_priority` when only memory may keep it there."""

    size: int
    has_priority: bool


class Gate:
    """A bounded space for bytes, with a bounded queue before it."""

    def __init__(
        self, bookie: str, bytes_max: int, on_full: Callable[[], None], *, stall_seconds: float
    ) -> None:
        self._bookie = bookie
        self._bytes_max = bytes_max
        self._on_full = on_full
        self._stall_seconds = stall_seconds
        self._waiting: OrderedDict[asyncio.Future[None], _Waiter] = OrderedDict()
        self._waiting_bytes = 0
        self._full_since: float | None = None
        self._full_bytes = 0
        """The bytes inside then: with fewer inside, a flush has freed some."""
        self.bytes = 0

    @property
    def is_crowded(self) -> bool:
        """A request waits for space."""
        return bool(self._waiting)

    @property
    def is_stalled(self) -> bool:
        """There was too little space, and none came, for `stall_seconds`."""
        if self._full_since is None:
            return False
        return asyncio.get_running_loop().time() - self._full_since > self._stall_seconds

    def stalled(self) -> BookieBusyError:
        """Return the error for requests that get no space."""
        reason = f"its memory is full, and nothing was flushed for {self._stall_seconds:g} s"
        return BookieBusyError(self._bookie, reason)

    def try_enter(self, size: int) -> bool:
        """Enter at once if there is space and no request waits."""
        if self._waiting or not self._fits(size):
            return False
        self.bytes += size
        return True

    def _fits(self, size: int) -> bool:
        return self.bytes == 0 or self.bytes + size <= self._bytes_max

    async def enter(self, size: int, *, has_priority: bool = False) -> None:
        """Wait for space. Raises `BookieBusyError` when too many bytes wait already or no space
        comes, and what `turn_away` says, except to those with priority.
        """
        if self.try_enter(size):
            return
        self._on_full()
        if self._waiting_bytes + size > self._bytes_max:
            raise BookieBusyError(self._bookie, f"{self._waiting_bytes} bytes wait for memory")
        if self._full_since is None:
            self._note_full()
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[turn] = _Waiter(size, has_priority)
        self._waiting_bytes += size
        try:
            async with time_limit(self._stall_seconds):
                await turn
        except TimeoutError:
            self._withdraw(turn, size)
            raise self.stalled() from None
        except asyncio.CancelledError:
            self._withdraw(turn, size)
            raise

    def _note_full(self) -> None:
        self._full_since = asyncio.get_running_loop().time()
        self._full_bytes = self.bytes

    def _withdraw(self, turn: asyncio.Future[None], size: int) -> None:
        """Forget a request that no longer waits, or came in at the same moment."""
        if turn in self._waiting:
            self._remove(turn)
            self._admit()  # a later one may fit
        elif not turn.cancelled() and turn.exception() is None:
            self.leave(size)

    def _remove(self, turn: asyncio.Future[None]) -> None:
        self._waiting_bytes -= self._waiting.pop(turn).size

    def leave(self, size: int) -> None:
        """Give space back, and let in the requests that now fit, in order."""
        self.bytes -= size
        if self.bytes < self._full_bytes:
            self._full_since = None
        self._admit()
        if self._waiting:
            if self._full_since is None:
                self._note_full()
            self._on_full()

    def _admit(self) -> None:
        while self._waiting:
            turn, waiter = next(iter(self._waiting.items()))
            if not turn.done():  # else its task was cancelled, and has not run yet
                if not self._fits(waiter.size):
                    return
                self.bytes += waiter.size
                turn.set_result(None)
            self._remove(turn)

    def turn_away(self, error: QuireError) -> None:
        """Refuse waiting requests without priority: they will not get space soon."""
        for turn, waiter in list(self._waiting.items()):
            if not waiter.has_priority:
                self._remove(turn)
                if not turn.done():
                    turn.set_exception(error)
        self._admit()
