"""A bookie that does as little as the port allows: what an adapter to another system can do."""

from __future__ import annotations

from dataclasses import replace

from quire.bookie import READ_BYTES_MAX, BookieInfo, LedgerTail, Stride
from quire.entry import EntryId, LedgerId
from quire.errors import NoSuchEntryError
from quire.run import pack_run, split_run
from quire.testing.bookie import MemoryBookie


class OneByOneBookie(MemoryBookie):
    """A bookie that looks entries up one by one, so its denial reaches one of them."""

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
        def is_looked_up(entry: EntryId) -> bool:
            return stride is None or stride.gives(entry)

        start = next(filter(is_looked_up, range(first, last + 1)), first)
        try:
            await super().read(ledger, start, min(start, last), fence_key=fence_key, bytes_max=1)
        except NoSuchEntryError:
            return await super().read(ledger, first, first)
        if start > last or not is_looked_up(start):
            return await super().read(ledger, first, first)
        run = await super().read(ledger, start, last, bytes_max=bytes_max)
        return pack_run(frame for entry, frame in split_run(run) if is_looked_up(entry))


class LeastBookie(OneByOneBookie):
    """A bookie that names no fences and no facts, checks no syncs, and forgets what it dropped."""

    def retire(self, ledger: LedgerId) -> None:
        self.ledgers.pop(ledger, None)

    def disown(self, ledger: LedgerId) -> None:
        self.ledgers.pop(ledger, None)

    async def read_tail(self, ledger: LedgerId, *, fence_key: bytes | None = None) -> LedgerTail:
        return replace(await super().read_tail(ledger, fence_key=fence_key), fenced=None)

    async def wait_tail(self, ledger: LedgerId, above: EntryId, timeout: float) -> LedgerTail:
        return replace(await super().wait_tail(ledger, above, timeout), fenced=None)

    async def sync(
        self, ledger: LedgerId, key: bytes, first: EntryId, last: EntryId
    ) -> list[tuple[EntryId, EntryId]]:
        self.look(ledger).settle()
        held = [(max(low, first), min(high, last)) for low, high in self._ranges(ledger)]
        return [(low, high) for low, high in held if low <= high]

    async def info(self) -> BookieInfo:
        return replace(await super().info(), ledgers=None, in_limbo=None, highest=None)
