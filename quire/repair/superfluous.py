"""Which copies of a bookie are superfluous, as the metadata store and the other bookies prove.

A ledger is superfluous at a bookie when all of this holds:

  * its record is closed, so its entries are decided, and the record does not name the bookie;
  * the bookie is not asked to make copies of it;
  * every bookie that the record names lists every entry that it must hold, so each entry has all
    copies of its write quorum without this bookie;
  * then the record was written once more, unchanged, at the version that the proof began with.

The last step ends every change under way that was decided before it, such as one of an earlier
process of this bookie that would name the bookie as a holder. So the proof needs no pause to be
safe. A change decided later needs an order, which the bookie notices (disowning.py).

A store that was put back from a backup begins the proof anew (`SameStore`). Below feature level 2
no copy is superfluous: a program of level 1 would leave the id of a disowned ledger in the files.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Final, TypeAlias

from quire.aio.tasks import together
from quire.bookie import BookieAddress
from quire.entry import BookieId, LedgerId
from quire.errors import (
    ConflictError,
    CorruptRecordError,
    NoSuchLedgerError,
    OutcomeUnknownError,
    QuireError,
)
from quire.ledger.inventory import Inventory, compared, list_held, named_by
from quire.ledger.links import link_bookie
from quire.ledger.metadata import LedgerMetadata
from quire.ledger.ranges import Ranges
from quire.ledger.records import LedgerRecords
from quire.ledger.remote import REQUEST_SECONDS
from quire.ledger.roster import Bookies, LinkedBookie, open_roster
from quire.ledger.stored_records import StoredRecords
from quire.metastore.cluster import Level
from quire.metastore.store import MetadataStore
from quire.repair.orders import StoredOrders
from quire.storage.maintenance.deletions import SameStore

DISOWNING_LEVEL: Final = 2

AT_ONCE: Final = 32
"""Ledgers looked at together."""

Reach: TypeAlias = Callable[[], AbstractAsyncContextManager[Bookies]]
"""Reaches the other bookies while a block runs."""


def is_unnamed(metadata: LedgerMetadata, bookie: BookieId) -> bool:
    """Return whether a ledger's entries are decided, and a bookie need hold none of them. Pure."""
    return metadata.is_closed and bookie not in named_by(metadata)


def is_whole(inventory: Inventory) -> bool:
    """Return whether each entry is listed by all bookies of its write set, and each bookie that the
    record names answered. Pure.
    """
    return not inventory.shortages and not any(each.error for each in inventory.holdings)


class SuperfluousCopies:
    """The storage's port `Superfluous` over a metadata store and the other bookies."""

    def __init__(
        self,
        store: MetadataStore,
        records: LedgerRecords,
        bookie: BookieId,
        cluster: str,
        reach: Reach,
        request_timeout: float = REQUEST_SECONDS,
    ) -> None:
        self._records = records
        self._bookie = bookie
        self._reach = reach
        self._timeout = request_timeout
        self._same = SameStore(store, cluster)
        self._level = Level(store)
        self._orders = StoredOrders(store, records, bookie)

    async def unnamed(self, ledgers: Sequence[LedgerId]) -> list[LedgerId]:
        """See `Superfluous.unnamed`."""
        if not await self._level.allows(DISOWNING_LEVEL):
            return []
        incarnation, asked = await self._same.check(), await self._asked()
        found = await _some(ledgers, self._is_unnamed)
        await self._same.check_again(incarnation)
        return [each for each in found if each not in asked]

    async def proved(self, ledgers: Sequence[LedgerId]) -> list[LedgerId]:
        """See `Superfluous.proved`."""
        incarnation, asked = await self._same.check(), await self._asked()
        wanted = [each for each in ledgers if each not in asked]
        async with self._reach() as bookies:
            found = await _some(wanted, partial(self._is_proved, bookies))
        await self._same.check_again(incarnation)
        return found

    async def _asked(self) -> set[LedgerId]:
        return {each.ledger for each in (await self._orders.read()).open}

    async def _is_unnamed(self, ledger: LedgerId) -> bool:
        try:
            return is_unnamed((await self._records.read(ledger)).metadata, self._bookie)
        except NoSuchLedgerError:
            return False  # the collector drops it as deleted
        except CorruptRecordError:
            return False  # nothing tells which bookies need it

    async def _is_proved(self, bookies: Bookies, ledger: LedgerId) -> bool:
        try:
            found = await self._records.read(ledger)
            metadata = found.metadata
            if not is_unnamed(metadata, self._bookie):
                return False
            if not is_whole(await compared(metadata, await self._lists(bookies, metadata))):
                return False
            await self._records.change(metadata, found.version)
        except (NoSuchLedgerError, CorruptRecordError, ConflictError, OutcomeUnknownError):
            return False
        return True

    async def _lists(
        self, bookies: Bookies, metadata: LedgerMetadata
    ) -> dict[BookieId, Ranges | QuireError]:
        """Return what the bookies list that a ledger names."""
        answers: dict[BookieId, Ranges | QuireError] = {}
        for bookie in sorted(named_by(metadata)):
            try:
                answers[bookie] = await list_held(bookies, bookie, metadata.ledger, self._timeout)
            except QuireError as error:
                answers[bookie] = error
        return answers


async def _some(
    ledgers: Sequence[LedgerId], test: Callable[[LedgerId], Coroutine[Any, Any, bool]]
) -> list[LedgerId]:
    """Return the ledgers that pass a test, some tested at a time."""
    found: list[LedgerId] = []
    for first in range(0, len(ledgers), AT_ONCE):
        some = ledgers[first : first + AT_ONCE]
        passed = await together(*map(test, some))
        found += (each for each, is_found in zip(some, passed, strict=True) if is_found)
    return found


def superfluous_copies(
    store: MetadataStore,
    bookie: BookieId,
    cluster: str,
    *,
    connect: Callable[[BookieAddress], LinkedBookie] = link_bookie,
) -> SuperfluousCopies:
    """Return what proves copies of a bookie superfluous, over its cluster's store; `connect` makes
    a link to another bookie without waiting.
    """
    records, reach = StoredRecords(store, random.Random()), partial(open_roster, store, connect)
    return SuperfluousCopies(store, records, bookie, cluster, reach)
