"""A second bookie process on the disk of one that runs: an operator's slip, or a supervisor's.

The directory lock refuses it before it reads anything, and the first goes on undisturbed (D4,
quire/storage/disk/port.py). Where the lock is missing, the second replays the disk, takes the
bookie's requests over for a while, and ends: the first does not know what it acknowledged.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Final

from quire.errors import DirectoryInUseError, QuireError
from quire.storage.journal.options import StorageOptions
from quire.storage.node import BookieNode
from quire.testing.sim.process import Incarnation

if TYPE_CHECKING:
    from tests.sim.disk import SimMount
    from tests.sim.machines import BookieMachine

SERVES_SECONDS: Final = 0.5
"""How long a second process serves that is not refused, in the mean."""


def start(
    machine: BookieMachine, cluster: str, options: StorageOptions, rng: random.Random
) -> None:
    """Start another process for the disk of a machine whose process has it open."""
    world = machine.world
    try:
        mount = machine.disk.mount()
    except DirectoryInUseError:
        world.network.counters["second process refused"] += 1
        return
    life = Incarnation(world.loop, machine.name, -1 - len(machine.others))
    machine.others.append(life)
    seconds = rng.expovariate(1 / SERVES_SECONDS)
    life.spawn(_serve(machine, life, mount, cluster, options, seconds), name="second process")


async def _serve(
    machine: BookieMachine,
    life: Incarnation,
    mount: SimMount,
    cluster: str,
    options: StorageOptions,
    seconds: float,
) -> None:
    """Open the disk and answer what is asked of the bookie, until the process ends at once."""
    host, rng = machine.host, machine.world.rng(f"node:{life}")
    try:
        node = await BookieNode.open(
            mount, machine.name, cluster, rng=rng, on_fatal=lambda _: None, options=options
        )
    except (QuireError, OSError):
        return
    if host.bookie is None:
        return
    first = host.life, host.bookie
    host.life, host.bookie = life, node
    await asyncio.sleep(seconds)
    if host.life is life:
        host.life, host.bookie = first
