"""quire's client beside Apache's own Java client, on bookies of Apache BookKeeper, in turn.

    python -m benchmarks.bookkeeper [--rounds 7] [--seconds 3] [--json FILE]

Four bookies, ledgers 3/3/2 with CRC32C, entries of 1 KiB, synced journals; the Java client without
its throttle. The clients take turns, because other work on the machine slows both down: each ratio
is the median of the rounds' ratios. All clients, and the bookies, are warmed up first.

Appends are by the third protocol on both sides. quire reads by batches of the second protocol. Java
reads entry by entry, by both protocols, and is compared in each. The goal is as many entries a
second as Java's client.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import quire
from quire.bench.appends import ENTRY_BYTES, Workload, measure_appends
from quire.ledger.options import LedgerOptions
from tests.interop.jars import NEWEST, install
from tests.interop.runs import all_writable
from tests.interop.servers import ApacheServers, JavaClient

SOURCE: Final = Path(__file__).parent / "java" / "BookKeeperBench.java"
WARM_UP_SECONDS: Final = 8.0
REQUEST_SECONDS: Final = 30
FLIGHTS: Final = (64, 1_000)
PROTOCOLS: Final = ("v3", "v2")
GOAL: Final = 1.0


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
        count, nanos, work, _, _, ledger = await self._ask(*words)
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


class Pair(NamedTuple):
    """Both clients in one round."""

    ours: Took
    javas: Took


@dataclass
class Row:
    """One workload, and its rounds."""

    name: str
    pairs: list[Pair]

    def ratio(self) -> float:
        """Return the median of quire's rate by Java's."""
        return statistics.median(ours.rate / javas.rate for ours, javas in self.pairs)

    def work_ratio(self) -> float:
        """Return the median of quire's processor time an entry by Java's."""
        return statistics.median(ours.work / javas.work for ours, javas in self.pairs)

    def medians(self) -> tuple[Took, Took]:
        """Return the medians of quire's figures and of Java's."""
        found = [
            Took(
                statistics.median(each[which].rate for each in self.pairs),
                statistics.median(each[which].work for each in self.pairs),
            )
            for which in range(2)
        ]
        return found[0], found[1]

    def line(self) -> str:
        """Return its line of the table."""
        ours, javas = self.medians()
        mark = "" if self.ratio() >= GOAL else " (below the goal)"
        return (
            f"| {self.name} | {ours.rate:,.0f} | {javas.rate:,.0f} | {self.ratio():.2f}{mark} "
            f"| {ours.work:.1f} | {javas.work:.1f} | {self.work_ratio():.2f} |"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return its part of the JSON."""
        ours, javas = self.medians()
        return {
            "name": self.name,
            "ratio": self.ratio(),
            "work_ratio": self.work_ratio(),
            "quire": ours._asdict(),
            "java": javas._asdict(),
            "rounds": [{"quire": o._asdict(), "java": j._asdict()} for o, j in self.pairs],
        }


@asynccontextmanager
async def clients(servers: ApacheServers) -> AsyncIterator[tuple[Own, dict[str, Java]]]:
    """quire's client, and a process of Java's for each protocol."""
    options = LedgerOptions(request_timeout=REQUEST_SECONDS)
    started: dict[str, JavaClient] = {}
    async with quire.connect(servers.writable_uri, options=options, timeout=30) as client:
        await all_writable(servers, client)
        try:
            for protocol in PROTOCOLS:
                started[protocol] = await asyncio.to_thread(
                    JavaClient, servers, protocol, REQUEST_SECONDS, SOURCE
                )
            yield Own(client), {name: Java(each) for name, each in started.items()}
        finally:
            for each in started.values():
                await asyncio.to_thread(each.close)


async def compare(
    own: Own, javas: dict[str, Java], rounds: int, seconds: float, warm_up: float
) -> list[Row]:
    """Let the clients take turns. They read the same ledger, which another client wrote."""
    third = javas["v3"]
    everyone: list[Own | Java] = [own, *javas.values()]
    for each in everyone:
        _, ledger = await each.append(1_000, warm_up)
        await each.read(ledger)
    appends = {flight: Row(f"append, {flight:,} in flight", []) for flight in FLIGHTS}
    reads = {name: Row(f"read in order, Java by {name}", []) for name in javas}
    for number in range(rounds):
        for flight, row in appends.items():
            # Each goes first in every other round: the bookies are not the same afterwards.
            if number % 2:
                ours, ledger = await own.append(flight, seconds)
                theirs, _ = await third.append(flight, seconds)
            else:
                theirs, ledger = await third.append(flight, seconds)
                ours, _ = await own.append(flight, seconds)
            row.pairs.append(Pair(ours, theirs))
        ours = await own.read(ledger)
        for name, java in javas.items():
            reads[name].pairs.append(Pair(ours, await java.read(ledger)))
        print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
    return [*appends.values(), *reads.values()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each append")
    parser.add_argument("--warm-up", type=float, default=WARM_UP_SECONDS, help="of each client")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    given = parser.parse_args()
    jars = install(NEWEST)

    async def measured(servers: ApacheServers) -> list[Row]:
        async with clients(servers) as (own, javas):
            return await compare(own, javas, given.rounds, given.seconds, given.warm_up)

    with tempfile.TemporaryDirectory(prefix="quire-bookkeeper-") as directory:
        place = Path(directory) / "cluster"
        with ApacheServers(place, jars, "db", thorough=True) as servers:
            rows = asyncio.run(measured(servers))
    load, processors = os.getloadavg()[0], os.cpu_count()
    print("| | quire, entries/s | Java, entries/s | ratio | quire, CPU µs | Java, CPU µs | ratio |")
    print("|---|---|---|---|---|---|---|")
    for row in rows:
        print(row.line())
    print(f"\nload {load:.1f}, {processors} processors")
    if given.json is not None:
        found = {
            "version": NEWEST,
            "load": load,
            "processors": processors,
            "rows": [row.as_dict() for row in rows],
        }
        given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
