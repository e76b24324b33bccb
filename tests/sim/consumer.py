"""A consumer with a cursor, and leaders whose retention has to wait for it.

The consumer follows the log from its cursor, moves the cursor behind what it has read, and begins
again from there when something fails or its pass is over. Retention is on for leaders that take
over once the cursor is there: one that looked before would be right to find nobody.

  C7  nothing is trimmed that is not behind every cursor; a cursor never goes back
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

from quire.errors import PositionTrimmedError, QuireError
from quire.log.directory import LogDirectory
from quire.log.maintenance.cursor_record import CursorRecord
from quire.log.manifest.manifest import LogManifest
from quire.log.manifest.options import LogOptions
from quire.log.records.position import Position
from quire.metastore.layout import LOGS, cursor_path
from tests.sim.clients import ClientMachine
from tests.sim.history import Violation, seen_of
from tests.sim.world import SimWorld

NAME = "consumer"
RULE = "C7 retention waits for cursors"
PASS_RECORDS_MAX = 12


class Consumer:
    """See the module. `wanted` runs have one."""

    def __init__(self, world: SimWorld, log: str, rng: random.Random, *, wanted: bool) -> None:
        self._world = world
        self._log = log
        self._rng = rng
        self.wanted = wanted
        self._behind: Position | None = None
        """Where the cursor was last seen in the store."""
        if wanted:
            world.tree.listeners.append(self._changed)

    def options(self, options: LogOptions) -> LogOptions:
        """Return the options for a leader that takes over now."""
        if self._behind is None:
            return options
        return replace(
            options,
            retention_bytes=self._rng.choice([0, 300]),
            retention_cursors=True,
            retention_interval=0.2,
        )

    def _changed(self, path: str, value: bytes | None, version: int) -> None:
        """Listener of the tree."""
        if not value:
            return
        if path == cursor_path(self._log, NAME):
            position = CursorRecord.decode(path, value).position
            if self._behind is not None and position < self._behind:
                text = f"the cursor went from {self._behind} to {position}"
                self._world.loop.fail(Violation(RULE, text))
            self._behind = position
        elif path.startswith(LOGS + "/"):
            self._check_trim(LogManifest.decode(path, value).trimmed_to)

    def _check_trim(self, point: Position) -> None:
        history = self._world.log
        if history.trimmed_to is None or point > history.trimmed_to:
            history.give_up(point)
            self._world.note_fault("retention trimmed")
            if self._behind is not None and point > self._behind:
                text = f"trimmed to {point}, the cursor is at {self._behind}"
                self._world.loop.fail(Violation(RULE, text))

    async def run(self, client: ClientMachine, directory: LogDirectory) -> None:
        """Consume for ever."""
        cursors = directory.cursors(self._log)
        cursor = await client.insist(lambda: cursors.open(NAME))
        while True:
            try:
                start = await cursor.refresh()
                await cursor.advance(await self._read(client, directory, start))
            except PositionTrimmedError as error:
                self._world.loop.fail(Violation(RULE, f"the consumer lost its place: {error}"))
            except QuireError as error:
                client.trouble = error
                await asyncio.sleep(0.05)

    async def _read(
        self, client: ClientMachine, directory: LogDirectory, start: Position
    ) -> Position:
        """Read a few records; return the position behind them."""
        reading = self._world.log.read(client.name, start)
        reader = await directory.read(self._log, start, follow=True)
        async with reader:
            async for record in reader:
                reading.take(seen_of(record))
                if len(reading.records) >= PASS_RECORDS_MAX or self._rng.random() < 0.3:
                    return record.position.after
        return start
