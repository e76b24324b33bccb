"""The owner of a log, who sets options of it and takes them back while leaders write it.

A leader hears of a change at any time, in the middle of a roll too. The ack quorum stays what it
is: how much a run may damage was decided by that.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from contextlib import suppress

from quire.errors import QuireError
from quire.ledger.quorum import Replication
from quire.log.directory import LogDirectory
from tests.sim.clients import ClientMachine
from tests.sim.world import SimWorld


class Owner:
    """See the module. `wanted` runs have one."""

    def __init__(
        self,
        world: SimWorld,
        log: str,
        rng: random.Random,
        replication: Replication,
        shapes: Iterable[Replication],
    ) -> None:
        self._world = world
        self._log = log
        self._rng = rng
        self.wanted = rng.random() < 0.3
        acks, size = replication.ack_quorum, len(world.bookies)
        fitting = [each for each in shapes if each.ack_quorum == acks and each.ensemble <= size]
        self._choices = {
            "replication": [*map(str, fitting), ""],
            "roll_entries": ["2", "30", ""],
            "roll_seconds": ["0.2", "50", ""],
            "batch_records": ["2", "100", ""],
            "compression": ["zstd", "none", ""],
        }

    async def run(self, client: ClientMachine, directory: LogDirectory) -> None:
        """Change settings for ever."""
        while True:
            await asyncio.sleep(self._rng.expovariate(4.0))
            names = dict.fromkeys(self._rng.choice(list(self._choices)) for _ in range(2))
            wanted = {name: self._rng.choice(self._choices[name]) for name in names}
            with suppress(QuireError):
                await directory.set_settings(self._log, wanted)
                self._world.say(client.name, f"sets {wanted}")
