"""Safeguards of bookies that give copies up, and what replaces them."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

from quire.entry import BookieId, LedgerId
from quire.errors import NoSuchLedgerError
from quire.ledger.inventory import Inventory, compare, named_by
from quire.ledger.metadata import LedgerMetadata
from quire.repair import superfluous
from quire.repair.superfluous import SuperfluousCopies
from quire.storage.entries.ledger_storage import LedgerStorage
from quire.storage.maintenance.disowning import Suspects
from quire.storage.maintenance.self_repair import Mender
from tests.sim.ablations.patch import Patch


def believe_the_record_alone() -> list[Patch]:
    """The record does not name the bookie: that is proof enough."""

    def whole(inventory: Inventory) -> bool:
        return True

    return [(superfluous, "is_whole", whole)]


def ask_the_bookies_that_answer() -> list[Patch]:
    """A bookie that does not answer is taken for one that has everything."""

    def whole(inventory: Inventory) -> bool:
        return not any(each.missing for each in inventory.holdings)

    return [(superfluous, "is_whole", whole)]


def give_up_what_is_open() -> list[Patch]:
    def unnamed(metadata: LedgerMetadata, bookie: BookieId) -> bool:
        return bookie not in named_by(metadata)

    return [(superfluous, "is_unnamed", unnamed)]


def let_a_proof_outrun_an_order() -> list[Patch]:
    """BookKeeper's #4668: what is being copied to this bookie is dropped."""

    def may_go(self: LedgerStorage, ledger: LedgerId, doubted: Container[LedgerId]) -> bool:
        return ledger in self.states

    return [(LedgerStorage, "_may_go", may_go)]


def keep_no_id_of_what_is_given_up() -> list[Patch]:
    async def disown(
        self: LedgerStorage, ledgers: Sequence[LedgerId], doubted: Container[LedgerId]
    ) -> list[LedgerId]:
        gone = [each for each in ledgers if self._may_go(each, doubted)]
        for ledger in gone:
            self._drop(ledger)
        return gone

    return [(LedgerStorage, "disown", disown)]


def take_the_place_of_a_disowned_ledger() -> list[Patch]:
    async def own(self: Mender, ledger: LedgerId) -> bool:
        return True

    return [(Mender, "_own", own)]


def own_a_ledger_in_memory_only() -> list[Patch]:
    async def own(self: LedgerStorage, ledger: LedgerId) -> None:
        self._retired = self._retired._replace(ids=self.retired.owning(ledger))

    return [(LedgerStorage, "own", own)]


def prove_without_a_write() -> list[Patch]:
    """The lists are proof enough: a change that was decided before may still come."""

    async def proved(self: SuperfluousCopies, bookies: Any, ledger: LedgerId) -> bool:
        try:
            metadata = (await self._records.read(ledger)).metadata
        except NoSuchLedgerError:
            return False
        if not superfluous.is_unnamed(metadata, self._bookie):
            return False
        return superfluous.is_whole(compare(metadata, await self._lists(bookies, metadata)))

    return [(SuperfluousCopies, "_is_proved", proved)]


def give_up_at_first_sight() -> list[Patch]:
    def due(self: Suspects, now: float) -> list[LedgerId]:
        return sorted(self._since)

    return [(Suspects, "due", due)]


def believe_that_no_place_is_asked() -> list[Patch]:
    """The bookie's own open requests are not looked at."""

    async def asked(self: SuperfluousCopies) -> set[LedgerId]:
        return set()

    return [(SuperfluousCopies, "_asked", asked)]
