"""The world of a transcript: bookies, clients, one ledger, and the bookkeeping of commands.

Bookies are production's storage nodes on simulated disks, behind lines that the script controls.
Clients appear when they are first named; each has its own line to the store, its own roster and
catalog. One ledger is in play at a time. A command starts something, then the loop runs until
nothing more happens by itself (a millisecond of virtual time); whatever ended is the output.

Draws are in order, not random: an ensemble is the first bookies, a replacement the first spare.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Any, Final, Self

from quire.entry import DigestKind, Sealer
from quire.errors import QuireError
from quire.ledger.catalog import LedgerCatalog
from quire.ledger.metadata import LedgerMetadata
from quire.ledger.options import LedgerOptions
from quire.ledger.quorum import Replication
from quire.ledger.reader import LedgerReader
from quire.ledger.roster import BookieRoster
from quire.ledger.stored_records import StoredRecords
from quire.ledger.writer import LedgerWriter
from quire.metastore.layout import ledger_path
from quire.metastore.memory import MemoryStore, MemoryTree
from quire.storage.journal.options import StorageOptions
from quire.storage.node import BookieNode
from tests.scenarios.links import Line, Lines
from tests.sim.disk import Cut, SimDisk
from tests.support.faulty_store import FaultyStore
from tests.support.stretching import as_it_is

CLUSTER: Final = "c" * 32
SETTLE_SECONDS: Final = 0.001
PASSWORD: Final = b"secret"
OPTIONS: Final = LedgerOptions(request_timeout=5.0, append_timeout=60.0, lac_idle=0.010)
STORAGE: Final = StorageOptions(
    segment_bytes=64 * 1024, write_cache_bytes=32 * 1024, memory_bytes_max=96 * 1024
)

Command = Callable[..., Awaitable[None]]
COMMANDS: list[tuple[re.Pattern[str], Command]] = []


def command(pattern: str) -> Callable[[Command], Command]:
    """Make a method the meaning of the commands that match a pattern."""

    def register(method: Command) -> Command:
        COMMANDS.append((re.compile(pattern), method))
        return method

    return register


class InOrder(random.Random):
    """Draws the first ones: where numbers are drawn for an order, each is below the one before."""

    drawn = 0

    def random(self) -> float:
        self.drawn += 1
        return 1 / (1 + self.drawn)

    def sample(self, population: Any, k: int, *, counts: Any = None) -> list[Any]:
        return list(population)[:k]


class Client:
    """A process that uses the cluster."""

    def __init__(self, stage: StageBase, name: str) -> None:
        self.name = name
        self.store = FaultyStore(MemoryStore(stage.tree))
        self.gate: asyncio.Event | None = None
        self.roster = BookieRoster(
            self.store, lambda address: Line(stage.lines, name, address.bookie)
        )
        self.options = OPTIONS
        self.catalog: LedgerCatalog
        self.use(OPTIONS)
        self.writer: LedgerWriter | None = None
        self.reader: LedgerReader | None = None

    def use(self, options: LedgerOptions) -> None:
        self.options = options
        rng = InOrder(0)
        records = StoredRecords(self.store, rng)
        self.catalog = LedgerCatalog(
            *(records, self.roster),
            rng=rng,
            clock=lambda: 1.5,
            options=options,
            stretching=as_it_is,
        )

    async def close(self) -> None:
        if self.writer is not None:
            self.writer.abandon()
            await self.writer.close()
        if self.reader is not None:
            await self.reader.close()
        await self.roster.close()
        await self.store.close()


class StageBase:
    """The world and its bookkeeping; commands are added to it."""

    def __init__(self) -> None:
        self.tree = MemoryTree()
        self.store = MemoryStore(self.tree)
        self.lines = Lines()
        self.disks: dict[str, SimDisk] = {}
        self.nodes: dict[str, BookieNode] = {}
        self.clients: dict[str, Client] = {}
        self.replication = Replication()
        self.digest = DigestKind.CRC32C
        self.ledger = 0
        self._said: list[str] = []
        self._works: dict[asyncio.Task[None], str] = {}

    async def __aenter__(self) -> Self:
        self.session = await self.store.open_session(3600.0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for work in list(self._works):
            work.cancel()
        await asyncio.gather(*self._works, return_exceptions=True)
        for name in sorted(self.clients):
            await self.clients[name].close()
        for name in sorted(self.nodes):
            await self.nodes[name].abort()
        await self.store.close()

    async def play(self, line: str) -> list[str]:
        """Carry out one command and return what happened."""
        for pattern, method in COMMANDS:
            match = pattern.fullmatch(line)
            if match is not None:
                before = dict(self._works)
                try:
                    await method(self, **match.groupdict())
                except QuireError as error:
                    self.say(describe(error))
                await asyncio.sleep(SETTLE_SECONDS)
                waiting = [what for work, what in self._works.items() if work not in before]
                said, self._said = self._said, []
                return said + [f"… {what}" for what in waiting]
        raise AssertionError(f"no such command: {line}")

    def say(self, line: str) -> None:
        self._said.append(line)

    def work(self, what: str, call: Coroutine[Any, Any, str | None]) -> None:
        """Start something that a client waits for; its end is told when it comes."""

        async def run() -> None:
            try:
                result = await call
            except QuireError as error:
                result = f"{what}: {describe(error)}"
            if result:
                self.say(result)

        task = asyncio.get_running_loop().create_task(run())
        self._works[task] = what
        task.add_done_callback(lambda done: self._works.pop(done, None))

    async def client(self, name: str) -> Client:
        if name not in self.clients:
            self.clients[name] = Client(self, name)
            await self.clients[name].roster.start()
        return self.clients[name]

    async def writer(self, name: str) -> LedgerWriter:
        writer = (await self.client(name)).writer
        assert writer is not None, f"{name} has created no ledger"
        return writer

    async def reader(self, name: str) -> LedgerReader:
        reader = (await self.client(name)).reader
        assert reader is not None, f"{name} has opened no ledger"
        return reader

    @property
    def sealer(self) -> Sealer:
        return Sealer(self.ledger, self.digest, PASSWORD)

    async def metadata(self) -> LedgerMetadata:
        record = await self.store.get(ledger_path(self.ledger))
        return LedgerMetadata.decode(ledger_path(self.ledger), record.value)

    async def edit(self, change: Callable[[LedgerMetadata], LedgerMetadata]) -> None:
        path = ledger_path(self.ledger)
        record = await self.store.get(path)
        changed = change(LedgerMetadata.decode(path, record.value))
        await self.store.put(path, changed.encode(), record.version)

    async def boot(self, bookie: str) -> None:
        """Start a bookie's process on its disk."""
        mount = self.disks[bookie].mount()

        def die(error: BaseException) -> None:
            self.lines.processes.pop(bookie, None)
            self.say(f"{bookie} dies")

        try:
            node = await BookieNode.open(
                mount, bookie, CLUSTER, rng=random.Random(0), on_fatal=die, options=STORAGE
            )
        except QuireError:
            await mount.close()
            raise
        self.nodes[bookie] = self.lines.processes[bookie] = node
        self.lines.changed()

    async def halt(self, bookie: str, cut: Cut | None) -> None:
        """End a bookie's process; with a cut, its machine."""
        self.lines.processes.pop(bookie, None)
        disk = self.disks[bookie]
        if cut is None:
            disk.kill()
        else:
            disk.power_cut(cut)
        node = self.nodes.pop(bookie, None)
        if node is not None:
            await node.abort()
        self.lines.changed()


def describe(error: BaseException) -> str:
    """Return an error as transcripts show it: which one. Its words may change at any time."""
    return type(error).__name__


def shape(metadata: LedgerMetadata) -> str:
    """Return a ledger's state, end and fragments."""
    end = ""
    if metadata.is_closed:
        end = f" at {metadata.last_entry}, {metadata.length} bytes"
    fragments = ", ".join(
        f"{each.first} on {' '.join(each.bookies)}" for each in metadata.fragments
    )
    return f"{metadata.state}{end}: {fragments}"
