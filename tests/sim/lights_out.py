"""A power cut of all bookies at once, between the last request of a run and the last look.

Nothing that was promised may hang on a memory or a page cache. A bookie that forgot something on
its disk only is otherwise never asked for it again: its process lives on, or the others answer.
"""

from __future__ import annotations

from typing import Final

from tests.sim.world import SimWorld

SHARE: Final = 0.3
"""How many runs end like this."""


async def lights_out(world: SimWorld) -> None:
    """Cut the power in some of the runs, and return when all bookies serve again."""
    if world.rng("lights out").random() >= SHARE:
        return
    world.note_fault("lights out")
    for machine in list(world.bookies):
        machine.power_cut()
        machine.boot()
    while not all(machine.ready.is_set() for machine in world.bookies):
        await world.serving()
