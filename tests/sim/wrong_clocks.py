"""Wall clocks that jump by years, each process's for itself, and a log with retention by time.

In a run either the clocks of processes jump or that of the metadata store, any number of times;
when the faults are over all are right. Processes run on one machine, or each on one of its own, or
each life of them on another one. The store may have no clock.

  C15  retention deletes no segment whose last record is not older than it says, in true time; once
       clocks are right it has deleted within one period all that was sealed before
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from quire.log.directory import LogDirectory
from quire.log.manifest.manifest import LogManifest
from quire.log.manifest.options import LogOptions
from quire.metastore.layout import log_path
from quire.steady import SteadyClock
from tests.sim.clients import ClientMachine
from tests.sim.history import LogAppend, Violation, require
from tests.sim.world import SimWorld

RULE: Final = "C15 retention deletes nothing early, and nothing late"
YEAR: Final = 365 * 86_400.0
INTERVAL_SECONDS: Final = 0.2
SLACK_SECONDS: Final = 3.0
"""How long a leader may take to look again, in peace."""


class WrongClocks:
    """See the module. `wanted` runs have them."""

    def __init__(self, world: SimWorld, log: str, *, may_trim: bool) -> None:
        self._world = world
        self._log = log
        self._rng = rng = world.rng("clocks")
        self.wanted = rng.random() < 0.3 and may_trim
        self.is_awaited = self.wanted and rng.random() < 0.4
        """Whether a leader waits in the end for retention to do its work."""
        self._seconds = rng.choice([0.3, 1.0, 3.0])
        self._machines = rng.choice(["one", "own", "life"])
        self._is_store_wrong = rng.random() < 0.3
        self._jumps_per_second = rng.choice([0.5, 3.0, 20.0])
        self._store_off = 0.0
        self._manifest: LogManifest | None = None
        self._written: dict[int, float] = {}
        """When the append of a segment's last confirmed record began."""
        if self.wanted:
            world.tree.listeners.append(self._changed)
            if self._is_store_wrong or rng.random() < 0.6:
                world.tree.clock = lambda: world.clock() + self._store_off

    def options(self, options: LogOptions) -> LogOptions:
        """Return the options of a leader."""
        if not self.wanted:
            return options
        interval = INTERVAL_SECONDS
        return replace(options, retention_seconds=self._seconds, retention_interval=interval)

    def steady(self, client: ClientMachine) -> SteadyClock:
        """Return the clock of a process that only goes forward."""
        names = {"one": "machine", "own": client.name, "life": f"{client.name}:{client.lives}"}
        zero = 0.0 if self._machines == "one" else self._world.rng(f"{client.name}:zero").random()
        return SteadyClock(
            names[self._machines], lambda: self._world.loop.time() + 10 * YEAR * zero
        )

    async def run(self) -> None:
        """Have clocks jump until the faults are over."""
        world, rng = self._world, self._rng
        while not world.healing:
            await asyncio.sleep(rng.expovariate(self._jumps_per_second))
            off = rng.choice([0.0, 0.0, YEAR, 10 * YEAR, -YEAR, -10 * YEAR])
            if self._is_store_wrong:
                self._store_off = off
                world.say("store", f"has a clock that is off by {off:g} s")
            elif world.clients and not world.healing:
                client = rng.choice(world.clients)
                client.off, client.jumps = off, client.jumps + 1
                world.say(client.name, f"has a clock that is off by {off:g} s")
            world.note_fault("clock jumped")

    def heal(self) -> None:
        """Have all clocks right."""
        self._store_off = 0.0
        for client in self._world.clients:
            client.off = 0.0

    def confirm(self, append: LogAppend, begun: float) -> None:
        """Note an append that was confirmed, and when it was called."""
        segment = append.positions[-1].segment
        self._written[segment] = max(begun, self._written.get(segment, 0.0))

    def _changed(self, path: str, value: bytes | None, version: int) -> None:
        """Listener of the tree: only retention trims here."""
        if path != log_path(self._log) or not value:
            return
        before, after = self._manifest, self._world.manifest_watch.current.get(self._log)
        self._manifest = after  # with its pages, which the watch has read before this is called
        if before is None or after is None or after.trimmed_to <= before.trimmed_to:
            return
        self._world.log.give_up(after.trimmed_to)
        self._world.note_fault("retention by time trimmed")
        for segment in before.segments:
            if segment.ends_by(after.trimmed_to):
                age = self._world.loop.time() - self._written.get(segment.number, -YEAR)
                if age <= self._seconds:
                    text = f"{segment} was trimmed after {age:g} s, {self._seconds:g} are asked for"
                    self._world.loop.fail(Violation(RULE, text))

    async def await_retention(
        self, client: ClientMachine, directory: LogDirectory, options: LogOptions
    ) -> None:
        """See what is sealed go within one period."""
        log = await client.insist(lambda: directory.open(self._log, options))
        number = (await directory.describe(self._log)).next_segment - 1
        await asyncio.sleep(self._seconds + INTERVAL_SECONDS + SLACK_SECONDS)
        left = await client.insist(lambda: directory.describe(self._log))
        await client.insist(log.close)
        old = [each for each in left.segments if each.number < number]
        require(not old, RULE, f"{old} are there after {self._seconds:g} s and more")
