"""The owner of a log, who sets options of it and takes them back while leaders write it, and may
trim it without leading it.

A leader hears of a change at any time, in the middle of a roll too. The ack quorum stays what it
is: how much a run may damage was decided by that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress

from quire.errors import InvalidRequestError, QuireError
from quire.ledger.quorum import Replication
from quire.log.directory import LogDirectory
from quire.log.manifest.manifest import LogManifest
from quire.log.records.position import LATEST, Position
from quire.metastore.layout import log_path
from tests.sim.clients import ClientMachine
from tests.sim.history import Violation
from tests.sim.world import SimWorld


class Owner:
    """See the module. `wanted` runs have one."""

    def __init__(
        self,
        world: SimWorld,
        log: str,
        replication: Replication,
        shapes: Iterable[Replication],
        *,
        may_trim: bool,
    ) -> None:
        self._world = world
        self._log = log
        self._rng = rng = world.rng("settings")
        self.wanted = rng.random() < 0.4
        self._trims = may_trim and rng.random() < 0.5
        self._gave_all_up = False
        world.tree.listeners.append(self._changed)
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
        """Change settings, and perhaps trim, for ever."""
        while True:
            await asyncio.sleep(self._rng.expovariate(4.0))
            if self._trims and self._rng.random() < 0.3:
                await self._trim(client, directory)
                continue
            names = dict.fromkeys(self._rng.choice(list(self._choices)) for _ in range(2))
            wanted = {name: self._rng.choice(self._choices[name]) for name in names}
            with suppress(QuireError):
                await directory.set_options(self._log, wanted)
                self._world.say(client.name, f"sets {wanted}")

    async def _trim(self, client: ClientMachine, directory: LogDirectory) -> None:
        """Give up what is before a record that somebody has read, or everything."""
        history = self._world.log
        seen = [record for reading in history.readings for record in reading.records]
        if not seen:
            return
        record, how = self._rng.choice(seen), self._rng.random()
        before: Position | int = LATEST
        if how < 0.1:
            self._gave_all_up = True
        else:
            history.give_up(record.position)
            before = record.position if how < 0.5 else record.offset
        try:
            await directory.trim(self._log, before)
            self._world.note_fault("owner trimmed")
            self._world.say(client.name, f"has trimmed to {before}")
        except InvalidRequestError as error:
            text = f"{client.name} is told: {error}"
            raise Violation("no call is found invalid", text) from error
        except QuireError as error:
            self._world.say(client.name, f"cannot trim: {error!r}")

    def _changed(self, path: str, value: bytes | None, version: int) -> None:
        """Listener of the tree: where everything was given up, nobody else knows what that was."""
        if self._gave_all_up and value and path == log_path(self._log):
            self._world.log.give_up(LogManifest.decode(path, value).trimmed_to)
