"""Safeguards of bookies that take the places of lost ones, and what replaces them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Sequence
from typing import Any

from quire.entry import BookieId, LedgerId
from quire.errors import ConflictError, UnreadableError
from quire.ledger.metadata import LedgerMetadata, LedgerState
from quire.repair import assignments as assignments_module
from quire.repair import copies as copies_module
from quire.repair.assignments import Assignments, adopted
from quire.repair.copies import PeerCopies
from quire.repair.healing import Healing
from quire.repair.holdings import owed_by
from quire.repair.orders import StoredOrders
from quire.repair.plan import Plan
from quire.storage.entries.ledger_storage import LedgerStorage
from quire.storage.journal.replay import JournalPosition
from quire.storage.maintenance.flushing import Upkeep
from quire.storage.maintenance.replicas_port import Copies, Owed, Stretch
from quire.storage.maintenance.self_repair import Mender
from tests.sim.ablations.patch import Patch
from tests.sim.faults import FaultMix


def storms(mix: FaultMix) -> None:
    """Bookies that go away and come back, over a store that is slow to answer."""
    mix.rates = {"crash": 2.0, "power cut": 2.0, "pause": 1.0}
    mix.weather.unknown = 0.2
    mix.mending = 0.2


def zones(mix: FaultMix) -> None:
    """Acks that count zones, wherever the shape allows it."""
    mix.zones, mix.relabels = 1.0, 0.0


def take_the_place_before_the_copies() -> list[Patch]:
    mend = Mender._mend

    async def take_first(self: Mender, copies: Copies, ledger: LedgerId) -> bool:
        await copies.owed(ledger)
        if ledger in self._ordered:
            await copies.take_places(ledger)
        return await mend(self, copies, ledger)

    return [(Mender, "_mend", take_first)]


def look_for_the_first_and_the_last_entry() -> list[Patch]:
    """A bookie that has the ends of a fragment takes it for whole."""
    missing = Mender._missing

    async def ends_only(
        self: Mender, copies: Copies, ledger: LedgerId, owed: Owed
    ) -> AsyncGenerator[Iterator[int], None]:
        ends = {end for each in owed.stretches for end in _ends(each)}
        async for piece in missing(self, copies, ledger, owed):
            yield (entry for entry in piece if entry in ends)

    return [(Mender, "_missing", ends_only)]


def _ends(stretch: Stretch) -> Sequence[int]:
    entries = list(stretch.within(stretch.first, stretch.last))
    return entries[:1] + entries[-1:]


def forget_what_a_cancelled_flush_was_to_write() -> list[Patch]:
    """A mender that is closed cancels its flush; the last flush writes no row of its changes."""
    flush = LedgerStorage._flush

    async def forget(self: LedgerStorage, position: JournalPosition) -> int:
        changed = list(self.memory.changed)
        try:
            return await flush(self, position)
        except asyncio.CancelledError:
            for ledger in changed:
                self.memory.changed.pop(ledger, None)
            raise

    return [(LedgerStorage, "_flush", forget), (Upkeep, "flush_to_its_end", Upkeep.flush)]


def take_what_nobody_gives_for_absent() -> list[Patch]:
    mend = Mender._mend

    async def lenient(self: Mender, copies: Copies, ledger: LedgerId) -> bool:
        try:
            return await mend(self, copies, ledger)
        except UnreadableError:
            return True

    return [(Mender, "_mend", lenient)]


def owe_entries_beyond_the_end() -> list[Patch]:
    def more(metadata: LedgerMetadata, bookie: str) -> Owed:
        owed = owed_by(metadata, bookie)
        if not owed.is_final or not owed.stretches:
            return owed
        *rest, last = owed.stretches
        longer = Stretch(last.first, last.last + 3, last.cycle, last.remainders)
        return Owed((*rest, longer), is_final=True)

    return [(copies_module, "owed_by", more)]


def forget_the_places_asked_for() -> list[Patch]:
    """The bookie owes what the record says: it is whole at once, and its limbo is over."""

    async def owed(self: PeerCopies, ledger: LedgerId) -> Owed:
        found = await self._records.read(ledger)
        self._metadata = found.metadata
        now = owed_by(found.metadata, self._bookie)
        assigned = self._assignments.of(ledger)
        replicas = () if assigned is None else assigned.replicas
        later = owed_by(adopted(found.metadata, replicas), self._bookie)
        self._counted = {ledger: (frozenset(later.stretches), found.version)}
        return now

    return [(PeerCopies, "owed", owed)]


def write_the_record_that_was_read_before_the_copies() -> list[Patch]:
    async def change(self: PeerCopies, ledger: LedgerId) -> int:
        assigned = self._assignments.of(ledger)
        if assigned is None:
            return 0
        before = self._metadata
        if before is not None and before.ledger == ledger and assigned.replicas:
            wanted = adopted(before, assigned.replicas)
            current = await self._records.read(ledger)
            if wanted != current.metadata:
                await self._records.change(wanted, current.version)
        await self._orders.done(assigned)
        return len(assigned.replicas)

    return [(PeerCopies, "take_places", change)]


def enter_the_record_before_the_fence_is_durable() -> list[Patch]:
    async def hasty(self: Mender, copies: Copies, ledger: LedgerId) -> bool:
        await copies.take_places(ledger)
        return True

    return [(Mender, "_take_places", hasty)]


def end_what_is_being_written() -> list[Patch]:
    """As BookKeeper's replicator does: an open ledger of a lost bookie is recovered."""
    look = Healing._look

    async def impatient(
        self: Healing,
        plan: Plan,
        ledger: LedgerId,
        gone: Collection[BookieId],
        *args: Any,
        **kw: Any,
    ) -> None:
        await look(self, plan, ledger, gone, *args, **kw)
        if ledger in plan.open_ledgers:
            found = await self._records.read(ledger)
            if found.metadata.state is LedgerState.OPEN:
                ending = found.metadata.with_state(LedgerState.IN_RECOVERY)
                await self._records.change(ending, found.version)

    return [(Healing, "_look", impatient)]


def leave_an_ordered_ledger_unfenced() -> list[Patch]:
    doubt = LedgerStorage.doubt

    def lax(self: LedgerStorage, ledger: LedgerId, key_check: str) -> bool:
        was_fenced = self.state(ledger).is_fenced
        found = doubt(self, ledger, key_check)
        self.state(ledger).is_fenced = was_fenced
        return found

    return [(LedgerStorage, "doubt", lax)]


def learn_no_key_of_an_ordered_ledger() -> list[Patch]:
    doubt = LedgerStorage.doubt
    return [(LedgerStorage, "doubt", lambda self, ledger, _: doubt(self, ledger, ""))]


def give_places_away_from_domains() -> list[Patch]:
    """A bookie takes every place that it is asked to take, wherever the other copies are."""
    return [(assignments_module, "_keeps_domains", lambda *_: True)]


def change_requests_blindly() -> list[Patch]:
    """Auditors, operators and the bookie write the record of requests over each other's."""

    async def change(
        self: StoredOrders, decide: Callable[[Assignments], Assignments]
    ) -> Assignments:
        wanted = decide(await self.read())
        while True:
            await self.read()  # only for the version
            try:
                if self._seen is None:
                    self._seen = await self._store.create(self._path, wanted.encode())
                else:
                    self._seen = await self._store.put(self._path, wanted.encode(), self._seen)
            except ConflictError:
                continue
            return wanted

    return [(StoredOrders, "_change", change)]
