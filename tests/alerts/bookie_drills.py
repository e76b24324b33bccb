"""Drills on bookies in virtual time: production's storage on a simulated disk, measured and shown
as by `quire bookie serve --metrics`.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from unittest.mock import patch

from prometheus_client.core import Metric

from quire.storage.identity.cookie import format_bookie
from quire.storage.journal.options import StorageOptions
from quire.storage.node import BookieNode
from quire.storage.offline.salvage import Doubt
from quire.storage.serving import metrics as shown
from quire.storage.serving.metered import Meter, MeteredBookie, MeteredDisk
from quire.storage.serving.metrics import BookieCollector
from quire.storage.serving.vitals import Stage, Vitals
from quire.testing.sim.loop import SimLoop
from quire.wire.issuing import DAY
from tests.alerts.drill import drill
from tests.alerts.monitor import Monitor
from tests.sim.disk import SimDisk
from tests.storage.maintenance.fakes import FakeCopies, all_to
from tests.storage.salvage_scene import entry_logs, loaded, remove, salvaged
from tests.storage.scene import CLUSTER, KEY, SMALL, Scene, run_of
from tests.wire.certificates import Directory, contexts

MiB: Final = 1024 * 1024
JOB: Final = "quire-bookie"


@dataclass
class Rig:
    """A bookie with its disk, and the collector of its figures."""

    name: str
    disk: SimDisk
    node: BookieNode
    bookie: MeteredBookie
    vitals: Vitals
    collector: BookieCollector
    written: int = 0

    async def look(self) -> Iterable[Metric]:
        """Return what `/metrics` shows."""
        return await self.collector._look()

    async def write(self, size: int) -> None:
        """Add an entry of so many bytes to a ledger."""
        run = run_of(7, self.written, payload=random.Random(self.written).randbytes(size))
        self.written += 1
        await self.bookie.add(7, KEY, run)


def rig_of(name: str, disk: SimDisk, node: BookieNode, meter: Meter) -> Rig:
    """Return a bookie that is measured and shown."""
    vitals = Vitals()
    bookie = MeteredBookie(node, meter)
    vitals.bookie, vitals.is_registered = bookie, lambda: True

    async def places() -> Sequence[tuple[str, str, int, int]]:
        return [("/data", "main+journal+entries", disk.free_bytes, disk.capacity_bytes)]

    vitals.look_at_places = places
    vitals.reach(Stage.SERVING)
    collector = BookieCollector(vitals, meter, asyncio.get_running_loop())
    return Rig(name, disk, node, bookie, vitals, collector)


@asynccontextmanager
async def bookie(
    monitor: Monitor, name: str = "b1", capacity: int = 64 * MiB, options: StorageOptions = SMALL
) -> AsyncIterator[Rig]:
    """A bookie that serves and is scraped."""
    loop, rng, meter = asyncio.get_running_loop(), random.Random(name), Meter()
    disk = SimDisk(rng, capacity_bytes=capacity)
    with patch("quire.storage.serving.metered.perf_counter", loop.time):
        mount = disk.mount()
        await format_bookie(mount, name, CLUSTER)
        made = await BookieNode.open(
            *(MeteredDisk(mount, meter), name, CLUSTER),
            rng=rng,
            on_fatal=lambda error: None,
            options=options,
        )
        measuring = asyncio.ensure_future(shown._measure_lag(meter))
        rig = rig_of(name, disk, made, meter)
        monitor.add(JOB, name, rig.look)
        try:
            yield rig
        finally:
            measuring.cancel()
            await asyncio.gather(measuring, return_exceptions=True)
            await made.close()


@drill("QuireDirectoryLow")
async def full_directory(monitor: Monitor) -> None:
    """Entries leave a bookie less than 15 % of its disk."""
    async with bookie(monitor, capacity=8 * MiB) as it:
        await monitor.calm()
        while it.disk.free_bytes > 0.14 * it.disk.capacity_bytes:
            await it.write(8000)
        await monitor.until_all_fired()


@drill("QuireDirectoryFills")
async def filling_directory(monitor: Monitor) -> None:
    """Entries arrive at a rate that fills the disk within four hours."""
    async with bookie(monitor, capacity=8 * MiB) as it:
        while it.disk.free_bytes > 0.6 * it.disk.capacity_bytes:
            await it.write(8000)
        await monitor.calm()
        await monitor.until_all_fired(lambda: it.write(4000))


@drill("QuireJournalSlow", "QuireJournalVerySlow")
async def slow_journal(monitor: Monitor) -> None:
    """The disk takes a second for each write of the journal."""
    async with bookie(monitor) as it:
        await it.write(100)
        await monitor.calm()
        it.disk.faults.latency_seconds = 1.0
        await monitor.until_all_fired(lambda: it.write(100))


@drill("QuireLoopLag")
async def slow_loop(monitor: Monitor) -> None:
    """Something keeps the event loop of a bookie for a second, again and again."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimLoop)

    async def keep() -> None:
        loop._now += 1.0  # what a callback does that takes a second
        await asyncio.sleep(0)

    async with bookie(monitor):
        await monitor.calm()
        await monitor.until_all_fired(keep)


