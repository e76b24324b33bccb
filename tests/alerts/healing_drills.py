"""Drills on the auditor in virtual time: production's audit over bookies in memory. The figures are
read from the metadata store, as every bookie does for its `/metrics`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from prometheus_client.core import Metric

from quire.healing.figures import read_figures
from quire.healing.switch import Pause, change_switch
from quire.labels import Labels
from quire.ledger.domains import Placement
from quire.metrics.families import values
from tests.alerts.drill import drill
from tests.alerts.monitor import Monitor
from tests.healing.auditing import Scene
from tests.support.memory_cluster import MemoryCluster

JOB: Final = "quire-bookie"
LEDGERS: Final = 20
FOREVER: Final = 1e9


@asynccontextmanager
async def audited(
    monitor: Monitor,
    labels: Sequence[Labels],
    *,
    copies: bool = True,
    placement: Placement | None = None,
) -> AsyncIterator[tuple[Scene, asyncio.Task[float]]]:
    """A cluster with closed ledgers that is audited; `copies`: bookies do what they are asked."""
    async with MemoryCluster(0) as cluster:
        for number, where in enumerate(labels):
            await cluster.register(f"b{number}", labels=where)
        await asyncio.sleep(1.0)
        made = Scene(cluster)
        for _ in range(LEDGERS):
            async with await cluster.catalog.create(placement=placement) as writer:
                await writer.append(b"entry")
        audit = made.audit()
        await audit.build()
        auditing = asyncio.ensure_future(made.work(audit, FOREVER, copies=copies))

        async def look() -> Iterable[Metric]:
            figures = await read_figures(cluster.store, asyncio.get_running_loop().time)
            return [values(name, found) for name, found in figures.items()]

        for number in range(len(labels)):
            monitor.add(JOB, f"b{number}", look)
        try:
            yield made, auditing
        finally:
            auditing.cancel()
            await asyncio.gather(auditing, return_exceptions=True)


def hosts(count: int) -> Sequence[Labels]:
    """Return places on different hosts."""
    return [Labels(host=f"h{number}") for number in range(count)]


@drill("QuireCopiesGone", "QuireMassLoss")
async def three_of_five_lost(monitor: Monitor) -> None:
    """Three of five bookies vanish at once: some ledgers have all their copies there."""
    async with audited(monitor, hosts(5)) as (made, _):
        await monitor.calm()
        await made.lose("b0", "b1", "b2")
        await monitor.until_all_fired()


@drill("QuireOneCopyLeft")
async def two_of_four_lost(monitor: Monitor) -> None:
    """Two of four bookies vanish: nothing moves, and some ledgers have one copy left."""
    async with audited(monitor, hosts(4)) as (made, _):
        await monitor.calm()
        await made.lose("b0", "b1")
        await monitor.until_all_fired()


@drill("QuireHealingStalls")
async def idle_bookies(monitor: Monitor) -> None:
    """A bookie is lost, and the others do not make the copies that they are asked for."""
    async with audited(monitor, hosts(5), copies=False) as (made, _):
        await monitor.calm()
        await made.lose("b0")
        await monitor.until_all_fired()


@drill("QuireHealingStuck")
async def nowhere_to_copy(monitor: Monitor) -> None:
    """One of three bookies is lost: the others have a copy of every ledger already."""
    async with audited(monitor, hosts(3)) as (made, _):
        await monitor.calm()
        await made.lose("b0")
        await monitor.until_all_fired()


@drill("QuireHealingPaused")
async def long_pause(monitor: Monitor) -> None:
    """An operator pauses healing for three hours."""
    async with audited(monitor, hosts(4)) as (made, _):
        await monitor.calm()
        pause = Pause("a drill", "anna", made.now_ms, made.now_ms + 3 * 3_600_000)
        await change_switch(made.cluster.store, lambda it: it.paused(pause))
        await monitor.until_all_fired()


@drill("QuireNoAuditor")
async def no_auditor(monitor: Monitor) -> None:
    """The auditor ends, and no other process stands for election."""
    async with audited(monitor, hosts(4)) as (_, auditing):
        await monitor.calm(600.0)
        auditing.cancel()
        await monitor.until_all_fired()


@drill("QuireFewDomains")
async def lost_rack(monitor: Monitor) -> None:
    """One of two racks is lost, and ledgers require two."""
    racks = [Labels(rack=f"r{number % 2}", host=f"h{number}") for number in range(4)]
    async with audited(monitor, racks, placement=Placement.parse("require=rack:2")) as (made, _):
        await monitor.calm()
        await made.lose("b0", "b2")
        await monitor.until_all_fired()


HEALING_DRILLS: Final = (
    *(three_of_five_lost, two_of_four_lost, idle_bookies, nowhere_to_copy, long_pause),
    *(no_auditor, lost_rack),
)
