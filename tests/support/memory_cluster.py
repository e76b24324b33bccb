"""A cluster held in memory: a metadata store, reference bookies, a roster and what hangs on it.

Everything runs on the current event loop without a network. Faults are injected through each
bookie's `before` hook; `Faults` has the usual ones.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from quire.bookie import BookieAddress
from quire.entry import BookieId, LedgerId
from quire.errors import BookieUnavailableError
from quire.labels import NOWHERE, Labels
from quire.ledger.catalog import LedgerCatalog
from quire.ledger.options import LedgerOptions
from quire.ledger.roster import BookieRoster
from quire.ledger.stored_records import StoredRecords
from quire.metastore.layout import bookie_path
from quire.metastore.memory import MemoryStore
from quire.metastore.registration import encode_registration
from quire.metastore.store import Session
from quire.testing.bookie import MemoryBookie

SESSION_SECONDS = 3600.0


class LocalBookie(MemoryBookie):
    """A reference bookie that a roster can hold."""

    async def close(self) -> None:
        return None


class MemoryCluster:
    """`async with MemoryCluster(4) as cluster`: bookies b0 … b3, registered and writable."""

    def __init__(
        self,
        size: int,
        *,
        store: MemoryStore | None = None,
        options: LedgerOptions | None = None,
        seed: int = 0,
        kind: type[LocalBookie] = LocalBookie,
    ) -> None:
        self._kind = kind
        self.store = store or MemoryStore()
        self.options = options or LedgerOptions()
        self.bookies: dict[BookieId, LocalBookie] = {}
        self.size = size
        self.roster = BookieRoster(self.store, lambda address: self.bookies[address.bookie])
        self.rng = random.Random(seed)
        self.catalog = self.client()
        self.session: Session

    async def __aenter__(self) -> Self:
        self.session = await self.store.open_session(SESSION_SECONDS)
        for number in range(self.size):
            await self.register(f"b{number}")
        await self.roster.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.roster.close()
        await self.store.close()

    def client(self) -> LedgerCatalog:
        """Return another client's catalog; clients share the roster."""
        records = StoredRecords(self.store, self.rng)
        return LedgerCatalog(
            records, self.roster, rng=self.rng, clock=lambda: 1.5, options=self.options
        )

    async def register(
        self, bookie: BookieId, *, writable: bool = True, labels: Labels = NOWHERE
    ) -> LocalBookie:
        """Add a bookie and register it."""
        self.bookies[bookie] = self._kind(bookie)
        address = BookieAddress(bookie, f"{bookie}:1", writable, labels=labels)
        registration = encode_registration(address)
        await self.session.create(bookie_path(bookie), registration)
        return self.bookies[bookie]

    async def unregister(self, bookie: BookieId) -> None:
        """Remove a registration as the end of a session would."""
        await self.store.delete(bookie_path(bookie))

    def holders(self, ledger: LedgerId, entry: int) -> list[BookieId]:
        """Return who holds a copy of an entry."""
        return [
            name
            for name in sorted(self.bookies)
            if ledger in self.bookies[name].ledgers
            and entry in self.bookies[name].look(ledger).frames
        ]


Hook = Callable[[str, LedgerId], Awaitable[None]]


def down(*methods: str) -> Hook:
    """A hook under which the methods named (none: all) fail at once."""

    async def before(method: str, ledger: LedgerId) -> None:
        if not methods or method in methods:
            raise BookieUnavailableError("hooked", f"{method} fails by order of the test")

    return before


def hung(*methods: str) -> Hook:
    """A hook under which the methods named (none: all) never answer."""

    async def before(method: str, ledger: LedgerId) -> None:
        if not methods or method in methods:
            await asyncio.Event().wait()

    return before


def slowly(seconds: float) -> Hook:
    """A hook under which every request takes some time."""

    async def before(method: str, ledger: LedgerId) -> None:
        await asyncio.sleep(seconds)

    return before


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop run until a condition holds; the deadline is there to fail, not to time."""
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 the condition has no event of its own
            await asyncio.sleep(0)
