"""Telling followers the last LAC when no entry carries it.

Every frame carries the LAC its writer knew when it sealed it, so the last entry's confirmation
travels with the next entry. When no next entry comes for `lac_idle` seconds, LAC is sent by
itself, so that followers see the last entry. There is one timer, armed when LAC moves, not a timer
per entry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from quire.entry import NO_ENTRY, EntryId


class ExplicitLac:
    """Calls `tell(lac)` when LAC was not carried by an entry for some time."""

    __slots__ = ("_entry_at", "_idle", "_lac", "_loop", "_tell", "_timer", "told")

    def __init__(self, idle_seconds: float, tell: Callable[[EntryId], None]) -> None:
        self.told = NO_ENTRY
        """The highest LAC that bookies were sent, in a frame or by itself."""
        self._lac = NO_ENTRY
        self._idle = idle_seconds
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._entry_at = self._loop.time() - idle_seconds
        self._timer: asyncio.Handle | None = None

    def sent(self) -> None:
        """Note that entries went out: the writer is not idle."""
        self._entry_at = self._loop.time()

    def confirmed(self, lac: EntryId) -> None:
        """Note where LAC is."""
        self._lac = lac
        if lac > self.told and self._timer is None:
            self._timer = self._loop.call_later(self._idle, self._look)

    def tell_at_once(self, lac: EntryId) -> None:
        """Tell LAC if it was not told yet: no entry will ever carry it."""
        if lac > self.told:
            self.told = lac
            self._tell(lac)

    def stop(self) -> None:
        """Tell nothing any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        """Look again when the callers answered before had their turn: in a busy loop a timer that
        is late comes first, and would tell what their next entries carry anyway.
        """
        self._timer = self._loop.call_soon(self._tell_if_idle)

    def _tell_if_idle(self) -> None:
        self._timer = None
        if self._lac <= self.told:
            return
        idle_at = self._entry_at + self._idle
        if idle_at > self._loop.time():
            self._timer = self._loop.call_at(idle_at, self._look)
            return
        self.told = self._lac
        self._tell(self._lac)
