"""Bookies that are lost for good, and others that take their places.

Writers write one small ledger after the other, and live on while bookies heal. A bookie is lost
with its disk; another is only silent, and returns. Healers, who may take the silent one for lost,
plan copies and ask for them with production's code, one or two at a time; they are killed, paused
and cut off. Bookies that were asked are hit when they are asked and when they take a place, and
their ledgers are deleted meanwhile. Readers read closed ledgers all the time. In some runs auditors
ask for copies, beside healers or instead of them, and an operator pauses and resumes them, says go,
sends bookies away and drains them. In some of these the bookies are in zones: a whole zone is
silent and returns, or bookies start in other zones, and copies move for the sake of spread.

  H1, H2, H3, H5  as places change hands, H7 as copies are given up (place_watch.py)
  H4  whenever an auditor asks for copies (audit_watch.py)
  H10  when the faults are over, healing ends: no record names a lost or drained bookie, every
      closed ledger has each of its entries on its whole write set, and no bookie keeps a ledger
      that does not name it; a sweep of outlines finds what an auditor did not see happen; and
      moves for the sake of spread end, where no move widens a ledger
  L1, L4, L7  of every ledger, as in the workload `ledger` (checkers.py)
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final

from quire.aio.timing import time_limit
from quire.entry import BookieId, EntryId, LedgerId
from quire.errors import NotFoundError, QuireError, RetryError
from quire.healing.switch import Go, Pause
from quire.ledger.inventory import named_by
from quire.ledger.metadata import LedgerMetadata, Replica
from quire.ledger.quorum import Replication
from quire.ledger.stored_records import StoredRecords
from quire.ledger.writer import LedgerWriter
from quire.metastore.layout import MOVES, bookie_path
from quire.repair.assignments import Assignment
from quire.repair.healing import Healing
from tests.sim.auditors import REQUEST_SECONDS, Auditing, ask, settled
from tests.sim.checkers import FinalLedger, check_ledger
from tests.sim.clients import ClientMachine, join
from tests.sim.history import Append, End, Outcome, require
from tests.sim.inspection import inspect
from tests.sim.lights_out import lights_out
from tests.sim.machines import BookieMachine
from tests.sim.place_watch import PlaceWatch
from tests.sim.spreading import Spreading
from tests.sim.sweeping import sweep
from tests.sim.wishes import drain, send_away, take_drains_back, wish
from tests.sim.world import SimWorld

SHAPES: Final[tuple[tuple[Replication, int], ...]] = (
    (Replication(3, 3, 2), 8),
    (Replication(4, 3, 2), 4),
    (Replication(3, 2, 2), 3),
    (Replication(5, 3, 2), 2),
    (Replication(3, 3, 3), 1),
)
GIVEN_UP_SECONDS: Final = 2.0
"""So often at most are all ledgers swept in the end: a short run cannot wait for ten minutes."""

BLOWS: Final = ("crash", "power cut", "power cut", "pause", "hung disk", "sync error", "disk full")
"""What a bookie meets that was asked for copies, or has just taken a place."""
BLOWS_MAX: Final = 8
RACE: Final = "asked while it gives up"
RACES_MAX: Final = 12


class HealingWorkload:
    """See the module."""

    def __init__(self, world: SimWorld, rng: random.Random, replication: Replication) -> None:
        self.world = world
        self.rng = rng
        self.replication = replication
        world.heals = True
        world.raise_level()  # below level 2 no copy is superfluous
        world.budget.set(replication.ack_quorum)
        self.full_quorum = rng.random() < 0.1
        self.pace = rng.choice([5.0, 20.0, 60.0])
        self.over = False
        self.believed_lost: set[BookieId] = set()
        """Bookies that are silent, as healers see it; they come back."""
        self.strikes = rng.choice([0.0, 0.2, 0.5])
        self.deletes = rng.choice([0.0, 0.0, 0.1, 0.3])
        self.struck = 0
        self.done: list[LedgerId] = []
        """Ledgers whose writers are done with them."""
        more = world.rng("auditors")
        """Drawn apart: runs without auditors stay as they were."""
        self.auditors = more.choice([0, 1, 2, 3])
        self.healers = more.random() < 0.5 or not self.auditors
        self.auditing = Auditing(world, delay=more.choice([0.3, 1.0]))
        self.turns = more.choice([0, 1, 2, 3])
        """Bookies that are drained one after the other when the faults are over."""
        self.races = more.choice([0.0, 0.2, 0.5])
        """How often a bookie that is about to give a ledger up is asked for a place of it."""
        self.sweeps = bool(self.auditors) and world.rng("sweeps").random() < 0.5
        self.flaps = bool(self.auditors) and more.random() < 0.3
        self.chance = more
        self.spreads = Spreading(self) if self.auditors else None
        self.audits = self.auditing.watch
        self.watch = PlaceWatch(world, on_taken=self._taken, on_sealed=self._sealed)
        world.tree.listeners.append(self._assigned)

    @property
    def acks(self) -> int:
        return sum(append.outcome is Outcome.OK for append in self.world.ledgers.appends)

    async def run(self) -> None:
        """Write, lose bookies, heal them, and look at everything."""
        world, rng = self.world, self.rng
        await world.start()
        lives = [self._live(f"writer{number}", self._write) for number in range(rng.choice([1, 2]))]
        healers = rng.choice([1, 2])
        lives += [self._live(f"healer{each}", self._heal) for each in range(healers * self.healers)]
        lives += [
            self._live(f"auditor{each}", self.auditing.audit) for each in range(self.auditors)
        ]
        if self.auditors:
            lives.append(self._operate())
        if self.flaps:
            lives.append(self._flap())
        lives.append(self._live("reader", self._read))
        tasks = [asyncio.create_task(each) for each in lives]
        if rng.random() < 0.7:
            await asyncio.sleep(rng.choice([0.5, 1.0]))
        world.begin_faults()
        await self._turn()
        if rng.random() < 0.85 and world.damage("disk lost", rng) is not None:
            world.note_fault("bookie lost")
            self._end_session(world.retired[-1].name)
        await self._turn()
        if rng.random() < 0.6:
            self._silence(self.rng.choice(self.world.bookies))
        if self.spreads and self.spreads.loses_a_zone:
            for machine in self.spreads.some_zone():
                self._silence(machine)
        await asyncio.sleep(rng.choice([1.0, 3.0]))
        self.over = self.auditing.over = True
        await world.heal()
        async with world.all_ends("writers, healers and readers are done"):
            await asyncio.gather(*tasks)
        await self._finish()

    async def _turn(self) -> None:
        await asyncio.sleep(self.rng.choice([0.3, 1.0]))

    async def _live(self, name: str, work: Callable[[ClientMachine], Awaitable[None]]) -> None:
        """One process after the other does the work, until all is over."""
        number = 0
        while not self.over:
            client = self.world.client(f"{name}.{number}")
            number += 1

            async def life(client: ClientMachine) -> None:
                while not self.over:
                    try:
                        await work(client)
                    except (QuireError, TimeoutError) as error:
                        client.trouble = error
                        self.world.say(client.name, f"gives up: {error!r}")
                        await asyncio.sleep(0.1)

            await join(client, client.run(life))
            client.end_life()

    # -- bookies ---------------------------------------------------------------------------------

    def _silence(self, machine: BookieMachine) -> None:
        """Stop a bookie for so long that it may be taken for lost."""
        if not machine.is_running:
            return
        self.world.note_fault("bookie silent")
        self.world.say("world", f"silences {machine.name}")
        if self.auditors and self.chance.random() < 0.5:
            send_away(self.world, machine.name, self.chance.choice([1.0, 5.0]))
        machine.crash()
        self.believed_lost.add(machine.name)
        self._end_session(machine.name)

        def back() -> None:
            self.world.note_fault("bookie returned")
            self.believed_lost.discard(machine.name)
            machine.boot()

        self.world.network.later(self.rng.choice([1.0, 3.0]), back)

    def _end_session(self, bookie: BookieId) -> None:
        """Let the store miss a bookie soon, or only when its session is over."""
        record = self.world.tree._records.get(bookie_path(bookie))
        if record is not None and record.owner is not None and self.rng.random() < 0.8:
            self.world.network.later(self.rng.random(), self.world.tree.end_session, record.owner)

    def _assigned(self, path: str, value: bytes | None, version: int) -> None:
        """Listener of the tree: a bookie was asked for copies, or is done with some."""
        if path.startswith(MOVES + "/"):
            self.world.faults["orders changed"] += 1
            self._strike(path.rpartition("/")[2])

    def _sealed(self, metadata: LedgerMetadata) -> None:
        """A bookie is about to give a ledger up: perhaps one is asked for a place of it now."""
        world = self.world
        spare = sorted(
            each.name
            for each in world.bookies
            if each.name not in named_by(metadata)
            and each.node is not None
            and each.node._known(metadata.ledger) is not None
        )
        raced = world.faults[RACE] >= RACES_MAX
        if raced or not spare or self.chance.random() >= self.races:
            return
        world.note_fault(RACE)
        fragment = metadata.fragments[0]
        new, old = self.chance.choice(spare), fragment.bookies[0]
        place = Replica(fragment.first, 0, old, new)
        delay = self.chance.choice([0.0, 0.001, 0.01])
        world.network.later(delay, ask, world, new, Assignment(metadata.ledger, (place,)))

    def _taken(self, bookie: BookieId, ledger: LedgerId) -> None:
        self._strike(bookie)

    def _strike(self, bookie: BookieId) -> None:
        """Hit a bookie at once or soon, or not."""
        if self.over or self.struck >= BLOWS_MAX or self.rng.random() >= self.strikes:
            return
        self.struck += 1
        delay = self.rng.choice([0.0, 0.001, 0.01, 0.1])
        self.world.network.later(delay, self._hit, bookie, self.rng.choice(BLOWS))

    def _hit(self, bookie: BookieId, blow: str) -> None:
        machine = next((each for each in self.world.bookies if each.name == bookie), None)
        if self.over or machine is None or not machine.is_running:
            return
        self.world.note_fault(f"target: {blow}")
        mend = self.world.to_bookie(blow, machine, self.rng)
        if mend is not None:
            self.world.network.later(self.rng.expovariate(self.rng.choice([2.0, 20.0])), mend)

    # -- writers, healers, readers ---------------------------------------------------------------

    async def _write(self, client: ClientMachine) -> None:
        """Write a ledger, and close it or leave it open."""
        rng = self.world.rng(f"{client.name}:{len(self.done)}")
        async with time_limit(GIVEN_UP_SECONDS):
            writer = await client.catalog.create(self.replication, full_quorum=self.full_quorum)
        self.watch.writing.add(writer.ledger)
        try:
            for number in range(rng.choice([0, 1, 4, 12])):
                await self._append(client, writer, b"%d:%d" % (writer.ledger, number))
                if rng.random() < 0.5:
                    await asyncio.sleep(rng.expovariate(self.pace))
            if rng.random() < 0.2:
                await asyncio.sleep(1.0)
        finally:
            self.watch.writing.discard(writer.ledger)
            if rng.random() < 0.2:
                writer.abandon()
            self.done.append(writer.ledger)
            with suppress(QuireError):
                await writer.close()

    async def _append(self, client: ClientMachine, writer: LedgerWriter, payload: bytes) -> None:
        append: Append = self.world.ledgers.offer(client.name, writer.ledger, payload)
        self.world.in_flight += 1
        try:
            append.entry = await writer.append(payload)
            append.outcome = Outcome.OK
            self.world.metadata_watch.confirm(writer.ledger, append.entry)
        except QuireError:
            append.outcome = Outcome.UNKNOWN
            raise
        finally:
            self.world.in_flight -= 1

    async def _heal(self, client: ClientMachine) -> None:
        """Plan once, and see some of it done."""
        healing = self._healing(client)
        lost = self._missed(client, self._lost() | self.believed_lost)
        finds_holes = self.rng.random() < 0.5
        async with time_limit(2 * GIVEN_UP_SECONDS):
            plan = await healing.plan(lost, finds_holes=finds_holes)
            if plan.assignments:
                self.world.note_fault("healing planned")
                await healing.carry_out(plan, patience=self.rng.choice([0.3, 1.0, 3.0]))
        if self.rng.random() < 0.05:
            await healing.cancel()
        await asyncio.sleep(self.rng.expovariate(5.0))

    def _healing(self, client: ClientMachine) -> Healing:
        assert client.store is not None
        assert client.roster is not None
        rng = self.world.rng(f"{client.life}:healing")
        records = StoredRecords(client.store, rng)
        return Healing(client.store, records, client.roster, rng, REQUEST_SECONDS)

    async def _operate(self) -> None:
        """Pause, resume, say go, and wish something of bookies."""
        rng = self.world.rng("operator of auditors")
        while not self.over:
            await asyncio.sleep(rng.expovariate(2.0))
            now = round(self.world.clock() * 1000)
            deed = rng.choice(["pause", "resume", "go", "go", "wish", "wish"])
            self.world.note_fault(f"operator: {deed}")
            if deed == "pause":
                pause = Pause("", "operator", now, now + rng.choice([100, 500, 2000]))
                self.audits.set_switch(self.audits.switch().paused(pause))
            elif deed == "resume":
                self.audits.set_switch(self.audits.switch().paused(None))
            elif deed == "go":
                go = Go("operator", now, tuple(sorted(self.audits.missing())))
                self.audits.set_switch(self.audits.switch().going(go))
            else:
                self.world.network.later(rng.choice([0.3, 1.0, 3.0]), wish(self.world, rng))

    async def _flap(self) -> None:
        """End sessions of bookies, which register again soon, again and again."""
        while not self.over:
            await asyncio.sleep(self.chance.expovariate(5.0))
            path = bookie_path(self.chance.choice(self.world.bookies).name)
            record = self.world.tree._records.get(path)
            if record is not None and record.owner is not None:
                self.world.note_fault("bookie flaps")
                self.world.tree.end_session(record.owner)

    def _lost(self) -> set[BookieId]:
        return {each.name for each in self.world.retired}

    def _missed(self, client: ClientMachine, bookies: set[BookieId]) -> list[BookieId]:
        """Return those of some bookies that are not registered, as a client sees it."""
        assert client.roster is not None
        return sorted(bookies - {each.bookie for each in client.roster.known()})

    async def _read(self, client: ClientMachine) -> None:
        """Read a closed ledger, or delete it."""
        await asyncio.sleep(self.rng.expovariate(10.0))
        current = self.world.metadata_watch.current
        closed = [each for each in self.done if each in current and current[each].is_closed]
        if not closed:
            return
        ledger = self.rng.choice(closed)
        if self.rng.random() < self.deletes and len(closed) > 1:
            with suppress(NotFoundError):
                await client.catalog.delete(ledger)
            self.world.note_fault("ledger deleted")
            return
        with suppress(NotFoundError, TimeoutError):
            async with time_limit(GIVEN_UP_SECONDS):
                await self._read_all(client, ledger)

    async def _read_all(self, client: ClientMachine, ledger: LedgerId) -> list[bytes]:
        """Close a ledger if it is open, and read all of it."""
        reader = await client.catalog.open(ledger)
        end: EntryId | None = reader._metadata.last_entry
        assert end is not None
        self.world.ledgers.ends.append(End(client.name, ledger, end))
        async with reader:
            reading = self.world.ledgers.read(client.name, ledger, 0)
            async for entry in reader.read(0):
                reading.entries.append((entry.entry, entry.payload))
            return [payload for _, payload in reading.entries]

    # -- the end ---------------------------------------------------------------------------------

    async def _finish(self) -> None:
        """Close every ledger, heal until nothing is left to do, and check all of them."""
        world = self.world
        self.watch.writing.clear()  # writers that were killed
        last = world.client("last")
        payloads: dict[LedgerId, list[bytes]] = {}

        async def work(client: ClientMachine) -> None:
            for ledger in sorted(world.metadata_watch.current):
                await client.insist(partial(client.catalog.open, ledger))
            if self.sweeps:
                await self._heal_all(client, finds_holes=False)
                await sweep(self, client)
            await self._heal_all(client)
            await self._take_turns(client)
            await self._put_lights_out(client)
            await settled(self.world)
            if self.spreads:
                await self.spreads.end(client)
                await settled(self.world)
            for ledger in sorted(world.metadata_watch.current):
                payloads[ledger] = await self._insist_to_read(client, ledger)

        async with world.all_ends("healing is done"):
            await join(last, last.run(work))
        for ledger, metadata in sorted(world.metadata_watch.current.items()):
            final = await inspect(world, metadata, payloads[ledger])
            check_ledger(final, world.ledgers)
            self._check_healed(final)

    async def _insist_to_read(self, client: ClientMachine, ledger: LedgerId) -> list[bytes]:
        while True:
            try:
                return await self._read_all(client, ledger)
            except RetryError as error:
                client.trouble = error
                await asyncio.sleep(0.1)

    async def _heal_all(self, client: ClientMachine, *, finds_holes: bool = True) -> None:
        heal_once = partial(self._heal_once, client, finds_holes)
        while not await client.insist(heal_once):  # noqa: ASYNC110
            await asyncio.sleep(0.1)

    async def _take_turns(self, client: ClientMachine) -> None:
        """Drain one bookie after the other: each takes places of ledgers that it gave up."""
        world = self.world
        spare = len(world.bookies) > self.replication.ensemble
        for _ in range(self.turns * spare):
            bookie = self.rng.choice(world.bookies).name
            drain(world, bookie)
            await self._heal_all(client)
            await self._given_up()
            take_drains_back(world)
        await self._given_up()

    async def _given_up(self) -> None:
        """Wait until each bookie has given up the closed ledgers that do not name it."""
        while any(  # noqa: ASYNC110
            machine.node is None or machine.node._known(ledger) is not None
            for ledger, metadata in self.world.metadata_watch.current.items()
            for machine in self.world.bookies
            if machine.name not in named_by(metadata)
        ):
            await asyncio.sleep(0.1)

    async def _put_lights_out(self, client: ClientMachine) -> None:
        """Cut the power, perhaps. A bookie that does not start again, for it finds damage that no
        request met before, is lost: its places go to others. Holes of the rest stay to be seen.
        """
        lost = self._lost()
        await lights_out(self.world)
        if self._lost() != lost:
            self.world.note_fault("bookie lost in the dark")
            await self._heal_all(client, finds_holes=False)

    async def _heal_once(self, client: ClientMachine, finds_holes: bool) -> bool:
        """Heal, as an operator does that begins again; tell whether nothing was left to do."""
        if self._missed(client, {each.name for each in self.world.bookies}):
            return False  # a bookie that is not seen is asked for no list
        healing, lost = self._healing(client), self._missed(client, self._lost())
        plan = await healing.plan(lost, finds_holes=finds_holes)
        if not plan.assignments and not plan.leaves_something:
            return len(lost) == len(self._lost())
        self.world.say(client.name, f"plans {plan}")
        await healing.carry_out(plan, patience=1.0)
        return False

    def _check_healed(self, final: FinalLedger) -> None:
        lost = self._lost()
        for text, there, named in final.places(self.damaged()):
            require(not named & lost, "H10 healing leaves no lost bookie", text)
            require(named <= there, "H10 healing leaves no copy out", text)

    def damaged(self) -> set[BookieId]:
        return {each.name for each in self.world.budget.damaged}


def draw_healing_workload(rng: random.Random) -> tuple[Replication, int]:
    """Draw a shape and how many bookies the cluster has."""
    shapes = [shape for shape, _ in SHAPES]
    replication = rng.choices(shapes, [weight for _, weight in SHAPES])[0]
    return replication, replication.ensemble + rng.choice([0, 1, 1, 2])
