"""Calls after one fixed delay, by one timer for all of them.

A timer of the loop costs an object, a place in a heap and a turn. Thousands of objects may each
want a call a moment after something happened, and mostly for nothing. With one delay for all, they
are due in the order of their calls, so one timer for the first is enough.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final


class Later:
    """Calls back so many seconds after it was asked to, and two turns of the loop.

    The turns are for a busy loop: its timers are late, and all that was ready before has its turn
    first. So a caller that is answered in the meantime can make the call needless.
    """

    __slots__ = ("_due", "_is_set", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds: Final = seconds
        self._due: deque[tuple[float, Callable[[], None]]] = deque()
        self._is_set = False

    def call(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
        """Call back in some time. A callback is called as often as this; it cannot be cancelled.

        Args:
            loop: the running loop, the same for all calls.
            callback: it runs in the variables of any of the callers.
        """
        self._due.append((loop.time() + self.seconds, callback))
        if not self._is_set:
            self._is_set = True
            loop.call_later(self.seconds, self._ring, loop)

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let those that are due now have their turns: not those that come due in these turns."""
        loop.call_soon(loop.call_soon, self._call_due, loop, loop.time())

    def _call_due(self, loop: asyncio.AbstractEventLoop, now: float) -> None:
        due = self._due
        try:
            while due and due[0][0] <= now:
                due.popleft()[1]()
        finally:
            self._is_set = bool(due)
            if due:
                loop.call_at(due[0][0], self._ring, loop)
