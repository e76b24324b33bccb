"""What a simulated bookie's process does besides answering, from its opening to its end in order:
production's parts, put together as `serve` does it (quire/storage/server.py).
"""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from quire.aio.timing import time_limit
from quire.bookie import BookieAddress
from quire.storage.identity.registration import Registration
from quire.storage.maintenance.deletions import MetadataBirths, MetadataDeletions
from quire.storage.maintenance.garbage import Collector
from quire.storage.maintenance.scrub import Scrubber
from quire.storage.maintenance.self_repair import Mender
from quire.storage.node import BookieNode
from quire.storage.serving.births import BornBookie
from tests.sim import operator
from tests.sim.process import Incarnation

if TYPE_CHECKING:
    from tests.sim.machines import BookieMachine

SESSION_SECONDS: Final = 2.0
DRAIN_SECONDS: Final = 0.5
"""How long a bookie that ends in order waits for what is under way."""


class Serving:
    """One life of a bookie that serves."""

    def __init__(
        self,
        machine: BookieMachine,
        life: Incarnation,
        node: BookieNode,
        cluster: str,
        rng: random.Random,
    ) -> None:
        self._machine = machine
        self._node = node
        self._workers: list[Collector | Scrubber | Mender] = []
        if machine.was_repaired:
            self._workers.append(node.mender(lambda: operator.copies(machine, life)))
        self._scrubber = node.scrubber(lambda: operator.copies(machine, life))
        store = machine.world.store(life)
        births = MetadataBirths(store, cluster)
        self.bookie = BornBookie(node, machine.name, births, node.knows)
        self._collector = node.collector(MetadataDeletions(store, cluster))
        self._workers += [self._scrubber, self._collector]
        here = BookieAddress(machine.name, machine.name)
        self._registration = Registration(
            *(store, node, here, rng, SESSION_SECONDS),
            check_identity=lambda: self.bookie.check_store(node.highest()),
        )

    @property
    def upkeep(self) -> Counter[str]:
        """What was done in the background."""
        return Counter(
            {
                "damage repaired": self._scrubber.counts.repaired,
                "ledger dropped": self._collector.counts.ledgers_dropped,
                "entry log compacted": self._node._engine.compactor.counts.files_removed,
            }
        )

    async def keep(self) -> None:
        """Work, and be found by clients, until cancelled."""
        for worker in self._workers:
            worker.start()
        await self._registration.keep()

    async def end_in_order(self) -> None:
        """Finish what is under way, for a while, and close the storage."""
        machine, host = self._machine, self._machine.host
        with suppress(TimeoutError):
            async with time_limit(DRAIN_SECONDS):
                await host.reception(machine.world.network, machine.name).drain()
        host.bookie = None  # nobody reaches it any more
        await host.end_streams()
        await self.bookie.close()
        for worker in self._workers:
            await worker.close()
        with suppress(OSError):
            await self._node.close()
