"""A bookie that does as little as the port allows: what an adapter to another system can do."""

from __future__ import annotations

from quire.bookie import READ_BYTES_MAX
from quire.entry import EntryId, LedgerId
from quire.testing.bookie import MemoryBookie


class LeastBookie(MemoryBookie):
    """A bookie that looks entries up one by one, and forgets what it dropped."""

    def retire(self, ledger: LedgerId) -> None:
        self.ledgers.pop(ledger, None)

    def disown(self, ledger: LedgerId) -> None:
        self.ledgers.pop(ledger, None)

    async def read(
        self,
        ledger: LedgerId,
        first: EntryId,
        last: EntryId,
        *,
        fence_key: bytes | None = None,
        bytes_max: int = READ_BYTES_MAX,
    ) -> bytes:
        await super().read(ledger, first, min(first, last), fence_key=fence_key, bytes_max=1)
        return await super().read(ledger, first, last, bytes_max=bytes_max)
