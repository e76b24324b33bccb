"""Zones of the workload `healing`, and the end of moves for the sake of spread."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from quire.entry import BookieId
from quire.labels import Labels
from quire.ledger.metadata import LedgerMetadata
from quire.ledger.spreading import measure
from quire.metastore.layout import bookie_path
from quire.metastore.registration import decode_registration
from tests.sim.auditors import audit_alone
from tests.sim.clients import ClientMachine
from tests.sim.history import require
from tests.sim.machines import BookieMachine

if TYPE_CHECKING:
    from tests.sim.healing_workload import HealingWorkload


class Spreading:
    """See the module. Its chance is drawn apart."""

    def __init__(self, workload: HealingWorkload) -> None:
        self._workload = workload
        self._world = world = workload.world
        rng = world.rng("spreading")
        if rng.random() < 0.5:
            world.zones = rng.choice([2, 3])
            world.relabels = rng.random() < 0.3
        self.loses_a_zone = bool(world.zones) and rng.random() < 0.7
        self._rng = rng

    def some_zone(self) -> list[BookieMachine]:
        """Return the bookies of one zone."""
        zone = self._world.place(self._rng.choice(self._world.bookies))
        self._world.note_fault("zone silent")
        return [x for x in self._world.bookies if self._world.place(x).zone == zone.zone]

    async def end(self, client: ClientMachine) -> None:
        """Let one auditor alone move what is left to move, and look at the ledgers then."""
        if not self._world.zones:
            return
        self._workload.races = 0.0  # nothing else asks for places
        await audit_alone(self._world, client, lambda audit: not audit.spread.ledgers)
        for metadata in self._closed():
            narrow = list(self._wider(metadata))
            text = f"{metadata} is wider by each of {narrow}"
            require(not narrow, "H10 healing leaves no ledger that a move widens", text)

    def _closed(self) -> list[LedgerMetadata]:
        current = self._world.metadata_watch.current
        return [x for _, x in sorted(current.items()) if x.is_closed and x.last_entry != -1]

    def _where(self) -> dict[BookieId, Labels]:
        """Where the bookies are that take entries."""
        found, tree = {}, self._world.tree
        for each in self._world.bookies:
            path = bookie_path(each.name)
            if tree.version(path) is not None:
                address = decode_registration(each.name, tree.get(path).value)
                if address.writable:
                    found[each.name] = address.labels
        return found

    def _wider(self, metadata: LedgerMetadata) -> Iterator[tuple[int, int, BookieId]]:
        """Yield every move of one place that would raise a measure."""
        where = self._where()
        for fragment in metadata.fragments:
            if not all(each in where for each in fragment.bookies):
                continue
            places = [where[each] for each in fragment.bookies]
            shape = metadata.replication, metadata.placement
            now = measure(*shape, places)
            for new in sorted(where.keys() - set(fragment.bookies)):
                for position in range(len(places)):
                    after = [*places[:position], where[new], *places[position + 1 :]]
                    if measure(*shape, after) > now:
                        yield fragment.first, position, new
