"""Port: waiting for news of a ledger, without its last entry.

The port stands beside `Bookie`: `wait_tail` waits and brings the last entry in one call.
Thousands wait, and one entry wakes many of them at once. An entry may have 4 MiB, so each waiter
asks for it in its turn (limits.py, `gathering`) and not before.
"""

from __future__ import annotations

from typing import Protocol

from quire.bookie import Bookie, LedgerTail
from quire.entry import NO_ENTRY, EntryId, LedgerId


class ChangeWaiter(Protocol):
    """A bookie that can be waited for without an entry."""

    async def wait_change(self, ledger: LedgerId, above: EntryId, timeout: float) -> None:
        """Return when `wait_tail` would; raises the same errors of the waiting."""
        ...


async def wait_change(bookie: Bookie, ledger: LedgerId, above: EntryId, timeout: float) -> None:
    """Wait for news of a ledger; `tail_now` brings them.

    Of a bookie that cannot be waited for otherwise, the last entry is brought and dropped.
    """
    # Not by `isinstance`: with a protocol it takes 10 µs, and this is done for all news.
    wait = getattr(bookie, "wait_change", bookie.wait_tail)
    await wait(ledger, above, timeout)


async def tail_now(bookie: Bookie, ledger: LedgerId) -> LedgerTail:
    """Return the end of a ledger as `wait_tail` tells it, without waiting."""
    return await bookie.wait_tail(ledger, NO_ENTRY - 1, 0.0)
