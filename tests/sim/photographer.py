"""Processes that write snapshots of a service late: leaders that do not know of their end yet.

A photographer takes a replica's state at some moment, as a leader does, and writes it whenever its
process gets that far. Meanwhile other photographers and the leader write newer ones. It does not
matter who writes (quire/service/snapshots.py): the state is that of some prefix of the log.
Photographers that are killed leave ledgers behind, and they sweep at times.

  R5  the newest snapshot of a log goes forward: a slow one replaces none that overtook it
  R6  the newest snapshot is there: its ledger is closed when a record names it, and is not deleted
      while the record does
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from typing import Final

from quire.entry import LedgerId
from quire.errors import QuireError
from quire.ledger.metadata import LedgerMetadata
from quire.log.directory import LogDirectory
from quire.log.manifest.options import LogOptions
from quire.log.records.position import Position
from quire.metastore.layout import LEDGERS, service_path
from quire.service.snapshots import Snapshot, Snapshots, gc_snapshots
from tests.sim.clients import ClientMachine
from tests.sim.history import Violation
from tests.sim.world import SimWorld

SWEEPS: Final = 0.2
"""How often a photographer sweeps instead."""

DELAY_SECONDS: Final = (0.0, 0.02, 0.3)
"""Mean times between a look at a state and the first step of its snapshot."""

State = tuple[str, Position, int, bytes]
"""Id of the log, position and offset of the next record, state."""


class Photographers:
    """See the module. `look` returns the state of a replica, None when there is none now."""

    def __init__(
        self, world: SimWorld, service: str, options: LogOptions, look: Callable[[], State | None]
    ) -> None:
        self._world = world
        self._service = service
        self._options = options
        self._look = look
        self.count = world.rng("photographers").choice([0, 0, 2])

    async def run(self, client: ClientMachine, _: LogDirectory) -> None:
        """Take pictures until the process is ended."""
        assert client.store is not None
        rng = self._world.rng(f"{client.name}:{client.lives}:photographer")
        snapshots = Snapshots(client.store, client.catalog, self._service, self._options)
        while True:
            await asyncio.sleep(rng.expovariate(8.0))
            try:
                if rng.random() < SWEEPS:
                    swept = await gc_snapshots(client.store, client.catalog)
                    self._world.network.counters["snapshot swept"] += len(swept)
                elif state := self._look():
                    await self._write(snapshots, state, rng)
            except QuireError as error:
                client.trouble = error

    async def _write(self, snapshots: Snapshots, state: State, rng: random.Random) -> None:
        delay = rng.choice(DELAY_SECONDS)
        if delay:
            await asyncio.sleep(rng.expovariate(1 / delay))
        is_newest = await snapshots.write(*state, self._options.replication)
        self._world.network.counters["late snapshot" if is_newest else "snapshot overtaken"] += 1


class SnapshotWatch:
    """R5 and R6, at every change of a service's record and of its ledgers."""

    def __init__(
        self,
        service: str,
        ledgers: Mapping[LedgerId, LedgerMetadata],
        report: Callable[[Violation], None],
    ) -> None:
        self._path = service_path(service)
        self._ledgers = ledgers
        self._report = report
        self._newest: Snapshot | None = None

    def changed(self, path: str, value: bytes | None, version: int) -> None:
        """Listener of the tree."""
        if path.startswith(LEDGERS) and self._newest is not None:
            self._check_there(self._newest)
        if path != self._path or not value:
            return
        before, after = self._newest, Snapshot.decode(path, value)
        self._newest = after
        self._check_there(after)
        is_same_log = before is not None and before.log_id == after.log_id
        if before is not None and is_same_log and after.offset <= before.offset:
            text = f"{before} was replaced by {after}"
            self._report(Violation("R5 the newest snapshot goes forward", text))

    def _check_there(self, snapshot: Snapshot) -> None:
        found = self._ledgers.get(snapshot.ledger)
        if found is None or not found.is_closed:
            text = f"{snapshot} is named by the record, and its ledger is {found}"
            self._report(Violation("R6 the newest snapshot is there", text))
