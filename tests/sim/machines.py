"""The machines of a world, and those of bookies, on disks that forget. Clients: clients.py.

A `BookieMachine` boots a process that mounts its disk, replays it, serves and registers itself, as
the real server does; `crash` is kill −9, `power_cut` also takes what was not synced. When the node
says that it cannot go on, the process dies and is started again a little later, as by a supervisor.
"""

from __future__ import annotations

import asyncio
import errno
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

from quire.entry import LedgerId
from quire.errors import IntegrityError, StoreWentBackError
from quire.labels import NOWHERE, Labels
from quire.ledger.options import LedgerOptions
from quire.metastore import layout
from quire.metastore.cluster import Cluster
from quire.metastore.levels import FIRST_LEVEL, SPEAKS
from quire.storage.identity.cookie import format_bookie
from quire.storage.journal.options import StorageOptions
from quire.storage.node import BookieNode
from quire.testing.sim.loop import SimLoop
from quire.testing.sim.process import Incarnation
from tests.sim import operator, second_process
from tests.sim.conformance import Conformance
from tests.sim.damage import Budget
from tests.sim.disk import SimDisk
from tests.sim.history import WALL_CLOCK_START, Violation
from tests.sim.network import Network
from tests.sim.serving import Serving
from tests.sim.store import SimStore, StoreWeather, WatchedTree
from tests.sim.watch import MetadataWatch

T = TypeVar("T")

CLUSTER: Final = "c" * 32
RESTART_SECONDS: Final = 0.3

STORAGE: Final = StorageOptions(
    segment_bytes=32 * 1024,
    batch_bytes_max=16 * 1024,
    write_cache_bytes=4 * 1024,
    memory_bytes_max=64 * 1024,
    read_cache_bytes=8 * 1024,
    list_bytes_max=2 * 1024,
    journal_segments_max=3,
    spare_segments_max=1,
    low_space_bytes=1024,
    mend_seconds=0.2,
    mend_seconds_max=1.0,
    space_check_seconds=0.5,
    collect_seconds=0.5,
    disown_seconds=0.3,
    major_seconds=3.0,
    scrub_seconds=3.0,
    suspect_seconds=0.3,
)
"""Small, so that a short run flushes, rolls and reclaims."""

LEDGER: Final = LedgerOptions(
    request_timeout=1.0,
    append_timeout=8.0,
    entries_in_flight_max=32,
    bytes_in_flight_max=64 * 1024,
    stall_timeout=0.4,
    quarantine=1.0,
)


def draw_options(rng: random.Random) -> LedgerOptions:
    """Draw a client's options: some make ensembles change often, some give appends up soon."""
    return replace(
        LEDGER,
        quarantine=rng.choice([0.1, 0.1, 1.0, 30.0]),
        runs_outstanding_max=rng.choice([1, 2, 2, 4]),
        delay_ensemble_change=rng.random() < 0.1,
        speculative_delay=rng.choice([0.02, 0.25]),
        append_timeout=rng.choice([LEDGER.append_timeout] * 4 + [0.5]),
        small_read_bytes=rng.choice([1, 300, 64 * 1024]),
    )


def _unheard(machine: BookieMachine) -> None:
    return None


