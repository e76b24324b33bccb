"""Auditors and menders beside any workload: a cluster that heals itself meanwhile.

As long as faults come, elected or not, one or two auditors ask bookies for copies, and bookies make
them and give superfluous ones up. In some runs a process beside them asks for places at random: no
process that asks is trusted. The rules of healing are checked as in the workload `healing`.
When the faults are over the auditors end, and what bookies were asked for is done or taken back,
so that the workload finds records that stand still.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from quire.entry import BookieId, LedgerId
from quire.errors import QuireError
from quire.healing.audit import Audit
from quire.ledger.inventory import named_by
from quire.ledger.metadata import LedgerMetadata, Replica
from quire.ledger.stored_records import StoredRecords
from quire.metastore.layout import MOVES, moves_path
from quire.repair.assignments import Assignment, Assignments
from tests.sim.audit_watch import AuditWatch, WatchedAuditor
from tests.sim.clients import ClientMachine, join
from tests.sim.place_watch import PlaceWatch
from tests.sim.world import SimWorld

ROUND_SECONDS: Final = 0.2
"""Between two rounds of an auditor, at most: it does not wait for changes here."""

REQUEST_SECONDS: Final = 0.5

ALONE_SECONDS: Final = 0.3
"""The delay of an auditor that works alone."""

Build = Callable[[SimWorld, random.Random, Any], Any]
"""Makes a workload of a world, its chance, and what was drawn for it."""


def ask(world: SimWorld, bookie: BookieId, assignment: Assignment) -> None:
    """Ask a bookie for copies, as any process may that reaches the store."""
    tree, path = world.tree, moves_path(bookie)
    version = tree.version(path)
    if version is None:
        tree.create(path, Assignments(bookie, (assignment,)).encode())
    else:
        asked = Assignments.decode(path, tree.get(path).value)
        tree.put(path, asked.with_more([assignment]).encode(), version)


class Auditing:
    """Auditors of a world, without an election. `audit` is the life of one."""

    def __init__(self, world: SimWorld, delay: float) -> None:
        self.world = world
        self.delay = delay
        self.over = False
        self.watch: Final = AuditWatch(world)

    async def audit(self, client: ClientMachine) -> None:
        """Audit with production's code until it is over, or something fails."""
        assert client.store is not None
        assert client.roster is not None
        rng = self.world.rng(f"{client.life}:auditor:{self.world.loop.time()}")
        audit = Audit(
            *(client.store, StoredRecords(client.store, rng), client.roster),
            name=client.name,
            epoch=client.lives,
            delay=self.delay,
            clock=self.world.clock,
            rng=rng,
            request_timeout=REQUEST_SECONDS,
        )
        await audit.build()
        auditor = WatchedAuditor(self.watch, audit, client.name, self.delay)
        while not self.over:
            seconds = await auditor.round()
            await asyncio.sleep(min(seconds, ROUND_SECONDS))


async def audit_alone(
    world: SimWorld, client: ClientMachine, is_done: Callable[[Audit], bool]
) -> None:
    """Let one auditor work, when the faults are over, until nothing is asked for and it is done."""
    assert client.store is not None
    assert client.roster is not None
    while True:
        rng = world.rng(f"{client.life}:alone:{world.loop.time()}")
        audit = Audit(
            *(client.store, StoredRecords(client.store, rng), client.roster),
            name="last auditor",
            epoch=1,
            delay=ALONE_SECONDS,
            clock=world.clock,
            rng=rng,
            request_timeout=REQUEST_SECONDS,
        )
        try:
            await audit.build()
            # What a whole look finds is asked for at the next: then the delay is over as well.
            while audit.tally.rounds < 3 or len(audit.requests) or not is_done(audit):
                await audit.round()
                await asyncio.sleep(ROUND_SECONDS)
        except QuireError as error:
            client.trouble = error
            await asyncio.sleep(0.1)
        else:
            return


async def settled(world: SimWorld) -> None:
    """Wait until no bookie is in limbo for a ledger that it owes entries of."""
    current = world.metadata_watch.current
    while any(  # noqa: ASYNC110
        machine.node is None or machine.node.doubts(ledger)
        for ledger, metadata in current.items()
        for machine in world.bookies
        if machine.name in _owing(metadata)
    ):
        await asyncio.sleep(0.1)


