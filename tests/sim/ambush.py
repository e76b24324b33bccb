"""Striking when it hurts: when a record changes hands, or an entry was just acknowledged.

Faults that come at random seldom meet the few milliseconds in which an ensemble changes or two
recoveries race. An ambush waits for such a moment and then does one thing, or a few together: takes
a bookie of the ensemble away, clogs lines between clients, store and ensemble, kills or pauses a
client, or sends a rival. What it does is drawn from the run's seed like everything else.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final

from tests.sim.clients import ClientMachine
from tests.sim.faults import TO_CLIENTS
from tests.sim.machines import BookieMachine
from tests.sim.store import STORE
from tests.sim.world import SimWorld

AMBUSHES_MAX: Final = 6


class Ambush:
    """See the module. `rival` starts somebody who contends, `ensemble` names who is written to."""

    def __init__(
        self,
        world: SimWorld,
        rng: random.Random,
        chance: float,
        *,
        rival: Callable[[str], ClientMachine | None],
        ensemble: Callable[[], Sequence[str]],
    ) -> None:
        self._world = world
        self._rng = rng
        self._chance = chance
        self._rival = rival
        self._ensemble = ensemble
        self._count = 0

    def moment(self, weight: float = 1.0) -> None:
        """Something happened that is worth a strike; strike soon, or not."""
        if self._world.healing or self._count >= AMBUSHES_MAX:
            return
        if self._rng.random() < self._chance * weight:
            self._count += 1
            self._world.network.later(self._rng.expovariate(500.0), self._strike)

    def _strike(self) -> None:
        if self._world.healing:
            return
        blows = self._world.mix.blows
        kinds = sorted(blows)
        count = self._rng.choice([1, 1, 2, 3])
        for what in self._rng.choices(kinds, [blows[kind] for kind in kinds], k=count):
            self._world.note_fault(f"ambush: {what}")
            self._do(what)

    def _do(self, what: str) -> None:
        world, rng = self._world, self._rng
        clients = [each for each in world.clients if each.is_running]
        bookies = self._bookies()
        mend: Callable[[], None] | None = None
        if what == "rival":
            self._rival(f"rival{self._count}")
        elif what == "clog":
            names = [client.name for client in clients]
            world.swizzle(names, [*self._ensemble(), STORE], rng)
        elif what in TO_CLIENTS:
            mend = world.to_client(what, rng.choice(clients[:2])) if clients else None
        elif bookies:
            mend = world.to_bookie(what, rng.choice(bookies), rng)
        if mend is not None:
            world.network.later(rng.expovariate(rng.choice([2.0, 20.0])), mend)

    def _bookies(self) -> list[BookieMachine]:
        """Running bookies, those that are written to if there are any."""
        running = [each for each in self._world.bookies if each.is_running]
        written = [each for each in running if each.name in self._ensemble()]
        return written or running
