"""Logs over a cluster in memory: leaders and readers, each a client with its own line to the store.

Time is virtual (quire/testing/sim/loop.py), so a test that waits for a timeout takes none.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from typing import Any, Final

from quire.client import Client as WholeClient
from quire.errors import StoreOutcomeUnknownError, StoreUnavailableError
from quire.leaving import OpenHandles
from quire.ledger.catalog import LedgerCatalog
from quire.ledger.options import LedgerOptions
from quire.ledger.stored_records import StoredRecords
from quire.log.directory import LogDirectory
from quire.log.leader.log import Log
from quire.log.manifest.manifest import LogManifest
from quire.log.manifest.options import LogOptions
from quire.log.records.position import BEGINNING, Position, Record
from quire.metastore.layout import log_path
from quire.service.snapshots import Snapshots
from quire.steady import SteadyClock
from tests.support.async_tests import run_virtually
from tests.support.faulty_store import FaultyStore, Hook
from tests.support.memory_cluster import LocalBookie, MemoryCluster

NAME: Final = "a/log"
PATH: Final = log_path(NAME)
LEDGER_OPTIONS: Final = LedgerOptions(request_timeout=1.0, append_timeout=3.0)


run: Final = run_virtually


class Client:
    """One process's view: a store that can fail, a catalog, a directory."""

    def __init__(self, cluster: LogCluster, seed: int) -> None:
        self.store = FaultyStore(cluster.store)
        rng = random.Random(seed)
        records = StoredRecords(self.store, rng)
        self.catalog = LedgerCatalog(
            records, cluster.roster, rng=rng, clock=cluster.clock, options=cluster.options
        )
        self.logs = LogDirectory(
            self.store,
            self.catalog,
            rng=rng,
            clock=cluster.clock,
            steady=cluster.steady,
            attachments=lambda name: [Snapshots(self.store, self.catalog, name, LogOptions())],
        )

    async def open(self, **options: Any) -> Log:
        options.setdefault("open_timeout", 20.0)
        return await self.logs.open(NAME, LogOptions(**options))

    async def read(self, start: Position | int = BEGINNING, **options: Any) -> list[Record]:
        """Everything there is to read now."""
        async with await self.logs.read(NAME, start, **options) as reader:
            return [record async for record in reader]

    async def payloads(self, start: Position | int = BEGINNING) -> list[bytes]:
        return [record.payload for record in await self.read(start)]

    async def manifest(self) -> LogManifest:
        return await self.logs.describe(NAME)


class LogCluster(MemoryCluster):
    """A memory cluster with clients; `now` is the wall clock, in seconds."""

    def __init__(self, size: int = 3, kind: type[LocalBookie] = LocalBookie) -> None:
        super().__init__(size, options=LEDGER_OPTIONS, kind=kind)
        self.now = 1000.0
        self._clients = 0
        self.steady = SteadyClock("machine", lambda: asyncio.get_running_loop().time())
        """Of the machine that all clients run on."""

    def clock(self) -> float:
        return self.now

    async def pass_time(self, seconds: float) -> None:
        """Let whole seconds go by, on the wall clock as well."""
        for _ in range(int(seconds)):
            await asyncio.sleep(1)
            self.now += 1

    def new_client(self) -> Client:
        self._clients += 1
        return Client(self, self._clients)

    async def ledgers(self) -> list[int]:
        return await self.catalog.list()

    async def check(self) -> LogManifest:
        """C1 and C4 at rest: every ledger is listed, or holds nothing that was confirmed."""
        manifest = await self.new_client().manifest()
        assert manifest.check() == ()
        for ledger in await self.ledgers():
            if not manifest.lists(ledger) and ledger not in manifest.doomed:
                assert not any(self.holders(ledger, entry) for entry in range(3)), ledger
        return manifest

    async def check_all_listed(self) -> LogManifest:
        """`check`, and no ledger is there but those of the log's segments."""
        manifest = await self.check()
        assert await self.ledgers() == [each.ledger for each in manifest.segments]
        return manifest


def whole_client(cluster: LogCluster) -> WholeClient:
    """A client as applications have one."""
    part = cluster.new_client()
    rng = random.Random(1)
    parts = (part.store, cluster.roster, part.catalog, part.logs, rng, LEDGER_OPTIONS)
    return WholeClient(*parts, OpenHandles())


async def eventually(condition: Callable[[], bool]) -> None:
    """Return once a condition without an event of its own holds; `run` has the deadline."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


def numbered(first: int, count: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


async def append_all(log: Log, records: Iterable[bytes]) -> list[Position]:
    """Append records at once and return their positions."""
    futures = [await log.submit(record) for record in records]
    return [(await future).position for future in futures]


async def three_segments(cluster: LogCluster) -> list[Position]:
    """Twelve records, two in an entry, six in a segment; the last segment stays empty and open."""
    log = await cluster.new_client().open()
    positions: list[Position] = []
    for start in (0, 6):
        for number in range(start, start + 6, 2):
            positions += [each.position for each in await log.append_many(numbered(number, 2))]
        await log.roll()
    log.abandon()
    return positions


def refuse(*methods: str, path: str = "") -> Hook:
    """A hook of `FaultyStore` under which calls (on paths that start so) are refused."""

    async def before(method: str, called: str) -> None:
        if (not methods or method in methods) and called.startswith(path):
            raise StoreUnavailableError("faulty:", "refused by order of the test")

    return before


def lose_answer(*methods: str, path: str = "", times: int = 1) -> Hook:
    """A hook for `after` that loses the answers of some successful calls."""
    left = [times]

    async def after(method: str, called: str) -> None:
        if left[0] and method in methods and called.startswith(path):
            left[0] -= 1
            raise StoreOutcomeUnknownError(called, "answer lost by order of the test")

    return after


class Gate:
    """A hook that holds calls until it is opened; `reached` tells that one came."""

    def __init__(self, method: str, path: str) -> None:
        self.method, self.path = method, path
        self.reached = asyncio.Event()
        self.open = asyncio.Event()

    async def __call__(self, method: str, called: str) -> None:
        if method == self.method and called.startswith(self.path):
            self.reached.set()
            await self.open.wait()
