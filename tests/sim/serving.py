"""What a simulated bookie's process does besides answering, from its opening to its end in order:
production's parts, put together as `serve` does it (quire/storage/server.py).
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from quire.aio.timing import time_limit
from quire.bookie import BookieAddress
from quire.entry import LedgerId
from quire.errors import OutcomeUnknownError, RetryError
from quire.repair.orders import stored_orders
from quire.storage.identity.directories import places
from quire.storage.identity.registration import Registration
from quire.storage.maintenance.deletions import MetadataBirths, MetadataDeletions
from quire.storage.maintenance.garbage import Collector
from quire.storage.maintenance.scrub import Scrubber
from quire.storage.maintenance.self_repair import Mender
from quire.storage.node import BookieNode
from quire.storage.serving import obedient
from quire.storage.serving.births import BornBookie, Bound
from quire.storage.serving.obedient import ObedientBookie
from quire.storage.serving.presence import Presence
from quire.testing.sim.process import Incarnation
from tests.sim import operator

if TYPE_CHECKING:
    from tests.sim.machines import BookieMachine

SESSION_SECONDS: Final = 2.0
STOP_CHANCE: Final = 0.25

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
        self._mender: Mender | None = None
        store = machine.world.store(life)
        if machine.was_repaired or machine.world.heals:
            orders = stored_orders(store, machine.name) if machine.world.heals else None
            self._mender = node.mender(lambda: operator.copies(machine, life), orders)
            self._workers.append(self._mender)
            flush, rng_of_stops = self._mender._flush, machine.world.rng(f"stops:{life}")
            self._mender._flush = partial(self._flush, flush, rng_of_stops)
        self._scrubber = node.scrubber(lambda: operator.copies(machine, life))
        births = Bound(MetadataBirths(store, cluster))
        self._born = BornBookie(node, machine.name, births, node.knows)
        self.bookie = ObedientBookie(self._born, machine.name, node.knows)
        self._presence = Presence(
            *(store, self.bookie, partial(places, node._disk)),
            clock=machine.world.clock,
            rng=machine.world.rng(f"heart:{life}"),
        )
        spare = operator.superfluous(machine, life, cluster) if machine.world.heals else None
        self._collector = node.collector(MetadataDeletions(store, cluster), spare)
        self._workers += [self._scrubber, self._collector]
        here = BookieAddress(machine.name, machine.name, labels=machine.world.place(machine))
        self._here = here
        self._registration = Registration(
            *(store, self.bookie, here, rng, SESSION_SECONDS),
            check_identity=lambda: self._born.check_store(node.highest()),
            place=self._presence.place,
        )

    @property
    def upkeep(self) -> Counter[str]:
        """What was done in the background."""
        disowner = self._collector.disowner
        return Counter(
            {
                "damage repaired": self._scrubber.counts.repaired,
                "ledger dropped": self._collector.counts.ledgers_dropped,
                "ledger owned again": 0
                if self._mender is None
                else self._mender.counts.ledgers_owned,
                "ledger disowned": 0 if disowner is None else disowner.counts.ledgers,
                "superfluous copy not proved": 0 if disowner is None else disowner.counts.unproved,
                "entry log compacted": self._node._engine.compactor.counts.files_removed,
            }
        )

    async def _flush(self, flush: Callable[[], Awaitable[bool]], rng: random.Random) -> bool:
        """Flush for the mender. Now and then the process ends in order meanwhile: faults at random
        moments seldom meet the milliseconds of a flush.
        """
        world = self._machine.world
        if not world.healing and rng.random() < STOP_CHANCE:
            world.note_fault("stop during a flush of the mender")
            world.network.later(rng.expovariate(1000.0), self._machine.stop)
        return await flush()

    def has_left(self, ledger: LedgerId) -> bool:
        """Whether it is off duty for so long that it takes no entries of a ledger."""
        since = self.bookie._off_since
        now = asyncio.get_running_loop().time()
        return since is not None and now > since + obedient.CHANGE_SECONDS * obedient.turn(ledger)

    async def begin(self) -> None:
        """Learn what the operator wishes, before anything is served."""
        while True:
            try:
                await self._presence.look()
                return
            except (RetryError, OutcomeUnknownError):
                await asyncio.sleep(operator.RETRY_SECONDS)

    async def keep(self) -> None:
        """Work, and be found by clients, until cancelled."""
        for worker in self._workers:
            worker.start()
        await self._presence.start(self._here)
        await self._registration.keep()

    async def end_in_order(self) -> None:
        """Finish what is under way, for a while, and close the storage."""
        machine, host = self._machine, self._machine.host
        with suppress(TimeoutError):
            async with time_limit(DRAIN_SECONDS):
                await host.reception(machine.world.network, machine.name).drain()
        host.bookie = None  # nobody reaches it any more
        await host.end_streams()
        await self._presence.close()
        await self._born.close()
        for worker in self._workers:
            await worker.close()
        with suppress(OSError):
            await self._node.close()
