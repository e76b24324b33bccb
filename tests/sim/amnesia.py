"""A bookie that forgets what it accepted: what deferred sync must be able to take.

A deferred add is answered before it is durable, which on a good disk takes a millisecond: chance
seldom strikes just then. So one bookie's disk hangs while the last entries are sent. When all of
them were answered the bookie loses power, and is back before anybody forces them, without them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from tests.sim.machines import BookieMachine
from tests.sim.world import SimWorld

FAULT: Final = "amnesia"
PATIENCE_SECONDS: Final = 0.5
"""A disk does not hang for longer: its writer would replace the bookie."""


class Amnesia:
    """See the module. `wanted` is drawn per run; only runs with faults have it."""

    def __init__(self, world: SimWorld, rng: random.Random, *, wanted: bool) -> None:
        self._world = world
        self._rng = rng
        self._wanted = wanted
        self._victim: BookieMachine | None = None

    def prepare(self, ensemble: Sequence[str]) -> None:
        """The last entries are about to be sent to an ensemble."""
        if not self._wanted or self._world.healing:
            return
        self._wanted = False
        running = [each for each in self._world.bookies if each.is_running]
        written = [each for each in running if each.name in ensemble]
        if written:
            self._victim = self._rng.choice(written)
            self._victim.disk.faults.is_hung = True
            self._world.network.later(PATIENCE_SECONDS, self._give_up, self._victim)

    def strike(self) -> None:
        """Everything that was sent has been answered."""
        victim, self._victim = self._victim, None
        if victim is None or self._world.healing or not victim.is_running:
            return
        self._world.say("world", f"{FAULT}: {victim.life}")
        self._world.note_fault(FAULT)
        victim.power_cut()
        self._world.network.later(self._rng.expovariate(200.0), victim.boot)

    def _give_up(self, victim: BookieMachine) -> None:
        if self._victim is victim:
            self._victim = None
            victim.disk.release()
