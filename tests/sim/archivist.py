"""Somebody who moves closed segments of a log into files, while everybody else goes on.

Archivists begin, write, commit, release and sweep, not always all of it, beside each other, and die
anywhere in between. Files may be refused or spoilt by where they are to lie (tier.py).

Some name a place that does not exist. And a vandal writes names of foreign files into the record of
the log: as tiers, and as files to be deleted.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from quire.errors import (
    CorruptStorageError,
    IntegrityError,
    LogFullError,
    NoSuchLogError,
    QuireError,
)
from quire.log.directory import LogDirectory
from quire.log.manifest.manifest import LogManifest
from tests.sim.clients import ClientMachine
from tests.sim.file_watch import FileWatch
from tests.sim.followers import corruption
from tests.sim.tier import NOWHERE, SCHEME, SimTier, Threads
from tests.sim.world import SimWorld

TARGETS: Final = ("sim://cold", "sim://colder")
FOREIGN_TIER: Final = "sim://precious"
PRECIOUS: Final = ("precious/thesis.txt", "precious/00000001-7-0000abcd.parquet")
"""Files of others."""


class Archivist:
    """See the module. `wanted` runs have one."""

    def __init__(self, world: SimWorld, log: str) -> None:
        self._world = world
        self._log = log
        self._rng = rng = world.rng("archivist")
        self.wanted = rng.random() < 0.25
        self.count = rng.choice([1, 2]) if self.wanted else 0
        self._pace = rng.choice([5.0, 50.0])
        self.tier = SimTier(world.rng("tier"), world.note_fault)
        self.tier.files |= {path: bytearray(b"precious") for path in PRECIOUS}
        self._slips = world.rng("slips of archivists")
        self._files = FileWatch(log, self.tier, world.loop.fail, world.manifest_watch.pages)
        if self.wanted:
            world.loop.threads = Threads(world.loop, world.rng("threads"))
            world.tree.listeners.append(self._files.changed)

    async def run(self, client: ClientMachine, directory: LogDirectory) -> None:
        """Offload until the process ends."""
        while True:
            await asyncio.sleep(self._rng.expovariate(self._pace))
            try:
                await self._offload(client, directory)
            except CorruptStorageError as error:
                if error.path.removeprefix(SCHEME) not in self.tier.damaged:
                    raise corruption(client, error) from error
                self._world.note_fault("damaged file found")
            except IntegrityError as error:
                raise corruption(client, error) from error
            except QuireError as error:
                self._world.say(client.name, f"offloads again: {error!r}")

    async def _offload_all(self, directory: LogDirectory) -> None:
        offload = directory.offload(self._log)
        try:
            tier, segments = await offload.begin(TARGETS[0])
            for segment in segments:
                await offload.commit({segment.number: await offload.write(segment, tier)})
            await offload.release()
        except LogFullError as error:
            self._world.note_fault("offload refused: log full")
            self._world.say("world", f"offloads no more: {error}")
        self._world.note_fault("log offloaded")

    async def _offload(self, client: ClientMachine, directory: LogDirectory) -> None:
        rng, offload = self._rng, directory.offload(self._log)
        if rng.random() < 0.3:
            await self._sweep(client, directory)
            return
        if self._slips.random() < 0.1:
            await self._vandalize(directory)
        target = rng.choice(TARGETS)
        if self._slips.random() < 0.1:
            target = f"{SCHEME}{NOWHERE}"
            self._world.note_fault("place mistyped")
        tier, segments = await offload.begin(target)
        for segment in segments:
            files = {segment.number: await offload.write(segment, tier)}
            if rng.random() < 0.9:
                await offload.commit(files)
                self._world.note_fault("segment offloaded")
                self._world.say(client.name, f"has {files}")
        if rng.random() < 0.7:
            await offload.release()
            self._world.note_fault("offload released")
        if rng.random() < 0.5:
            await self._sweep(client, directory)

    async def _vandalize(self, directory: LogDirectory) -> None:
        """Write foreign names into the record, if that is of the version that has places."""

        def change(manifest: LogManifest | None) -> LogManifest:
            if manifest is None:
                raise NoSuchLogError(self._log)
            if not manifest.tiers or FOREIGN_TIER in manifest.tiers:
                return manifest
            self._world.note_fault("foreign names in a record")
            doomed = (*manifest.doomed_files, *(SCHEME + path for path in PRECIOUS))
            return replace(manifest, tiers=(*manifest.tiers, FOREIGN_TIER), doomed_files=doomed)

        await directory._record(self._log).edit(change)

    async def _sweep(self, client: ClientMachine, directory: LogDirectory) -> None:
        swept = await directory.offload(self._log).gc()
        self._world.say(client.name, f"swept {swept}")

    async def finish(self, client: ClientMachine, directory: LogDirectory) -> None:
        """When the faults are over: perhaps offload everything, then see what is left."""
        if self._rng.random() < 0.7:
            await client.insist(lambda: self._offload_all(directory))
        await client.insist(directory.gc_files)
        self._files.check_swept()
