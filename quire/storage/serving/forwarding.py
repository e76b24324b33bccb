"""A bookie before another bookie: what the guards before a bookie's node do not change.

Each guard (births.py, obedient.py) is about one or two calls. All other calls reach the bookie
behind it as they came.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Final

from quire.bookie import READ_BYTES_MAX, Bookie, BookieInfo, LedgerTail, Stride
from quire.entry import BookieId, EntryId, LedgerId
from quire.outline import Outline
from quire.storage.serving.change_waiter import wait_change
from quire.storage.serving.offered_run import OfferedRun
from quire.storage.serving.run_taker import RunTaker


class ForwardingBookie:
    """Port 1: another bookie, whose calls a subclass may look at first."""

    def __init__(self, bookie: Bookie, name: BookieId) -> None:
        self._bookie: Final = bookie
        self._taker: Final = bookie if isinstance(bookie, RunTaker) else None
        self.name: Final = name

    def add(
        self,
        ledger: LedgerId,
        key: bytes,
        run: bytes,
        *,
        recovery: bool = False,
        deferred: bool = False,
    ) -> Awaitable[None]:
        """See `Bookie.add`."""
        return self._bookie.add(ledger, key, run, recovery=recovery, deferred=deferred)

    def take(self, offers: Sequence[OfferedRun], first: int) -> int:
        """See `RunTaker.take`."""
        return first if self._taker is None else self._taker.take(offers, first)

    async def read(
        self,
        ledger: LedgerId,
        first: EntryId,
        last: EntryId,
        *,
        fence_key: bytes | None = None,
        bytes_max: int = READ_BYTES_MAX,
        stride: Stride | None = None,
    ) -> bytes:
        """See `Bookie.read`."""
        return await self._bookie.read(
            ledger, first, last, fence_key=fence_key, bytes_max=bytes_max, stride=stride
        )

    async def read_tail(self, ledger: LedgerId, *, fence_key: bytes | None = None) -> LedgerTail:
        """See `Bookie.read_tail`."""
        return await self._bookie.read_tail(ledger, fence_key=fence_key)

    async def wait_tail(self, ledger: LedgerId, above: EntryId, timeout: float) -> LedgerTail:
        """See `Bookie.wait_tail`."""
        return await self._bookie.wait_tail(ledger, above, timeout)

    async def wait_change(self, ledger: LedgerId, above: EntryId, timeout: float) -> None:
        """See `ChangeWaiter.wait_change`."""
        await wait_change(self._bookie, ledger, above, timeout)

    async def write_lac(self, ledger: LedgerId, key: bytes, packet: bytes) -> None:
        """See `Bookie.write_lac`."""
        await self._bookie.write_lac(ledger, key, packet)

    async def sync(
        self, ledger: LedgerId, key: bytes, first: EntryId, last: EntryId
    ) -> list[tuple[EntryId, EntryId]]:
        """See `Bookie.sync`."""
        return await self._bookie.sync(ledger, key, first, last)

    async def list_entries(
        self, ledger: LedgerId, first: EntryId = 0
    ) -> list[tuple[EntryId, EntryId]]:
        """See `Bookie.list_entries`."""
        return await self._bookie.list_entries(ledger, first)

    async def list_ledgers(self, first: LedgerId = 0) -> list[tuple[LedgerId, LedgerId]]:
        """See `Bookie.list_ledgers`."""
        return await self._bookie.list_ledgers(first)

    async def outlines(self, ledgers: Sequence[LedgerId]) -> list[Outline | None]:
        """See `Bookie.outlines`."""
        return await self._bookie.outlines(ledgers)

    async def info(self) -> BookieInfo:
        """See `Bookie.info`."""
        return await self._bookie.info()
