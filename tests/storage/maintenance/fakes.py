"""The other bookies of a cluster, and its orders, for tests of one bookie's maintenance."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from quire.entry import EntryId, LedgerId
from quire.errors import NoSuchLedgerError, StoreUnavailableError, UnreadableError
from quire.run import pack_run
from quire.storage.maintenance.replicas_port import Copies, Order, Owed, Stretch
from tests.storage.scene import SMALL, sealed

FAST = replace(SMALL, mend_seconds=0.001, mend_seconds_max=0.01)


def all_to(last: EntryId, *, is_final: bool = True) -> Owed:
    return Owed((Stretch(0, last, 1, (0,)),), is_final)


@dataclass
class FakeCopies:
    """The rest of a cluster, by heart."""

    ledgers: dict[LedgerId, Owed]
    gone: set[EntryId] = field(default_factory=set)
    """Entries that nobody has."""
    patience: float = 0.0
    """Seconds until nobody has answered."""
    is_away: bool = False
    asked: list[tuple[LedgerId, EntryId]] = field(default_factory=list)
    taken: list[LedgerId] = field(default_factory=list)
    """Ledgers whose records were asked to name the bookie."""

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Copies]:
        if self.is_away:
            raise StoreUnavailableError("store", "away")
        yield self

    async def owed(self, ledger: LedgerId) -> Owed:
        if ledger not in self.ledgers:
            raise NoSuchLedgerError(ledger)
        return self.ledgers[ledger]

    async def take_places(self, ledger: LedgerId) -> int:
        self.taken.append(ledger)
        return 1

    async def fetch(
        self, ledger: LedgerId, entries: Sequence[EntryId], bytes_max: int
    ) -> tuple[bytes, Sequence[EntryId]]:
        self.asked.append((ledger, entries[0]))
        if entries[0] in self.gone:
            await asyncio.sleep(self.patience)
            raise UnreadableError(ledger, entries[0], "nobody has it")
        given = [entry for entry in entries[:3] if entry not in self.gone]
        return pack_run(sealed(ledger, entry, bytes(500)) for entry in given), given


@dataclass
class FakeOrders:
    """Copies that the bookie is asked to make, by heart."""

    orders: list[Order]
    is_away: bool = False
    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def open(self) -> Sequence[Order]:
        if self.is_away:
            raise StoreUnavailableError("store", "away")
        return self.orders

    async def changed(self) -> None:
        if self.is_away:
            raise StoreUnavailableError("store", "away")
        await self.news.wait()
        self.news.clear()