class World:
    """What machines share. `failure` is called with what must end the run."""

    metadata_watch: MetadataWatch
    """Of a world in which bookies are repaired."""
    budget: Budget
    """Of a world in which disks are damaged."""
    heals = False
    """Whether bookies are asked to make copies."""
    healing = False
    """Whether the faults are over."""

    def __init__(self, loop: SimLoop, seed: str, network: Network, weather: StoreWeather) -> None:
        self.loop = loop
        self.seed = seed
        self.network = network
        self.weather = weather
        self.tree = WatchedTree()
        self.level = level = self.rng("level").randint(FIRST_LEVEL, SPEAKS.highest)
        self.tree.create(layout.CLUSTER, Cluster(CLUSTER, level=level).encode())
        self.options = LEDGER
        self.conformance = Conformance()
        self.on_start: Callable[[BookieMachine], None] = _unheard
        """Told of every bookie that begins to serve."""

    def raise_level(self) -> None:
        """Finish an upgrade: from now on the newest formats may be written."""
        found = self.tree.get(layout.CLUSTER)
        cluster = replace(Cluster.decode(found.value), level=SPEAKS.highest)
        self.tree.put(layout.CLUSTER, cluster.encode(), found.version)

    def note_fault(self, kind: str) -> None:
        """A fault happens."""

    def rng(self, name: str) -> random.Random:
        """A stream of chance of its own: one more draw in it does not shift another."""
        return random.Random(f"{self.seed}:{name}")

    def clock(self) -> float:
        return WALL_CLOCK_START + self.loop.time()

    def place(self, machine: Machine) -> Labels:
        """Return the labels that a bookie's process is started with."""
        return NOWHERE

    def refused_to_start(self, machine: BookieMachine, error: IntegrityError) -> None:
        """A bookie's disk is damaged."""
        raise error

    def store_went_back(self, machine: BookieMachine, error: StoreWentBackError) -> None:
        """A bookie does not believe the metadata store, and ends."""
        raise error

    def store(self, client: Incarnation) -> SimStore:
        return SimStore(self.network, self.tree, client, self.weather)


