"""Telling followers the last LAC when no entry carries it.

Every frame carries the LAC its writer knew when it sealed it, so the last entry's confirmation
travels with the next entry. When no next entry comes for some time, LAC is sent by itself, so that
followers see the last entry. All writers of a client share one timer for it (aio/later.py): most
find that an entry has carried LAC.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import copy_context

from quire.aio.later import Later
from quire.entry import NO_ENTRY, EntryId


class ExplicitLac:
    """Calls `tell(lac)` when LAC was not carried by an entry for as long as `later` waits."""

    __slots__ = (
        "_awaited",
        "_context",
        "_entry_at",
        "_is_over",
        "_is_set",
        "_lac",
        "_later",
        "_loop",
        "_tell",
        "told",
    )

    def __init__(
        self, later: Later, tell: Callable[[EntryId], None], told: EntryId = NO_ENTRY
    ) -> None:
        self.told = told
        """The highest LAC that bookies were sent, in a frame or by itself."""
        self._lac = self._awaited = NO_ENTRY
        self._later = later
        self._tell = tell
        self._context = copy_context()
        """The writer's variables: the timer runs with any writer's."""
        self._loop = asyncio.get_running_loop()
        self._entry_at = self._loop.time() - later.seconds
        self._is_set = False
        """Whether `_look` will be called."""
        self._is_over = False

    def sent(self) -> None:
        """Note that entries went out: the writer is not idle."""
        self._entry_at = self._loop.time()

    def confirmed(self, lac: EntryId) -> None:
        """Note where LAC is."""
        self._lac = lac
        if lac > self.told and not self._is_set:
            self._is_set, self._awaited = True, lac
            self._later.call(self._loop, self._look)

    def tell_at_once(self, lac: EntryId) -> None:
        """Tell LAC if it was not told yet: no entry will ever carry it."""
        if lac > self.told:
            self.told = lac
            self._tell(lac)

    def stop(self) -> None:
        """Tell nothing any more by itself."""
        self._is_over = True

    def _look(self) -> None:
        """Tell LAC, unless an entry has carried it or the writer is not idle."""
        self._is_set = False
        if self._lac <= self.told or self._is_over:
            return
        if self._lac > self._awaited:
            # It has moved: its caller may have an answer, and not have had its turn.
            self._is_set, self._awaited = True, self._lac
            self._loop.call_soon(self._loop.call_soon, self._look)
            return
        idle_at = self._entry_at + self._later.seconds
        if idle_at > self._loop.time():
            self._is_set = True
            self._loop.call_at(idle_at, self._loop.call_soon, self._look)
            return
        self._context.run(self.tell_at_once, self._lac)
