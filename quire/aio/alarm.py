"""One timer for many deadlines: it goes off at the earliest, and is not touched for the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Alarm:
    """Calls back at or before the requested times; the callee finds the work due and asks again."""

    __slots__ = ("_callback", "_loop", "_timer")

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback = callback
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def is_set(self, due: float) -> bool:
        """Return whether it goes off no later than at a loop time."""
        return self._timer is not None and self._timer.when() <= due

    def set(self, due: float | None) -> None:
        """Go off no later than at a loop time; None asks for nothing."""
        if due is None or (self._timer is not None and self._timer.when() <= due):
            return
        self.cancel()
        self._timer = self._loop.call_at(due, self._ring)

    def cancel(self) -> None:
        """Do not go off."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        self._timer = None
        self._callback()