class Machine:
    """Something that runs one process at a time."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.lives = 0
        self.life: Incarnation | None = None
        self.paused = False
        self.pauses = 0
        self.mourners: list[asyncio.Event] = []
        """Set when its process ends."""

    @property
    def is_running(self) -> bool:
        return self.life is not None

    def begin_life(self) -> Incarnation:
        assert self.life is None, f"{self.name} runs already"
        self.lives += 1
        self.life = Incarnation(self.world.loop, self.name, self.lives)
        return self.life

    def end_life(self) -> None:
        if self.life is not None:
            self.world.loop.kill(self.life)
            self.life = None
            self.paused = False
            while self.mourners:
                self.mourners.pop().set()

    def pause(self) -> None:
        if self.life is not None:
            self.world.loop.pause(self.life)
            self.paused = True
            self.pauses += 1

    def resume(self) -> None:
        if self.life is not None and self.paused:
            self.world.loop.resume(self.life)
            self.paused = False


class BookieMachine(Machine):
    """See the module."""

    def __init__(self, world: World, name: str, disk_latency: float) -> None:
        super().__init__(world, name)
        self.disk = SimDisk(world.rng(f"disk:{name}"), sleep=world.loop.nap)
        self.disk.faults.latency_seconds = disk_latency
        self.host = world.network.host(name)
        self.node: BookieNode | None = None
        self._main: asyncio.Task[None] | None = None
        self.ready = asyncio.Event()
        self.settled = asyncio.Event()
        """Serves, or will never serve again."""
        self._served: list[Serving] = []
        self.others: list[Incarnation] = []
        """Processes on its disk that the lock did not refuse."""
        self.is_retired = False
        self.is_damaged = False
        """Something durable was taken from its disk: it may find that out at any time."""
        self.has_reserve = False
        """Served once, so it starts however full its disk is. A repair needs room of its own."""
        self.must_repair = False
        self.was_repaired = False
        self.doubted: set[LedgerId] = set()
        """Of which it may have had something when it was repaired. Of others it lost nothing, and
        may lack what it never got, as every bookie may.
        """

    @property
    def upkeep(self) -> Counter[str]:
        """What it did in the background in all its lives."""
        return sum((serving.upkeep for serving in self._served), Counter())

    @property
    def is_off_duty(self) -> bool:
        """Whether its process obeys a wish to take no entries."""
        return self.is_running and bool(self._served) and self._served[-1].bookie.is_off_duty

    def has_left(self, ledger: LedgerId) -> bool:
        """Whether it is off duty for so long that it takes no entries of a ledger."""
        return self.is_running and bool(self._served) and self._served[-1].has_left(ledger)

    def boot(self) -> None:
        """Start the process, unless it runs."""
        if self.life is None and not self.is_retired:
            life = self.begin_life()
            self.host.life = life
            self._main = life.spawn(self._run(life), name="bookie")
            self._main.add_done_callback(self._ended, context=self.world.loop.root.context)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A bookie serves until its process ends; whatever else stops it is a failure."""
        error = task.exception()
        if error is not None:
            failure = Violation("a bookie serves until its process ends", f"{self.name}: {error!r}")
            failure.__cause__ = error
            self.world.loop.fail(failure)

    def stop(self) -> None:
        """End the process in order, as `serve` does when it is cancelled; it is started again."""
        if self.life is not None and self._main is not None and self.ready.is_set():
            self.ready.clear()
            self.settled.clear()
            self._main.cancel()

    def crash(self) -> None:
        """Kill −9: the page cache stays."""
        self._die()
        self.disk.kill()

    def power_cut(self) -> None:
        """The machine goes dark: what was not synced is kept, lost or garbled."""
        self._die()
        self.disk.power_cut()

    def start_second(self, rng: random.Random) -> bool:
        """Start another process for its disk; False when no process has it open."""
        if self.disk.mounts:
            second_process.start(self, CLUSTER, STORAGE, rng)
        return bool(self.disk.mounts)

    def retire(self) -> None:
        """The machine is taken away, and its disk with it."""
        self.crash()
        self.is_retired = True
        self.settled.set()

    def _die(self) -> None:
        self.end_life()
        while self.others:
            self.world.loop.kill(self.others.pop())
        self.host.bookie = None
        self.node = None
        self.ready.clear()
        self.settled.clear()

    async def _run(self, life: Incarnation) -> None:
        rng = self.world.rng(f"node:{life}")
        try:
            node = await self._open(life, rng)
        except OSError as error:
            if error.errno == errno.ENOSPC and self.has_reserve and not self.is_damaged:
                self.world.loop.fail(Violation("B14 a bookie starts on a full disk", self.name))
            self._fatal(life, error)
            return
        except IntegrityError as error:
            self.world.refused_to_start(self, error)
            return
        serving = Serving(self, life, node, CLUSTER, rng)
        self._served.append(serving)
        await serving.begin()
        self.node, self.host.bookie = node, serving.bookie
        self.has_reserve = True
        self.world.on_start(self)
        self.ready.set()
        self.settled.set()
        try:
            await serving.keep()
        except StoreWentBackError as error:
            self.world.store_went_back(self, error)
            self.world.network.later(0.0, self._give_up, life)
        except asyncio.CancelledError:
            await serving.end_in_order()
            self.world.network.later(0.0, self._ended_in_order, life)

    def _ended_in_order(self, life: Incarnation) -> None:
        if self.life is life:
            self.world.network.counters["bookie ended in order"] += 1
            self.crash()
            self.world.network.later(RESTART_SECONDS, self.boot)

    async def _open(self, life: Incarnation, rng: random.Random) -> BookieNode:
        mount = self.disk.mount()
        await format_bookie(mount, self.name, CLUSTER)
        self._leave_cookie()
        if self.must_repair:
            self.has_reserve = False
            await operator.repair(self, life, mount, STORAGE)
            self.must_repair, self.was_repaired = False, True
        return await BookieNode.open(
            mount,
            self.name,
            CLUSTER,
            rng=rng,
            on_fatal=lambda error: self._fatal(life, error),
            options=STORAGE,
            observer=self.world.conformance.observer(self.name),
        )

    def _leave_cookie(self) -> None:
        """Let the store know that there is such a bookie, as a format does."""
        path = layout.cookie_path(self.name)
        if self.world.tree.version(path) is None:
            self.world.tree.create(path, b"")

    def _fatal(self, life: Incarnation, error: BaseException) -> None:
        """The node cannot go on: the process ends at once, and a supervisor starts another."""
        found_damage = self.is_damaged and isinstance(error, IntegrityError)
        if not (found_damage or isinstance(error, OSError)):
            self.world.loop.fail(error)
        self.world.network.counters["bookie gave up"] += 1
        if self.life is life:
            self.world.network.later(0.0, self._give_up, life)

    def _give_up(self, life: Incarnation) -> None:
        if self.life is life:
            self.crash()
            self.world.network.later(RESTART_SECONDS, self.boot)
