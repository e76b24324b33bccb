"""Healing on demand: plan the copies that are missing, ask bookies to make them, and wait.

The bookies do the work (orders.py, quire/storage/maintenance/self_repair.py). This side may end at
any moment and begin again: requests stay, and are not made twice.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Final

from quire.aio.timing import time_limit
from quire.bookie import BookieAddress
from quire.entry import BookieId, LedgerId
from quire.errors import (
    CorruptRecordError,
    InvalidRequestError,
    NoSuchLedgerError,
    NoSuchNodeError,
    QuireError,
)
from quire.ledger.domains import Candidate
from quire.ledger.inventory import take_inventory
from quire.ledger.links import link_bookie
from quire.ledger.metadata import Replica
from quire.ledger.quorum_call import QuorumCall
from quire.ledger.records import LedgerRecords
from quire.ledger.remote import REQUEST_SECONDS
from quire.ledger.roster import BookieRoster, LinkedBookie, open_roster
from quire.ledger.stored_records import StoredRecords
from quire.metastore.layout import MOVES, STANDINGS, standing_path
from quire.metastore.standing import Standing, Wish
from quire.metastore.store import MetadataStore
from quire.repair.assignments import Assignment, held_places
from quire.repair.orders import StoredOrders
from quire.repair.plan import Plan, plan_holes, plan_places

AT_ONCE: Final = 32
"""Ledgers looked at together."""

LOOK_SECONDS: Final = 5.0
"""Longest pause between two looks at the orders of a bookie."""

Progress = Callable[[int, int], None]
"""Told how many are done, and of how many."""


@dataclass(slots=True)
class Progressed:
    """What came of the assignments."""

    done: int = 0
    left: dict[BookieId, list[LedgerId]] = field(default_factory=dict)
    """Ledgers that bookies did not copy in time, and stay asked for, or were told not to copy."""


def _raise(answer: tuple[object, QuireError | None]) -> None:
    if answer[1] is not None:
        raise answer[1]


@asynccontextmanager
async def open_healing(
    store: MetadataStore, connect: Callable[[BookieAddress], LinkedBookie] = link_bookie
) -> AsyncIterator[Healing]:
    """Reach a cluster while the block runs; `connect` makes a link to a bookie without waiting.
    Raises the store's errors.
    """
    rng = random.Random()
    async with open_roster(store, connect) as roster:
        yield Healing(store, StoredRecords(store, rng), roster, rng)


class Healing:
    """See the module."""

    def __init__(
        self,
        store: MetadataStore,
        records: LedgerRecords,
        roster: BookieRoster,
        rng: random.Random,
        request_timeout: float = REQUEST_SECONDS,
    ) -> None:
        self._store = store
        self._records = records
        self._roster = roster
        self._rng = rng
        self._timeout = request_timeout

    async def plan(
        self,
        lost: Collection[BookieId],
        *,
        finds_holes: bool,
        on_progress: Progress = lambda done, total: None,
    ) -> Plan:
        """Return the assignments that are missing. Changes nothing. The places of bookies that are
        to leave go to others, too.

        Args:
            lost: bookies that will not come back. Their places go to others.
            finds_holes: whether every bookie is asked for its entries of every closed ledger.
            on_progress: told of ledgers.

        Raises:
            InvalidRequestError: one of the lost bookies is registered: it is up.
        """
        up = {each.bookie for each in self._roster.known()}
        if wrong := sorted(up.intersection(lost)):
            raise InvalidRequestError(
                f"bookie {wrong[0]} is not lost: it is registered, and serves its entries"
            )
        ledgers = [each async for page in self._records.list() for each in page]
        plan, assigned = Plan(), await self._assigned(up)
        leaving = await self._leaving()
        gone = leaving.union(lost)
        candidates = [each for each in self._roster.candidates() if each.bookie not in gone]
        async with QuorumCall[LedgerId, None]() as looks:
            for done in range(len(ledgers) + AT_ONCE):
                if done < len(ledgers):
                    places = assigned.get(ledger := ledgers[done], ())
                    looks.ask(
                        ledger,
                        self._look(plan, ledger, gone, candidates, places, finds_holes=finds_holes),
                    )
                if done >= AT_ONCE and looks.outstanding:
                    _raise(await looks.next())
                    on_progress(done - AT_ONCE + 1, len(ledgers))
        return plan

    async def _look(
        self,
        plan: Plan,
        ledger: LedgerId,
        gone: Collection[BookieId],
        candidates: list[Candidate],
        assigned: Collection[Replica],
        *,
        finds_holes: bool,
    ) -> None:
        try:
            metadata = (await self._records.read(ledger)).metadata
            labels = self._roster.labels
            plan_places(plan, self._rng, metadata, gone, candidates, labels, assigned)
            if finds_holes and metadata.is_closed:
                found = await take_inventory(self._records, self._roster, ledger, self._timeout)
                plan_holes(plan, found, gone)
        except NoSuchLedgerError:  # deleted meanwhile
            return
        except CorruptRecordError as error:
            plan.damaged[ledger] = str(error)

    async def _leaving(self) -> set[BookieId]:
        """Return the bookies that an operator drains. Raises `CorruptRecordError` and the store's
        errors.
        """
        found: set[BookieId] = set()
        for bookie in await self._store.children(STANDINGS):
            with suppress(NoSuchNodeError):
                record = await self._store.get(standing_path(bookie))
                if Standing.decode(bookie, record.value).wish is Wish.DRAIN:
                    found.add(bookie)
        return found

    async def _assigned(self, up: Iterable[BookieId]) -> dict[LedgerId, list[Replica]]:
        """Return the places that bookies which are up were asked to take."""
        found: dict[LedgerId, list[Replica]] = {}
        for bookie in sorted(up):
            for each in (await self._orders(bookie).read()).open:
                found.setdefault(each.ledger, []).extend(each.replicas)
        return found

    def _orders(self, bookie: BookieId) -> StoredOrders:
        return StoredOrders(self._store, self._records, bookie)

    async def carry_out(
        self,
        plan: Plan,
        *,
        patience: float,
        on_progress: Progress = lambda done, total: None,
    ) -> Progressed:
        """Ask the bookies for the planned copies, and wait until they are made.

        Args:
            plan: as `plan` returned it.
            patience: seconds that a bookie may take for one of its assignments. The rest of a
                bookie that takes longer is left to it.
            on_progress: told of assignments.

        Cancellation: requests that were made stay.
        """
        progressed = Progressed()

        def count(done: int) -> None:
            progressed.done += done
            on_progress(progressed.done, plan.assignments)

        async with QuorumCall[BookieId, None]() as handing:
            for bookie, wanted in plan.wanted.items():
                handing.ask(bookie, self._hand_over(bookie, wanted, patience, count, progressed))
            while handing.outstanding:
                _raise(await handing.next())
        return progressed

    async def _hand_over(
        self,
        bookie: BookieId,
        wanted: list[Assignment],
        patience: float,
        count: Callable[[int], None],
        progressed: Progressed,
    ) -> None:
        """Keep a bookie supplied, until it has done all of some assignments or takes too long."""
        orders = self._orders(bookie)
        now = asyncio.get_running_loop().time
        left, moved = {each.ledger: each for each in wanted}, now()
        asked: set[LedgerId] = set()
        unmade: list[LedgerId] = []
        while left:
            value = await orders.add(left[each] for each in left if each not in asked)
            open_now = {each.ledger for each in value.open}
            for ended in sorted(asked - open_now):
                moved = now()
                if await self._is_made(left.pop(ended)):
                    count(1)
                else:
                    unmade.append(ended)
            asked = open_now.intersection(left)
            if not left or now() - moved > patience:
                break
            with suppress(TimeoutError):
                async with time_limit(min(LOOK_SECONDS, patience)):
                    await orders.changed()
        if left or unmade:
            progressed.left[bookie] = sorted([*left, *unmade])

    async def _is_made(self, assignment: Assignment) -> bool:
        """Tell whether the places of an assignment are taken that is not open any more. It may have
        been taken back, by `cancel`. Nothing tells of entries that a bookie lacked. A damaged
        record tells nothing of places.
        """
        try:
            metadata = (await self._records.read(assignment.ledger)).metadata
        except NoSuchLedgerError:
            return True
        except CorruptRecordError:
            return False
        return not held_places(
            metadata, [replace(each, new=each.old) for each in assignment.replicas]
        )

    async def orders(self) -> dict[BookieId, list[Assignment]]:
        """Return the open assignments of all bookies that have some."""
        found: dict[BookieId, list[Assignment]] = {}
        for bookie in await self._store.children(MOVES):
            if assigned := (await self._orders(bookie).read()).open:
                found[bookie] = list(assigned)
        return found

    async def cancel(self) -> int:
        """Take all open assignments away, and return how many there were."""
        found = await self.orders()
        for bookie in found:
            await self._orders(bookie).clear()
        return sum(map(len, found.values()))
