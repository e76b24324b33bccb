"""Forcing: from accepted entries to confirmed entries, in ledgers with deferred sync.

An append to such a ledger is answered when an ack quorum has accepted it, which survives nothing.
LAC moves when entries are forced: every sender asks its bookie to sync and to name the accepted
entries that it holds, and the window counts the named entries. So LAC has its usual meaning:
Qa bookies of each write set hold the entry durably and accepted it before any fence.

A bookie that does not name an entry it had accepted was restarted in between. It counts as failed,
is replaced, or is sent the entry again: no position vouches for another life of its bookie.

Not here: when to force (`writer`: when asked to, when space runs out, and before closing).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

from quire.entry import NO_ENTRY, EntryId
from quire.errors import QuireError
from quire.ledger.quorum import Replication


def vouched(
    replication: Replication,
    position: int,
    first: EntryId,
    last: EntryId,
    held: Iterable[tuple[EntryId, EntryId]],
) -> EntryId:
    """Return the last entry before a position's first missing entry of first..last.

    `held` are ascending, disjoint, inclusive ranges, as `Bookie.sync` returns them.
    """
    entry = first
    for low, high in held:
        while entry < low and not replication.is_written_to(entry, position):
            entry += 1
        if entry < low:
            break
        entry = max(entry, high + 1)
    while entry <= last and not replication.is_written_to(entry, position):
        entry += 1
    return min(entry - 1, last)


class Forcing:
    """The callers that wait for LAC to reach their appends; `sync` asks senders that can help."""

    __slots__ = ("_loop", "_sync", "_waiting", "wanted")

    def __init__(self, sync: Callable[[], None]) -> None:
        self.wanted: EntryId = NO_ENTRY
        """The last entry to be forced."""
        self._sync = sync
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[EntryId, asyncio.Future[None]]] = deque()

    def want(self, through: EntryId) -> None:
        """Force everything up to an entry, without a caller that waits."""
        self.wanted = max(self.wanted, through)
        self._sync()

    def wait(self, through: EntryId, lac: EntryId) -> asyncio.Future[None]:
        """The same; the future is done when LAC, which is at `lac` now, is there."""
        done = self._loop.create_future()
        self._waiting.append((through, done))
        self.want(through)
        self.confirmed(lac)
        return done

    def confirmed(self, lac: EntryId) -> None:
        """Answer the callers with entries that LAC has reached, and go on for the others."""
        while self._waiting and self._waiting[0][0] <= lac:
            _, done = self._waiting.popleft()
            if not done.done():
                done.set_result(None)
        if self.wanted > lac:
            self._sync()

    def fail(self, error: Callable[[], QuireError]) -> None:
        """Fail all waiting callers."""
        while self._waiting:
            _, done = self._waiting.popleft()
            if not done.done():
                done.set_exception(error())
                done.exception()
