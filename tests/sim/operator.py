"""What an operator does for a bookie that lost something: `quire bookie repair`, simulated.

The production census and salvage run in the machine's own process, over its bad line to the
metadata store; faults may cut them short, and then they are begun again. Once the bookie serves it
mends itself, as in production.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from quire.entry import BookieId, LedgerId
from quire.errors import OutcomeUnknownError, RetryError
from quire.ledger.metadata import LedgerMetadata, LedgerState
from quire.ledger.roster import BookieRoster, Bookies
from quire.ledger.stored_records import StoredRecords
from quire.repair.census import count
from quire.repair.copies import PeerCopies
from quire.repair.orders import StoredOrders
from quire.repair.superfluous import SuperfluousCopies
from quire.storage.entries.ledger_storage import UNFINISHED
from quire.storage.journal.options import StorageOptions
from quire.storage.maintenance.replicas_port import Copies
from quire.storage.offline.salvage import salvage
from quire.testing.sim.process import Incarnation
from tests.sim.disk import SimDisk, SimMount

if TYPE_CHECKING:
    from tests.sim.machines import BookieMachine

REPAIR_SECONDS: Final = 0.3
"""Seconds until somebody looks after a bookie that is refused."""

REPAIRED_SHARE: Final = 0.6
"""How many refused bookies are repaired; the others are given up and replaced."""

CUT_SHORT_SHARE: Final = 0.4
"""How many repairs meet a power cut, if they last that long."""

CUT_SHORT_CHANGES: Final = (6, 30, 150)
"""Within how many changes of the disk, from the first."""

REQUEST_SECONDS: Final = 1.0
RETRY_SECONDS: Final = 0.1
KEPT: Final = "cookie"


def lose_files(disk: SimDisk, rng: random.Random) -> list[str]:
    """Let files that were synced be gone; return their names. The cookie stays: without it a disk
    is nobody's.
    """
    paths = sorted(path for path in disk.files() if path != KEPT)
    lost = [path for path in paths if rng.random() < rng.choice([0.2, 0.5, 1.0])]
    for path in lost:
        directory, _, name = path.rpartition("/")
        tree = disk.directory(directory)
        tree.names.pop(name)
        tree.settle()
    return lost


async def repair(
    machine: BookieMachine, life: Incarnation, mount: SimMount, options: StorageOptions
) -> None:
    """Repair a machine's disk. Raises as `quire bookie repair`."""
    world = machine.world
    store = world.store(life)
    machine.doubted.update(_doubtful(world.metadata_watch.current.values(), machine.name))
    while True:
        try:
            doubts, horizon = await count(store, machine.name, math.inf)  # a day is over
            break
        except (RetryError, OutcomeUnknownError):
            await asyncio.sleep(RETRY_SECONDS)
    await store.close()
    rng = world.rng(f"repair:{life}")
    async with _perhaps_cut_short(machine, life):
        await salvage(mount, machine.name, doubts, horizon, rng=rng, options=options)
    world.network.counters["bookie repaired"] += 1


@asynccontextmanager
async def _perhaps_cut_short(machine: BookieMachine, life: Incarnation) -> AsyncIterator[None]:
    """Let the power fail in one change of a repair, or the process be killed, in some of the
    repairs. The operator begins again; where the disk says that a repair was begun, a plain start
    is tried first, in vain.
    """
    world = machine.world
    rng, disk = world.rng(f"repair cut short:{life}"), machine.disk
    if rng.random() >= CUT_SHORT_SHARE:
        yield
        return
    disk.halt_at(rng.randrange(1, rng.choice(CUT_SHORT_CHANGES)))
    end = rng.choice([_power_fails, _process_is_killed])

    async def fall() -> None:
        await disk.halted.wait()
        world.network.later(0.0, end, machine, life)

    falling = asyncio.create_task(fall(), name="power failure of a repair")
    try:
        yield
    finally:
        falling.cancel()
        disk.halt_never()


def _power_fails(machine: BookieMachine, life: Incarnation) -> None:
    if machine.life is life:
        machine.world.network.counters["repair cut short"] += 1
        machine.power_cut()
        _begin_again(machine)


def _process_is_killed(machine: BookieMachine, life: Incarnation) -> None:
    if machine.life is life:
        machine.world.network.counters["repair killed"] += 1
        machine.crash()
        _begin_again(machine)


def _begin_again(machine: BookieMachine) -> None:
    machine.must_repair = UNFINISHED not in machine.disk.files()
    machine.boot()


def _doubtful(ledgers: Iterable[LedgerMetadata], bookie: BookieId) -> Iterator[LedgerId]:
    """Yield the ledgers that name a bookie, or are being ended or were: it may lack something that
    it had. What the census finds out over a bad line, told from the truth.
    """
    for metadata in ledgers:
        named = any(bookie in fragment.bookies for fragment in metadata.fragments)
        if named or metadata.state is not LedgerState.OPEN:
            yield metadata.ledger


def superfluous(machine: BookieMachine, life: Incarnation, cluster: str) -> SuperfluousCopies:
    """Return what proves copies of a machine superfluous."""
    world = machine.world
    store = world.store(life)

    @asynccontextmanager
    async def reach() -> AsyncIterator[Bookies]:
        roster = BookieRoster(store, lambda address: world.network.connect(life, address))
        try:
            await roster.start()
            yield roster
        finally:
            await roster.close()

    records = StoredRecords(store, random.Random(0))
    name = machine.name
    return SuperfluousCopies(store, records, name, cluster, reach, REQUEST_SECONDS)


@asynccontextmanager
async def copies(machine: BookieMachine, life: Incarnation) -> AsyncIterator[Copies]:
    """Reach the other bookies from a machine."""
    world = machine.world
    store = world.store(life)
    roster = BookieRoster(store, lambda address: world.network.connect(life, address))
    try:
        await roster.start()
        records = StoredRecords(store, random.Random(0))
        orders = StoredOrders(store, records, machine.name)
        assigned = await orders.read()
        yield PeerCopies(records, roster, machine.name, orders, assigned, REQUEST_SECONDS)
    finally:
        await roster.close()
        await store.close()
