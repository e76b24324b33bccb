"""What metadata costs: SQLite against one and three ZooKeeper servers, on this machine.

    python -m benchmarks.metadata [--ledgers 100000] [--seconds 3] [sqlite] [zookeeper] [zookeeper3]

Ledgers created and listed a second, time until the next leader is in office, and how many calls of
the metadata store a ledger, a roll and a take-over need. Bookies are real processes; ZooKeeper
syncs its log to disk as it would in production. Bounded: about a minute for all three.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from quire.cluster import LocalCluster
from quire.election.election import Election
from quire.ledger.catalog import LedgerCatalog
from quire.ledger.remote import RemoteBookie
from quire.ledger.roster import BookieRoster
from quire.ledger.stored_records import StoredRecords
from quire.log.directory import LogDirectory
from quire.metastore import create_store
from quire.metastore.store import MetadataStore

STORES: Final = {"sqlite": None, "zookeeper": 1, "zookeeper3": 3}
SESSION_SECONDS: Final = 2.0
CALLS: Final = ("get", "create", "put", "delete", "children")
CONCURRENT: Final = 64
REPEATS: Final = 5


class Counted:
    """A store that counts its calls by name."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name not in CALLS:
            return found

        async def call(*arguments: Any, **named: Any) -> Any:
            self.calls[name] += 1
            return await found(*arguments, **named)

        return call

    async def during(self, work: Awaitable[Any]) -> tuple[Any, str]:
        """Return what some work gave, and the calls it made."""
        before = Counter(self.calls)
        result = await work
        made = self.calls - before
        return result, ", ".join(f"{made[name]} {name}" for name in CALLS if made[name])


@dataclass
class Bench:
    """One store, and what hangs on it."""

    store: Counted
    catalog: LedgerCatalog
    logs: LogDirectory
    seconds: float


@contextlib.asynccontextmanager
async def bench(uri: str, seconds: float) -> AsyncIterator[Bench]:
    opened = await create_store(uri)
    store = Counted(opened)
    port = cast(MetadataStore, store)
    rng = random.Random()
    roster = BookieRoster(port, RemoteBookie)
    await roster.start()
    catalog = LedgerCatalog(StoredRecords(port, rng), roster, rng=rng, clock=time.time)
    try:
        yield Bench(store, catalog, LogDirectory(port, catalog, rng=rng, clock=time.time), seconds)
    finally:
        await roster.close()
        await opened.close()


def row(what: str, figure: str) -> None:
    print(f"  {what:<46}{figure}", flush=True)


async def creates(bench: Bench, workers: int) -> float:
    """Return ledgers created a second by some tasks of one client; nothing is written to them."""
    end = time.perf_counter() + bench.seconds

    async def work() -> int:
        count = 0
        while time.perf_counter() < end:
            (await bench.catalog.create()).abandon()
            count += 1
        return count

    started = time.perf_counter()
    counts = await asyncio.gather(*(work() for _ in range(workers)))
    return sum(counts) / (time.perf_counter() - started)


