"""The composition root of a simulated run: a cluster, its weather, its evidence.

`SimWorld` builds machines from a seed's mix, lets the injector reach them, and knows how a run
ends: first the workload's own time with faults, then `heal`, after which everything that was begun
must finish in bounded virtual time, then the bookies themselves are asked (inspection.py).
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, Protocol

from quire.aio.timing import time_limit
from quire.entry import BookieId, EntryId, LedgerId
from quire.errors import (
    IntegrityError,
    StoreWentBackError,
)
from quire.labels import NOWHERE, Labels
from quire.ledger.inventory import named_by
from quire.testing.sim.loop import SimLoop
from tests.sim.clients import ClientMachine
from tests.sim.damage import FILES_LOST, LATE, RESIZES, Budget, hurt_disk, resize, rot
from tests.sim.faults import SECOND_PROCESS, STOP, STOP_CLIENT, TO_CLIENTS, WISH, FaultMix, Injector
from tests.sim.history import LedgerHistory, LogHistory, Stopwatch, Violation
from tests.sim.knobs import Knobs
from tests.sim.log_conformance import LogConformance
from tests.sim.machines import BookieMachine, Machine, World, draw_options
from tests.sim.manifest_watch import ManifestWatch
from tests.sim.network import Conditions, Network
from tests.sim.operator import REPAIR_SECONDS, REPAIRED_SHARE, lose_files
from tests.sim.store import STORE
from tests.sim.streams import draw_limits, draw_offers
from tests.sim.watch import BookieWatch, MetadataWatch
from tests.sim.wishes import take_drains_back, wish

SWIZZLE_SHARE: Final = 0.35
"""How many of the lines of a swizzle are clogged."""

REPLACE_SECONDS: Final = 0.5
"""Seconds until a bookie that is lost has been replaced."""

HEAL_SECONDS_MAX: Final = 120.0
"""Virtual time in which everything must finish once the faults are over."""


class Companion(Protocol):
    """Works beside a workload while faults come."""

    def begin(self) -> None:
        """All bookies serve."""
        ...

    async def end(self) -> None:
        """The faults are over: come to an end."""
        ...


class SimWorld(World):
    """See the module. Implements the injector's `Cluster`."""

    def __init__(self, loop: SimLoop, seed: str, mix: FaultMix, bookies: int) -> None:
        conditions = Conditions(**vars(mix.conditions))
        network = Network(loop, random.Random(f"{seed}:net"), conditions)
        network.limits = draw_limits(random.Random(f"{seed}:limits"))
        network.pushes = draw_offers(random.Random(f"{seed}:news"))
        network.frames_reads = draw_offers(random.Random(f"{seed}:reads"))
        super().__init__(loop, seed, network, mix.weather)
        self.mix = mix
        self.options = draw_options(self.rng("options"))
        self.ledgers = LedgerHistory()
        self.log = LogHistory(Stopwatch(loop))
        self.faults: Counter[str] = Counter()
        self.in_flight = 0
        self.healing = False
        self.bookie_watch = BookieWatch(loop.fail)
        self.metadata_watch = MetadataWatch(self.bookie_watch, loop.fail)
        self.manifest_watch = ManifestWatch(loop.fail, self.metadata_watch.current.get)
        self.log_conformance = LogConformance(self.metadata_watch.current.get)
        self.conformance.heard = self.log_conformance.told
        self.bookie_watch.on_add = self.log_conformance.came
        self.manifest_watch.on_change = self.log_conformance.changed
        self.manifest_watch.on_confirm = self.log_conformance.answered
        self.knobs = Knobs(self.rng("knobs"))
        self.bookie_watch.is_excused = self.is_excused
        self.bookie_watch.is_in_limbo = self.is_in_limbo
        self.bookie_watch.has_left = self.has_left
        network.watch = self.bookie_watch
        self.tree.listeners += [
            self.metadata_watch.changed,
            self.conformance.changed,
            self.manifest_watch.changed,
        ]
        self.bookies = [BookieMachine(self, f"b{i}", mix.disk_latency) for i in range(bookies)]
        self.retired: list[BookieMachine] = []
        self.budget = Budget(0)
        self.zones = 0
        """How many zones the bookies are in; 0: they have no labels."""
        self.relabels = False
        """Whether a bookie's process is started with another label than the one before."""
        self.clients: list[ClientMachine] = []
        self.helpers: list[ClientMachine] = []
        """Clients of companions: faults meet them too, and no workload counts on them."""
        self.companions: list[Companion] = []
        self.copying: set[tuple[BookieId, LedgerId]] = set()
        """Copies that bookies were asked to make, ever."""
        self.injector = Injector(mix, self, random.Random(f"{seed}:faults"))
        self._injecting: asyncio.Task[None] | None = None
        self.event: Callable[[str, str], None] | None = None

    def place(self, machine: Machine) -> Labels:
        if not self.zones:
            return NOWHERE
        number = int(machine.name.strip("bx")) + (machine.lives if self.relabels else 0)
        return Labels(zone=f"z{number % self.zones}", host=machine.name)

    # -- life -----------------------------------------------------------------------------------

    def say(self, who: str, what: str) -> None:
        """Tell the event log, if somebody wants it."""
        if self.network.log is not None:
            self.network.log(who, what)

    async def start(self) -> None:
        """Boot every bookie and wait until all serve and are registered."""
        for machine in self.bookies:
            machine.boot()
        for machine in self.bookies:
            await machine.ready.wait()
        await asyncio.sleep(0.5)
        for each in self.companions:
            each.begin()

    def client(self, name: str) -> ClientMachine:
        client = ClientMachine(self, name)
        self.clients.append(client)
        return client

    def begin_faults(self) -> None:
        self._injecting = self.loop.root.spawn(self.injector.run(), name="injector")

    async def heal(self) -> None:
        """End all faults, start what is down, and wait until every bookie serves."""
        if self._injecting is not None:
            self._injecting.cancel()
            await asyncio.gather(self._injecting, return_exceptions=True)
        self.injector.mend_all()
        calm = Conditions()
        vars(self.network.conditions).update(vars(calm))
        self.network.cut.clear()
        for name in vars(self.weather):
            setattr(self.weather, name, 0.0)
        self.healing = True
        self.say("world", "heals")
        for machine in self.bookies:
            machine.disk.mend()
            machine.resume()
            machine.boot()
        for client in (*self.clients, *self.helpers):
            client.resume()
        async with self.all_ends("every bookie serves"):
            while not all(machine.ready.is_set() for machine in self.bookies):
                await self.serving()
        take_drains_back(self)
        async with self.all_ends("B15 every bookie is on duty again"):
            while any(machine.is_off_duty for machine in self.bookies):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        for each in self.companions:
            await each.end()

    @asynccontextmanager
    async def all_ends(self, what: str) -> AsyncIterator[None]:
        """L6: what is done here ends in bounded time, as the faults are over."""
        try:
            async with time_limit(HEAL_SECONDS_MAX):
                yield
        except TimeoutError as error:
            said = "; ".join(
                f"{client.name}: {client.trouble!r}" for client in self.clients if client.trouble
            )
            text = f"{what}: not within {HEAL_SECONDS_MAX:g} s of peace. Last heard: {said}"
            raise Violation("L6 all ends when the faults are over", text) from error

    async def serving(self) -> None:
        """Wait until every bookie serves or was found unable to, and has been replaced."""
        for machine in list(self.bookies):
            await machine.settled.wait()
        await asyncio.sleep(0.1)

    # -- faults ---------------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        return self.in_flight > 0

    def note_fault(self, kind: str) -> None:
        self.faults[kind] += 1

    def do(self, kind: str, rng: random.Random) -> Callable[[], None] | None:
        running = [each for each in self.bookies if each.is_running]
        clients = [each for each in (*self.clients, *self.helpers) if each.is_running]
        names = [*(each.name for each in (*self.bookies, *clients)), STORE]
        if kind in TO_CLIENTS:
            return self.to_client(kind, rng.choice(clients)) if clients else None
        if kind == "cut":
            one, other = rng.sample(names, 2)
            return self._cut({(one, other)})
        if kind == "isolate":
            victim = rng.choice(names)
            pairs = {(victim, other) for other in names if other != victim}
            back = {(other, victim) for other in names if other != victim}
            return self._cut(rng.choice([pairs, back, pairs | back]))
        if kind == "swizzle":
            return self.swizzle(rng.sample(names, 2), names, rng)
        if kind == "expire session":
            sessions = self.tree.sessions()
            if not sessions:
                return None
            self.say("world", "expires a session")
            self.tree.end_session(rng.choice(sessions))
            return _nothing
        if kind == WISH:
            return wish(self, rng)
        if kind in ("bit rot", "disk lost", *LATE):
            return self.damage(kind, rng)
        return self.to_bookie(kind, rng.choice(running), rng) if running else None

    def damage(self, kind: str, rng: random.Random) -> Callable[[], None] | None:
        """Hurt what is durable, within the budget."""
        machine = rng.choice(self.budget.damaged or self.bookies)
        if machine in self.retired or not self.budget.take(machine):
            return None
        if kind in RESIZES:
            machine.crash()
            path = resize(machine.disk, kind, rng)
            self.say("world", f"{kind}: {machine.name} {path}")
            return machine.boot
        if kind == FILES_LOST:
            machine.crash()
            machine.must_repair = True
            lost = lose_files(machine.disk, rng)
            self.say("world", f"files lost: {machine.name} {lost}")
            return machine.boot
        if kind == "disk lost":
            self.say("world", f"disk lost: {machine.name}")
            self.replace(machine)
            return _nothing
        path = rot(machine.disk, rng)
        self.say("world", f"bit rot: {machine.name} {path}")
        if path is None:
            return None
        self.faults[f"rot of {path.partition('/')[0]}"] += 1
        return _nothing

    def replace(self, machine: BookieMachine) -> None:
        """Take a bookie away for good; an administrator puts an empty one in its place."""
        if machine in self.retired:
            return
        machine.retire()
        self.retired.append(machine)
        self.bookies.remove(machine)
        fresh = BookieMachine(self, f"{machine.name}x", self.mix.disk_latency)
        self.bookies.append(fresh)
        self.network.later(REPLACE_SECONDS, fresh.boot)

    def refused_to_start(self, machine: BookieMachine, error: IntegrityError) -> None:
        """A bookie found its disk damaged: right if it is."""
        if not machine.is_damaged:
            text = f"{machine.name} refuses to start: {error}"
            self.loop.fail(Violation("a sound disk is not called damaged", text))
            return
        self.say(machine.name, f"refuses to start: {error}")
        self.faults["damaged bookie refused to start"] += 1
        chance = self.rng(f"operator:{machine.name}:{machine.lives}").random()
        if machine.must_repair or chance >= REPAIRED_SHARE:
            self.replace(machine)  # even the repair could not believe it
            return
        machine.crash()
        machine.must_repair = True
        self.network.later(REPAIR_SECONDS, machine.boot)

    def store_went_back(self, machine: BookieMachine, error: StoreWentBackError) -> None:
        """Right if the store was put back, or lost its counter."""
        if not (self.faults["store put back"] or self.faults["counter lost"]):
            text = f"{machine.name} ends: {error}"
            self.loop.fail(Violation("a sound store is believed", text))
        self.faults["bookie did not believe the store"] += 1

    def _cut(self, pairs: set[tuple[str, str]]) -> Callable[[], None]:
        cuts = pairs - self.network.cut
        self.network.cut |= cuts
        self.say("world", f"cuts {sorted(cuts)}")

        def mend() -> None:
            self.network.cut -= cuts
            self.say("world", f"joins {sorted(cuts)}")

        return mend

    def swizzle(self, some: list[str], others: list[str], rng: random.Random) -> Callable[[], None]:
        """Clog random lines between two groups, each from its own moment to its own moment."""
        pairs = [(one, other) for one in some for other in others if one != other]
        pairs += [(other, one) for one, other in pairs]
        for pair in pairs:
            if rng.random() < SWIZZLE_SHARE:
                self.network.later(rng.expovariate(100.0), self._clog, pair, rng)
        return _nothing

    def _clog(self, pair: tuple[str, str], rng: random.Random) -> None:
        if not self.healing and pair not in self.network.cut:
            self.network.cut.add(pair)
            self.network.counters["line clogged"] += 1
            self.say("world", f"clogs {pair}")
            seconds = rng.expovariate(rng.choice([5.0, 30.0, 200.0]))
            self.network.later(seconds, self.network.cut.discard, pair)

    def to_client(self, kind: str, client: ClientMachine) -> Callable[[], None]:
        """Kill or pause a client; return what mends it."""
        self.say("world", f"{kind}: {client.life}")
        if kind == "pause client":
            client.pause()
            return client.resume
        if kind == STOP_CLIENT:
            client.stop()
            return _nothing
        client.end_life()
        return _nothing

    def to_bookie(
        self, kind: str, machine: BookieMachine, rng: random.Random
    ) -> Callable[[], None] | None:
        """Bring one fault to a bookie; return what mends it, None when it found no victim."""
        self.say("world", f"{kind}: {machine.life}")
        if kind == "crash":
            machine.crash()
            return machine.boot
        if kind == STOP:
            machine.stop()
            return _nothing
        if kind == SECOND_PROCESS:
            return _nothing if machine.start_second(rng) else None
        if kind == "power cut":
            machine.power_cut()
            return machine.boot
        if kind == "pause":
            machine.pause()
            return machine.resume
        if kind == "break streams":
            self.network.break_streams(machine.name)
            return _nothing
        return hurt_disk(kind, machine, rng)

    def events(self) -> Counter[str]:
        """What happened in this run, faults and their consequences."""
        found = self.network.counters + self.faults + self.metadata_watch.counters
        watch = self.manifest_watch
        for machine in self.bookies:
            found += machine.upkeep
        return found + Counter(
            {
                "take-over": watch.takeovers,
                "roll": watch.rolls,
                "page": watch.pages.made,
                "manifest moved into pages": watch.migrations,
            }
        )

    def is_in_limbo(self, bookie: str, ledger: LedgerId) -> bool:
        """Whether a bookie says that it may have lost something of a ledger."""
        found = (each.node for each in self.bookies if each.name == bookie)
        return any(node is not None and node.doubts(ledger) for node in found)

    def has_left(self, bookie: str, ledger: LedgerId) -> bool:
        """Whether a bookie is off duty for so long that it takes no entries of a ledger."""
        return any(each.name == bookie and each.has_left(ledger) for each in self.bookies)

    def is_hurt(self, bookie: str) -> bool:
        """Whether something of a bookie's disk was lost, or may be."""
        found = (each for each in self.bookies if each.name == bookie)
        return any(each.was_repaired or bookie in self.loop.ailing for each in found)

    def is_excused(self, bookie: str, ledger: LedgerId, entry: EntryId) -> bool:
        """Whether a bookie that was hurt may deny what it vouched for: it is not its own."""
        metadata = self.metadata_watch.current.get(ledger)
        if not self.is_hurt(bookie) or metadata is None:
            return False
        if metadata.is_closed and metadata.last_entry is not None and entry > metadata.last_entry:
            return True
        is_settled = metadata.is_closed or entry < metadata.last_fragment.first
        return is_settled and bookie not in metadata.write_set(entry)

    # -- the end --------------------------------------------------------------------------------

    async def mended(self, ledger: LedgerId) -> None:
        """Wait until a closed ledger is whole at every bookie that was repaired, or that takes
        places of others.
        """
        named = named_by(self.metadata_watch.current[ledger])
        mending = [
            each
            for each in self.bookies
            if (each.was_repaired or self.companions) and each.name in named
        ]
        while any(each.node is None or each.node.doubts(ledger) for each in mending):  # noqa: ASYNC110
            await asyncio.sleep(0.1)


def _nothing() -> None:
    return None
