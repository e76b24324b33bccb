"""Narrow ports for the questions of a bookie that repairs itself to the rest of the cluster.

It has neither the passwords nor the metadata of ledgers. `Copies` names the entries that metadata
assigns to it, and brings entries that other bookies hold. `Orders` names the ledgers of which it is
asked to make copies. quire/repair implements both. The values are pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from quire.entry import NO_ENTRY, EntryId, LedgerId


@dataclass(frozen=True, slots=True)
class Stretch:
    """The entries first ≤ id ≤ last with a remainder by `cycle` that is in `remainders`."""

    first: EntryId
    last: EntryId
    cycle: int
    remainders: tuple[int, ...]

    def within(self, first: EntryId, last: EntryId) -> Iterator[EntryId]:
        """Yield its entries at or between the two, ascending."""
        for entry in range(max(first, self.first), min(last, self.last) + 1):
            if entry % self.cycle in self.remainders:
                yield entry


@dataclass(frozen=True, slots=True)
class Owed:
    """What metadata says a bookie must hold of one ledger, ascending.

    `is_final`: the ledger is closed, and this is all there will ever be. Otherwise these are its
    finished fragments only: what belongs to the last one is still being decided.
    """

    stretches: tuple[Stretch, ...]
    is_final: bool
    key_check: str = ""
    """The check of the ledger's key in its record; empty in records of older programs."""

    @property
    def settled_to(self) -> EntryId:
        """The last entry that this is complete for."""
        return max((stretch.last for stretch in self.stretches), default=NO_ENTRY)

    def stretch_of(self, entry: EntryId) -> Stretch:
        """Return the stretch that an entry owed is in."""
        return next(each for each in self.stretches if entry <= each.last)

    def settles(self, first: EntryId, last: EntryId) -> bool:
        """Whether this is final for the entries from first to last. In an open ledger it is final
        only for fragments that have the bookie: it may still come into the others.
        """
        for stretch in self.stretches:
            if stretch.first <= first:
                first = max(first, stretch.last + 1)
        return self.is_final or first > last

    def within(self, first: EntryId, last: EntryId) -> Iterator[EntryId]:
        """Yield the entries owed at or between the two, ascending."""
        for stretch in self.stretches:
            yield from stretch.within(first, last)

    def missing(
        self, held: Iterable[tuple[EntryId, EntryId]], first: EntryId, last: EntryId
    ) -> Iterator[EntryId]:
        """Yield the entries owed at or between the two that are in no range; `held` as by
        `Bookie.list_entries`, between the two as well.
        """
        at = first
        for low, high in held:
            yield from self.within(at, low - 1)
            at = high + 1
        yield from self.within(at, last)


class Copies(Protocol):
    """See the module."""

    async def owed(self, ledger: LedgerId) -> Owed:
        """Return the entries that the bookie must hold, and those of the places that it is asked
        to take. Raises `NoSuchLedgerError` for a deleted
        ledger, and `QuireError` when that cannot be said.
        """
        ...

    async def fetch(
        self, ledger: LedgerId, entries: Sequence[EntryId], bytes_max: int
    ) -> tuple[bytes, Sequence[EntryId]]:
        """Return, as a run, the first of some ascending entries and perhaps more of them, as
        another bookie of their write set holds them, and which they are.

        Checked as far as that is possible without the ledger's password. Raises `UnreadableError`
        when no bookie gave a good copy, and `QuireError` when no bookie could be asked.
        """
        ...

    async def take_places(self, ledger: LedgerId) -> int:
        """Note in a ledger's record that the bookie has the places of its last `owed`. The caller
        holds all entries of these, durable; a place that another bookie took first stays there.
        A place that the last `owed` did not name is never taken.

        Returns how many places the record names the bookie for that it was asked to take: an
        earlier call may have taken them.

        Raises `NoSuchLedgerError` for a deleted ledger, and `QuireError` when the record could not
        be changed: the call may be repeated.
        """
        ...


@dataclass(frozen=True, slots=True)
class Order:
    """A closed ledger of which the bookie is asked to make copies, and the check of its key."""

    ledger: LedgerId
    key_check: str


class Orders(Protocol):
    """The copies that a bookie is asked to make."""

    async def open(self) -> Sequence[Order]:
        """Return what is to be done, in order. Raises `QuireError` when it cannot be read."""
        ...

    async def changed(self) -> None:
        """Return when there may be others than the last `open` returned. Raises `QuireError`."""
        ...


OpenCopies: TypeAlias = Callable[[], AbstractAsyncContextManager[Copies]]
"""Opens the way to the rest of the cluster, for as long as there is something to repair."""
