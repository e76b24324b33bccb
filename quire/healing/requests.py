"""The open requests for copies, of all bookies, as an auditor sees them.

They are in the store, one record a bookie (quire/repair/orders.py). The bookie takes a request away
when it is done. This view is as old as the last `read`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence

from quire.entry import BookieId, LedgerId
from quire.errors import CorruptRecordError, InvalidRequestError
from quire.healing.tally import Tally
from quire.ledger.metadata import Replica
from quire.ledger.records import LedgerRecords
from quire.metastore.layout import MOVES
from quire.metastore.store import MetadataStore
from quire.repair.assignments import Assignment, Assignments
from quire.repair.orders import StoredOrders
from quire.repair.plan import Plan

_log = logging.getLogger(__name__)


class Requests:
    """See the module."""

    def __init__(self, store: MetadataStore, records: LedgerRecords, tally: Tally) -> None:
        self._store = store
        self._records = records
        self._tally = tally
        self._since: dict[tuple[BookieId, LedgerId], float] = {}
        """When each open request was first seen, by the clock of the loop."""
        self._by_bookie: dict[BookieId, Assignments] = {}
        self._damaged: set[BookieId] = set()

    def __len__(self) -> int:
        return sum(len(each.open) for each in self._by_bookie.values())

    async def read(self, bookies: Iterable[BookieId]) -> set[LedgerId]:
        """Read the records of some bookies and of all that have one.

        Returns the ledgers of requests that ended since. Raises the store's errors. A bookie with a
        damaged record is asked for nothing.
        """
        names = {*await self._store.children(MOVES), *bookies}
        before, found = self._pairs(), dict[BookieId, Assignments]()
        self._damaged.clear()
        for name in sorted(names):
            try:
                found[name] = await self._orders(name).read()
            except (CorruptRecordError, InvalidRequestError) as error:
                self._damaged.add(name)
                _log.warning("requests for copies cannot be read: %s", error)
        self._by_bookie = found
        ended = before - self._pairs()
        self._tally.requests_ended += len(ended)
        self._note()
        return {ledger for _, ledger in ended}

    def oldest_seconds(self) -> float | None:
        """Return for how long the oldest open request has been seen; None without a request."""
        now = asyncio.get_running_loop().time()
        return None if not self._since else now - min(self._since.values())

    def _note(self) -> None:
        """Count requests that were not seen before, and note when they were first seen."""
        now, pairs = asyncio.get_running_loop().time(), self._pairs()
        self._tally.requests += len(pairs.difference(self._since))
        self._since = {each: self._since.get(each, now) for each in pairs}

    async def withdraw(self, bookies: Iterable[BookieId]) -> None:
        """Take back what some bookies were asked for, because they are lost."""
        for bookie in sorted(bookies):
            if bookie in self._by_bookie and self._by_bookie[bookie].open:
                withdrawn = len(self._by_bookie[bookie].open)
                self._by_bookie[bookie] = await self._orders(bookie).clear()
                self._tally.requests_withdrawn += withdrawn
        self._note()

    async def add(self, plan: Plan) -> None:
        """Ask for the copies of a plan, as far as bookies have room for requests."""
        for bookie, wanted in sorted(plan.wanted.items()):
            self._by_bookie[bookie] = await self._orders(bookie).add(wanted)
        self._note()

    def room(self, bookie: BookieId, wanted: Mapping[BookieId, Sequence[Assignment]]) -> int:
        """Return how many more requests a bookie takes, if it gets those wanted."""
        if bookie in self._damaged:
            return 0
        asked = self._by_bookie.get(bookie, Assignments(bookie))
        return asked.room - len(wanted.get(bookie, ()))

    def open_of(self, bookie: BookieId) -> int:
        """Return how many requests a bookie has open."""
        return len(self._by_bookie.get(bookie, Assignments(bookie)).open)

    def ledgers(self) -> set[LedgerId]:
        """Return the ledgers of open requests."""
        return {ledger for _, ledger in self._pairs()}

    def replicas(self, but: Collection[BookieId]) -> dict[LedgerId, list[Replica]]:
        """Return the places that bookies were asked to take, `but` some bookies."""
        found: dict[LedgerId, list[Replica]] = {}
        for bookie, value in self._by_bookie.items():
            if bookie not in but:
                for each in value.open:
                    found.setdefault(each.ledger, []).extend(each.replicas)
        return found

    def _pairs(self) -> set[tuple[BookieId, LedgerId]]:
        return {
            (bookie, each.ledger)
            for bookie, value in self._by_bookie.items()
            for each in value.open
        }

    def _orders(self, bookie: BookieId) -> StoredOrders:
        return StoredOrders(self._store, self._records, bookie)