@drill("QuireFewWritableBookies")
async def few_writable(monitor: Monitor) -> None:
    """One of four bookies has a full disk, and takes no new entries."""
    async with (
        bookie(monitor, "b1") as full,
        bookie(monitor, "b2"),
        bookie(monitor, "b3"),
        bookie(monitor, "b4"),
    ):
        await monitor.calm()
        full.disk.taken_bytes = full.disk.free_bytes - 1000
        await monitor.until_all_fired()


@drill("QuireVersionsDiffer")
async def two_versions(monitor: Monitor) -> None:
    """An upgrade has stopped half-way: bookies of two versions serve for hours."""
    async with bookie(monitor, "b1"), bookie(monitor, "b2") as newer:
        await monitor.calm()

        async def look() -> Iterable[Metric]:
            with patch.object(shown, "__version__", "99.0"):
                return await type(newer).look(newer)

        newer.look = look  # type: ignore[method-assign]
        monitor.add(JOB, "b3", look)
        await monitor.until_all_fired()


@drill("QuireCertificateEnds", "QuireCertificateEndsSoon")
async def ending_certificate(monitor: Monitor) -> None:
    """The file of a bookie's certificate is replaced by one that ends within a week."""
    with tempfile.TemporaryDirectory(prefix="quire-drill-") as made:
        files = Directory(Path(made))
        tls = contexts(files.bookie("b1", 90 * DAY))
        async with bookie(monitor) as it:
            it.vitals.certificate_end = lambda: tls.certificates.credentials.validity.end
            await monitor.calm()
            files.bookie("b1", 5 * DAY)
            await monitor.until_all_fired()


@drill("QuireLimboStays")
async def long_limbo(monitor: Monitor) -> None:
    """A bookie lost an entry log, was repaired, and no other bookie has the entries."""
    scene = await loaded()
    remove(scene, entry_logs(scene)[-1])
    await salvaged(scene, Doubt(33))
    node = await scene.start()
    copies = FakeCopies({7: all_to(29)}, gone=set(range(30)))
    mender = node.mender(copies.open)
    mender.start()
    monitor.add(JOB, "b1", rig_of("b1", scene.disk, node, Meter()).look)
    try:
        await monitor.until_all_fired()
    finally:
        await mender.close()
        await scene.close()


@drill("QuireDamage")
async def rotten_disk(monitor: Monitor) -> None:
    """A disk returns other bytes of an entry log than were written, and scrubbing reads them."""
    scene = Scene()
    await scene.start()
    await scene.node.add(7, KEY, run_of(7, 0, payload=bytes(3000)))
    await scene.close()
    node = await scene.start()
    scrubber = node.scrubber()
    monitor.add(JOB, "b1", rig_of("b1", scene.disk, node, Meter()).look)
    await scrubber.round()
    await monitor.calm()
    scene.disk.rot(entry_logs(scene)[0], 54 + 100)
    await scrubber.round()
    try:
        await monitor.until_all_fired()
    finally:
        await scrubber.close()
        await scene.close()


BOOKIE_DRILLS: Final = (
    *(full_directory, filling_directory, slow_journal, slow_loop, few_writable, two_versions),
    *(ending_certificate, long_limbo, rotten_disk),
)