def _owing(metadata: LedgerMetadata) -> set[BookieId]:
    """Return the bookies that owe entries of a ledger. One that a closed ledger names for none, as
    striping can have it, is asked for nothing: it may doubt the ledger forever.
    """
    if metadata.last_entry is None:
        return named_by(metadata)
    return {each for entry in range(metadata.last_entry + 1) for each in metadata.write_set(entry)}


def _taken(bookie: BookieId, ledger: LedgerId) -> None:
    return None


def _sealed(metadata: LedgerMetadata) -> None:
    return None


class Healers:
    """See the module. A companion of a world."""

    def __init__(self, world: SimWorld) -> None:
        rng = world.rng("healers")
        world.heals = True
        world.raise_level()
        self._world = world
        self._auditing = Auditing(world, rng.choice([0.3, 1.0]))
        self._count = rng.choice([1, 1, 2])
        self._rng = rng
        self._pace = rng.choice([0.0, 3.0, 10.0])
        """Places that are asked for at random, per second."""
        self._tasks: list[asyncio.Task[None]] = []
        PlaceWatch(world, on_taken=_taken, on_sealed=_sealed)

    def begin(self) -> None:
        """Let the auditors work; again, after an end."""
        self._auditing.over = False
        self._tasks.clear()
        root = self._world.loop.root
        for number in range(self._count):
            life = self._live(f"auditor{number}")
            self._tasks.append(root.spawn(life, name=f"auditor {number}"))
        if self._pace:
            self._tasks.append(root.spawn(self._confuse(), name="random requests"))

    async def _confuse(self) -> None:
        """Ask for places of closed ledgers, whether or not a bookie is lost."""
        rng, world = self._rng, self._world
        while not self._auditing.over:
            await asyncio.sleep(rng.expovariate(self._pace))
            closed = [each for each in world.metadata_watch.current.values() if each.is_closed]
            if not closed:
                continue
            metadata = rng.choice(sorted(closed, key=lambda each: each.ledger))
            fragment = rng.choice(metadata.fragments)
            spare = [each for each in world.bookies if each.name not in fragment.bookies]
            if spare and not self._auditing.over:
                position = rng.randrange(len(fragment.bookies))
                new, old = rng.choice(spare), fragment.bookies[position]
                place = Replica(fragment.first, position, old, new.name, world.place(new))
                world.note_fault("asked at random")
                ask(world, new.name, Assignment(metadata.ledger, (place,)))

    async def _live(self, name: str) -> None:
        """One process after the other audits, until it is over."""
        number = 0
        while not self._auditing.over:
            client = ClientMachine(self._world, f"{name}.{number}")
            self._world.helpers.append(client)
            number += 1
            await join(client, client.run(self._work))
            client.end_life()

    async def _work(self, client: ClientMachine) -> None:
        while not self._auditing.over:
            try:
                await self._auditing.audit(client)
            except (QuireError, TimeoutError) as error:
                client.trouble = error
                await asyncio.sleep(0.1)

    async def end(self) -> None:
        """End the auditors, take back what is not done, and wait until records stand still."""
        self._auditing.over = True
        async with self._world.all_ends("auditors are done, and no place changes hands"):
            await asyncio.gather(*self._tasks)
            while self._take_back() or self._copies():  # noqa: ASYNC110
                await asyncio.sleep(0.1)

    def _take_back(self) -> bool:
        """Take requests back; tell whether there were some."""
        tree = self._world.tree
        found = False
        for name in tree.children(MOVES):
            path = f"{MOVES}/{name}"
            if Assignments.decode(path, tree.get(path).value).open:
                tree.put(path, Assignments(name).encode(), tree.get(path).version)
                found = True
        return found

    def _copies(self) -> bool:
        """Whether a bookie is in limbo for a closed ledger that does not name it."""
        return any(
            machine.node is None or ledger in machine.node._storage.limbo()
            for ledger, metadata in self._world.metadata_watch.current.items()
            for machine in self._world.bookies
            if metadata.is_closed and machine.name not in named_by(metadata)
        )


def _build_healed(build: Build, world: SimWorld, rng: random.Random, drawn: Any) -> Any:
    world.companions.append(Healers(world))
    return build(world, rng, drawn)


def healed(build: Build) -> Build:
    """Return what makes the same workload in a cluster that heals itself."""
    return partial(_build_healed, build)
