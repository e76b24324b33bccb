"""The assignments of a bookie in the metadata store: read, waited for, added and taken away.

The storage's port `Orders` for the bookie, and the other side of it for the program that assigns.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from quire.entry import BookieId
from quire.errors import (
    CorruptRecordError,
    NodeExistsError,
    NoSuchLedgerError,
    NoSuchNodeError,
    StoreOutcomeUnknownError,
    VersionConflictError,
)
from quire.ledger.records import LedgerRecords
from quire.ledger.stored_records import StoredRecords
from quire.metastore.layout import moves_path
from quire.metastore.store import MetadataStore
from quire.repair.assignments import ASSIGNMENTS_MAX, Assignment, Assignments
from quire.storage.maintenance.replicas_port import Order

_log = logging.getLogger(__name__)

UNKNOWN_MAX: Final = 16
"""Changes with an unknown outcome after which one is given up."""

ATTEMPTS_MAX: Final = 2 * ASSIGNMENTS_MAX + UNKNOWN_MAX
"""Each conflict is a change of another program: a bookie takes away at most as many assignments as
it has, one at a time and in milliseconds, and programs that assign may add as many meanwhile."""


def stored_orders(store: MetadataStore, bookie: BookieId) -> StoredOrders:
    """Return the orders of a bookie as the store has them."""
    return StoredOrders(store, StoredRecords(store, random.Random()), bookie)


class StoredOrders:
    """See the module."""

    def __init__(self, store: MetadataStore, records: LedgerRecords, bookie: BookieId) -> None:
        self._store = store
        self._records = records
        self._bookie = bookie
        self._path: Final = moves_path(bookie)
        self._seen: int | None = None
        """The version of the last value read or written, None for none."""

    async def read(self) -> Assignments:
        """Return the open assignments. Raises `CorruptRecordError` and the store's errors."""
        try:
            record = await self._store.get(self._path)
        except NoSuchNodeError:
            self._seen = None
            return Assignments(self._bookie)
        self._seen = record.version
        return Assignments.decode(self._path, record.value)

    async def open(self) -> Sequence[Order]:
        """See `Orders.open`. An assignment with a damaged record of its ledger stays, and does not
        hold up the others.
        """
        orders: list[Order] = []
        for each in (await self.read()).open:
            try:
                metadata = (await self._records.read(each.ledger)).metadata
            except NoSuchLedgerError:
                await self.done(each)
                continue
            except CorruptRecordError as error:
                _log.warning("bookie %s makes no copies yet: %s", self._bookie, error)
                continue
            if metadata.is_closed:
                orders.append(Order(each.ledger, metadata.key_check))
            else:
                await self.done(each)
        return orders

    async def changed(self) -> None:
        """See `Orders.changed`."""
        await self._store.wait(self._path, self._seen)

    async def add(self, more: Iterable[Assignment]) -> Assignments:
        """Add assignments as far as there is room, and return all that are open."""
        wanted = tuple(more)
        return await self._change(lambda value: value.with_more(wanted))

    async def done(self, assignment: Assignment) -> Assignments:
        """Take an assignment away: it is done, or cannot be done any more."""
        return await self._change(lambda value: value.without(assignment))

    async def clear(self) -> Assignments:
        """Take all assignments away."""
        return await self._change(lambda value: Assignments(value.bookie, (), value.unknown))

    async def _change(self, decide: Callable[[Assignments], Assignments]) -> Assignments:
        unknown = 0
        for attempt in range(ATTEMPTS_MAX):
            value = await self.read()
            wanted = decide(value)
            if wanted == value:
                return value
            try:
                if self._seen is None:
                    self._seen = await self._store.create(self._path, wanted.encode())
                else:
                    self._seen = await self._store.put(self._path, wanted.encode(), self._seen)
            except StoreOutcomeUnknownError:
                unknown += 1
                if unknown == UNKNOWN_MAX:
                    raise
            except (NodeExistsError, NoSuchNodeError, VersionConflictError):
                if attempt == ATTEMPTS_MAX - 1:
                    raise
            else:
                return wanted
        raise AssertionError("the last attempt returns or raises")
