"""An Apache BookKeeper cluster held in memory: its metadata, and bookies with its habits."""

from __future__ import annotations

import random
from functools import partial
from types import TracebackType
from typing import Self

from quire.bookie import BookieAddress
from quire.bookkeeper.apache_bookie import ApacheBookie
from quire.bookkeeper.records import open_records
from quire.bookkeeper.registration import PROTOCOL, encode_registration
from quire.bookkeeper.registrations import ApacheRegistrations
from quire.entry import BookieId
from quire.ledger.catalog import LedgerCatalog
from quire.ledger.options import LedgerOptions
from quire.ledger.roster import BookieRoster
from quire.metastore.memory import MemoryStore
from quire.metastore.store import MetadataStore, Session
from tests.support.apache_bookie import FakeApacheBookie

LAYOUT = b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1"
ROOT = "/ledgers"


class ApacheClusterInMemory:
    """`async with ApacheClusterInMemory(4) as cluster`: bookies b0 … b3, registered."""

    def __init__(self, size: int, *, lists: bool = True, timeout: float = 5.0) -> None:
        self.store = MemoryStore()
        self.fakes: dict[BookieId, FakeApacheBookie] = {
            f"b{number}": FakeApacheBookie(lists=lists) for number in range(size)
        }
        self.options = LedgerOptions(request_timeout=timeout)
        self.rng = random.Random(0)
        self.roster = self.new_roster(self.store)
        self.session: Session
        self.catalog: LedgerCatalog

    def new_roster(self, store: MetadataStore) -> BookieRoster:
        return BookieRoster(store, self._link, (PROTOCOL,), partial(ApacheRegistrations, ROOT))

    def _link(self, address: BookieAddress) -> ApacheBookie:
        timeout = self.options.request_timeout
        connect = self.fakes[address.bookie].connect
        return ApacheBookie(address, request_timeout=timeout, connect=connect)

    async def __aenter__(self) -> Self:
        await self.store.create(f"{ROOT}/LAYOUT", LAYOUT)
        await self.store.create(f"{ROOT}/available/readonly", b"")
        self.session = await self.store.open_session(3600.0)
        for name in self.fakes:
            await self.register(name)
        await self.roster.start()
        self.catalog = await self.client(self.store)
        return self

    async def register(self, bookie: BookieId, *, writable: bool = True) -> None:
        value = encode_registration(BookieAddress(bookie, f"{bookie}:3181", protocol=PROTOCOL))
        place = "available" if writable else "available/readonly"
        await self.session.create(f"{ROOT}/{place}/{bookie}", value)

    async def client(self, store: MetadataStore) -> LedgerCatalog:
        records = await open_records(store, ROOT)
        return LedgerCatalog(
            records, self.roster, rng=self.rng, clock=lambda: 1.5, options=self.options
        )

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.roster.close()
        await self.store.close()
