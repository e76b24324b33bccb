"""Appends beside healing: throughput and latency of one writer before, while and after a bookie is
lost and its ledgers are copied.

    python -m benchmarks.healing_load [--ledgers 1000] [--bytes 65536] [--seconds 10]

Five bookies of this machine. One writer keeps a window of appends under way. The lost
bookie holds `--ledgers` ledgers. A bookie slows down for appends that take longer than
`--slow-append`; `--slow-append 1h` turns that off.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from unittest import mock

import quire
from quire.client import Client
from quire.cluster import LocalCluster
from quire.errors import QuireError
from quire.ledger.writer import LedgerWriter
from quire.ledgers import Replication
from quire.metastore import open_store
from quire.repair.healing import open_healing

BOOKIES: Final = 5
REPLICATION: Final = Replication(3, 3, 2)
WINDOW: Final = 32
PAYLOAD: Final = bytes(1000)
ROLL: Final = 5000
"""Appends of a ledger, as a log rolls its segments."""
ENTRIES: Final = 8
GUARD: Final = """
[bookie.serve.storage]
slow-append-seconds = "{}"
"""


@dataclass
class Load:
    """A writer with a window of appends under way, and how long each took."""

    client: Client
    seconds: list[float] = field(default_factory=list)
    ends: bool = False

    async def run(self) -> None:
        while not self.ends:
            async with await self.client.create_ledger(REPLICATION) as writer:
                left = iter(range(ROLL))

                async def one(writer: LedgerWriter = writer, left: Iterator[int] = left) -> None:
                    while not self.ends and next(left, None) is not None:
                        begun = time.perf_counter()
                        await writer.append(PAYLOAD)
                        self.seconds.append(time.perf_counter() - begun)

                await asyncio.gather(*(one() for _ in range(WINDOW)))

    def told(self, name: str, seconds: float) -> None:
        """Print the figures since the last call."""
        taken, self.seconds = sorted(self.seconds), []
        if not taken:
            print(f"{name:8} {seconds:6.1f} s: no append ended")
            return
        p50, p99 = (1000 * taken[len(taken) * part // 100] for part in (50, 99))
        rate = len(taken) / seconds
        slowest = 1000 * taken[-1]
        print(
            f"{name:8} {seconds:6.1f} s: {rate:7.0f} appends a second, p50 {p50:.1f} ms, "
            f"p99 {p99:.1f} ms, slowest {slowest:.0f} ms",
            flush=True,
        )


async def fill(client: Client, bookie: str, ledgers: int, size: int) -> None:
    """Write closed ledgers until a bookie holds so many of them."""
    payload, held = bytes(size // ENTRIES), 0
    places = asyncio.Semaphore(16)

    async def one() -> bool:
        async with places, await client.create_ledger(REPLICATION) as writer:
            await writer.append_many([payload] * ENTRIES)
        return any(bookie in each.bookies for each in writer.info.fragments)

    while held < ledgers:
        held += sum(await asyncio.gather(*(one() for _ in range(min(100, ledgers - held)))))


async def main(ledgers: int, size: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory(prefix="quire-load-") as directory:
        async with (
            LocalCluster(Path(directory), BOOKIES) as cluster,
            quire.connect(cluster.store_uri) as client,
        ):
            await measure(cluster, client, ledgers, size, seconds)


async def measure(
    cluster: LocalCluster, client: Client, ledgers: int, size: int, seconds: float
) -> None:
    ready = cluster.ready(0)
    assert ready is not None
    await fill(client, ready.bookie, ledgers, size)
    print(f"load {os.getloadavg()[0]:.1f}; {ledgers} ledgers of {size} bytes to copy")
    cluster.kill(0)
    while ready.bookie in [each.bookie for each in client.bookies()]:  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    load = Load(client)
    writing = asyncio.create_task(load.run())
    await asyncio.sleep(2)  # connections, and the first flush
    load.seconds = []
    await asyncio.sleep(seconds)
    load.told("before", seconds)
    store = await open_store(cluster.store_uri)
    begun = time.perf_counter()
    async with open_healing(store) as healing:
        plan = await healing.plan([ready.bookie], finds_holes=False)
        done = await healing.carry_out(plan, patience=300)
    load.told("healing", time.perf_counter() - begun)
    await asyncio.sleep(seconds)
    load.told("after", seconds)
    load.ends = True
    await writing
    halved = [(await client.bookie_info(each.bookie)).counters for each in client.bookies()]
    copied = sum(each["mending_bytes"] for each in halved)
    print(
        f"{done.done} ledgers copied, {copied / 1e6:.0f} MB; the pace was halved "
        f"{sum(each['pace_halved'] for each in halved)} times; load {os.getloadavg()[0]:.1f}"
    )
    await store.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ledgers", type=int, default=1000)
    parser.add_argument("--bytes", type=int, default=65536)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--slow-append", default="0.1s", metavar="DURATION")
    given = parser.parse_args()
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(GUARD.format(given.slow_append))
        file.flush()
        with mock.patch.dict(os.environ, {"QUIRE_CONFIG": file.name, "QUIRE_AUDITOR": "false"}):
            try:
                asyncio.run(main(given.ledgers, given.bytes, given.seconds))
            except QuireError as error:
                raise SystemExit(f"error: {error}") from None
