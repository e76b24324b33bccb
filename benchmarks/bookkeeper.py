"""quire's client beside Apache's own Java client, on bookies of Apache BookKeeper, in turn.

    python -m benchmarks.bookkeeper [--rounds 5] [--seconds 3] [--protocol v3]

Four bookies, ledgers 3/3/2 with CRC32C, entries of 1 KiB, synced journals; the Java client without
its throttle. The clients take turns, because other work on the machine slows both down: the ratio
is the median of the rounds' ratios. Both, and the bookies, are warmed up first.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, NamedTuple

import quire
from quire.bench.appends import ENTRY_BYTES, Workload, measure_appends
from quire.ledger.options import LedgerOptions
from tests.interop.jars import NEWEST, install
from tests.interop.runs import all_writable
from tests.interop.servers import ApacheServers, JavaClient

SOURCE: Final = Path(__file__).with_name("BookKeeperBench.java")
WARM_UP_SECONDS: Final = 8.0
REQUEST_SECONDS: Final = 30
FLIGHTS: Final = (64, 1_000)


class Took(NamedTuple):
    """Entries a second, and microseconds of processors an entry."""

    rate: float
    work: float


class Java:
    """Apache's client."""

    def __init__(self, client: JavaClient) -> None:
        self._client = client

    async def _ask(self, *words: object) -> list[float]:
        answer = await asyncio.to_thread(self._client.ask, *words)
        return [float(each) for each in answer.split()]

    async def append(self, flight: int, seconds: float) -> tuple[Took, int]:
        """Append to a new ledger; what it took, and the ledger."""
        words = ("append", ENTRY_BYTES, flight, round(seconds * 1000), 1)
        count, nanos, work, ledger, _, _ = await self._ask(*words)
        return Took(1e9 * count / nanos, work / count / 1e3), int(ledger)

    async def read(self, ledger: int) -> Took:
        """Read a ledger from its first entry to its last."""
        count, nanos, work = await self._ask("read", ledger)
        return Took(1e9 * count / nanos, work / count / 1e3)


class Own:
    """quire's client."""

    def __init__(self, client: quire.Client) -> None:
        self._client = client

    async def append(self, flight: int, seconds: float) -> tuple[Took, int]:
        """Append to a new ledger; what it took, and the ledger."""
        writer = await self._client.create_ledger()
        workload = Workload(flight)
        found = await measure_appends([writer], workload, seconds, bytes(ENTRY_BYTES))
        await writer.close()
        return Took(found.per_second, found.cpu_us), writer.ledger

    async def read(self, ledger: int) -> Took:
        """Read a ledger from its first entry to its last."""
        reader = await self._client.open_ledger(ledger)
        begun, work, count = time.perf_counter(), time.process_time(), 0
        async for _ in reader.read(0, None):
            count += 1
        took, work = time.perf_counter() - begun, time.process_time() - work
        return Took(count / took, 1e6 * work / count)


async def measure(servers: ApacheServers, protocol: str, rounds: int, seconds: float) -> None:
    options = LedgerOptions(request_timeout=REQUEST_SECONDS)
    async with quire.connect(servers.writable_uri, options=options, timeout=30) as client:
        await all_writable(servers, client)
        started = JavaClient(servers, protocol, REQUEST_SECONDS, SOURCE)
        try:
            await compare(Java(started), Own(client), rounds, seconds)
        finally:
            await asyncio.to_thread(started.close)


async def compare(java: Java, own: Own, rounds: int, seconds: float) -> None:
    for each in (java, own):
        _, ledger = await each.append(1_000, WARM_UP_SECONDS)
        await each.read(ledger)
    found: dict[str, list[tuple[Took, Took]]] = {}
    for _ in range(rounds):
        for flight in FLIGHTS:
            javas, ledger = await java.append(flight, seconds)
            ours, _ = await own.append(flight, seconds)
            found.setdefault(f"append, {flight:,} in flight", []).append((ours, javas))
        both: list[Callable[[int], Awaitable[Took]]] = [own.read, java.read]
        ours, javas = [await read(ledger) for read in both]
        found.setdefault("read in order", []).append((ours, javas))
    print("| | quire, entries/s | Java, entries/s | ratio | quire, CPU µs | Java, CPU µs |")
    print("|---|---|---|---|---|---|")
    for name, pairs in found.items():
        rates = [statistics.median(each[which].rate for each in pairs) for which in range(2)]
        works = [statistics.median(each[which].work for each in pairs) for which in range(2)]
        ratio = statistics.median(ours.rate / javas.rate for ours, javas in pairs)
        print(
            f"| {name} | {rates[0]:,.0f} | {rates[1]:,.0f} | {ratio:.2f} "
            f"| {works[0]:.1f} | {works[1]:.1f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--protocol", choices=("v2", "v3"), default="v3", help="of Java's client")
    given = parser.parse_args()
    jars = install(NEWEST)
    with tempfile.TemporaryDirectory(prefix="quire-bookkeeper-") as directory:
        place = Path(directory) / "cluster"
        with ApacheServers(place, jars, "db", thorough=True) as servers:
            asyncio.run(measure(servers, given.protocol, given.rounds, given.seconds))
    print(f"\nload {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors")


if __name__ == "__main__":
    main()