async def timed(work: Callable[[], Awaitable[Any]]) -> float:
    """Return the median of how long some work takes, in milliseconds."""
    taken = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        await work()
        taken.append(1000 * (time.perf_counter() - started))
    return sorted(taken)[len(taken) // 2]


def election(store: MetadataStore, candidate: str) -> Election:
    rng = random.Random()
    return Election(store, "bench", candidate, rng=rng, session_timeout=SESSION_SECONDS)


async def elections(bench: Bench, uri: str) -> tuple[float, float]:
    """Return how long the next leader waits for its office, in milliseconds: after a leader
    resigned, and after a leader was killed.
    """
    store = cast(MetadataStore, bench.store)

    async def resigned() -> float:
        leading = election(store, "first").lead()
        await leading.__aenter__()
        second = await succeed(store)
        began = time.perf_counter()
        await leading.__aexit__(None, None, None)
        return 1000 * ((await second) - began)

    async def killed() -> float:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "benchmarks.metadata", "--lead", uri),
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        await process.stdout.readline()
        second = await succeed(store)
        process.kill()
        began = time.perf_counter()
        taken = 1000 * ((await second) - began)
        await process.wait()
        return taken

    fast = sorted([await resigned() for _ in range(REPEATS)])[REPEATS // 2]
    slow = sorted([await killed() for _ in range(3)])[1]
    return fast, slow


async def succeed(store: MetadataStore) -> asyncio.Future[float]:
    """Let a candidate queue up; its future gives the time at which it is in office."""

    async def stand() -> float:
        async with election(store, "second").lead():
            return time.perf_counter()

    standing = asyncio.ensure_future(stand())
    while len(await store.children("/quire/elections/bench/candidates")) < 2:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return standing


async def lead(uri: str) -> None:
    """Lead until killed."""
    store = await create_store(uri)
    async with election(store, "killed").lead():
        print("leading", flush=True)
        await asyncio.Event().wait()


async def operations(bench: Bench) -> None:
    """Print how many calls of the store things need."""
    await (await bench.catalog.create()).close()
    writer, made = await bench.store.during(bench.catalog.create())
    row("calls: create a ledger", made + "; ids come in blocks of up to 64")
    await writer.append(b"x")
    row("calls: append", (await bench.store.during(writer.append(b"x")))[1] or "none")
    row("calls: close a ledger", (await bench.store.during(writer.close()))[1])
    row("calls: delete", (await bench.store.during(bench.catalog.delete(writer.ledger)))[1])
    log = await bench.logs.open("bench")
    await log.append(b"x")
    row("calls: roll a log", (await bench.store.during(log.roll()))[1])
    log.abandon()
    again, made = await bench.store.during(bench.logs.open("bench"))
    row("calls: take a log over from a dead leader", made)
    await again.close()

    async def take_over() -> None:
        taken = await bench.logs.open("bench")
        await taken.append(b"x")
        taken.abandon()

    row("take a log over, first append acknowledged", f"{await timed(take_over):.1f} ms")


async def measure(uri: str, seconds: float, ledgers: int) -> None:
    async with bench(uri, seconds) as ready:
        for workers in (1, CONCURRENT):
            rate = await creates(ready, workers)
            row(f"ledgers created, {workers} at a time", f"{rate:,.0f} /s")
        fast, slow = await elections(ready, uri)
        row("next leader in office: the last one resigned", f"{fast:.1f} ms")
        row(f"… was killed (sessions of {SESSION_SECONDS:g} s)", f"{slow:,.0f} ms")
        await operations(ready)
        if uri.startswith("zk://"):
            await plant(uri, ledgers)
        count = len(await ready.catalog.list())
        took = await timed(ready.catalog.list)
        row(f"list of {count:,} ledgers", f"{took:,.0f} ms ({count / took * 1000:,.0f} /s)")


async def plant(uri: str, ledgers: int) -> None:
    """Put many ledgers into ZooKeeper, faster than by creating them one by one."""
    from quire.metastore.zookeeper_uri import parse_uri
    from tests.support.planted_ledgers import plant_ledgers

    target = parse_uri(uri)
    first = 10_000_000
    await asyncio.to_thread(plant_ledgers, target.hosts, target.root, range(first, first + ledgers))


async def main(names: list[str], seconds: float, ledgers: int) -> None:
    for name in names:
        with tempfile.TemporaryDirectory(prefix="quire-bench-") as directory:
            async with LocalCluster(Path(directory), 3, zookeeper=STORES[name]) as cluster:
                print(f"{name}: {cluster.store_uri.partition('://')[0]}", flush=True)
                await measure(cluster.store_uri, seconds, ledgers)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    arguments.add_argument("stores", nargs="*", choices=[[], *STORES], help=" ".join(STORES))
    arguments.add_argument("--ledgers", type=int, default=100_000)
    arguments.add_argument("--seconds", type=float, default=3.0, help="for each rate")
    arguments.add_argument("--lead", metavar="URI", help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.lead:
        asyncio.run(lead(options.lead))
    else:
        asyncio.run(main(options.stores or list(STORES), options.seconds, options.ledgers))
