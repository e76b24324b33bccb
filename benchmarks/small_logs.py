"""A process that leads many small logs, each written now and then.

    python -m benchmarks.small_logs [--logs 100,1000,10000] [--rest 1] [--appends 1000] [--rounds 3]

Three bookies of this machine and SQLite. Each number of logs has a cluster and a process of its
own. All logs are opened, a record is appended to each, and they rest. Then records are appended to
logs drawn at random, one at a time, each log once before all rest again. A figure of memory is the
growth of the process after the first hundred logs, divided by the others. The processor time of an
append is that of the client, with the waking and the next rest; the time that the process takes at
rest is subtracted. Rounds take turns over the numbers of logs.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import quire
from quire.aio.loops import run_async
from quire.cluster import LocalCluster
from quire.errors import QuireError

RECORD: Final = bytes(100)
AT_ONCE: Final = 32
"""Logs that are opened at a time."""

FIRST: Final = 100
"""Logs that are opened before memory is measured."""

SAID_EACH: Final = 1000


class Figures(NamedTuple):
    """What one process measured."""

    logs: int
    opened_per_second: float
    kib: float
    """Of memory, for each log at rest."""
    bookie_kib: float
    """The same, of each of three bookies."""
    idle_cores: float
    """Processors that the process takes while all logs rest."""
    append_us: float
    """Of the client's processor for an append to a log at rest."""
    p50_ms: float


def resident(process: int | str = "self") -> int:
    """Return the bytes of memory that a process has now."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * resource.getpagesize()


async def open_logs(
    client: quire.Client, numbers: Sequence[int], options: quire.LogOptions
) -> list[quire.Log]:
    """Open logs, some at a time, and append a record to each."""
    places = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> quire.Log:
        async with places:
            log = await client.open_log(f"log-{number:06}", options)
            await log.append(RECORD)
            if number and number % SAID_EACH == 0:
                print(f"  {number:,} logs", file=sys.stderr, flush=True)
            return log

    found: list[quire.Log] = []
    for first in range(0, len(numbers), SAID_EACH):
        found += await asyncio.gather(*map(one, numbers[first : first + SAID_EACH]))
    return found


async def measure(given: argparse.Namespace, count: int) -> Figures:
    """Measure with so many logs, in this process."""
    options = quire.LogOptions(rest_seconds=given.rest)
    rest = 2.5 * given.rest
    rng = random.Random(1)
    with tempfile.TemporaryDirectory() as directory:
        async with LocalCluster(Path(directory), bookies=3) as cluster:
            bookies = [cluster.pid(index) for index in range(3)]
            async with quire.connect(cluster.store_uri) as client:
                logs = await open_logs(client, range(min(FIRST, count)), options)
                await asyncio.sleep(rest)
                gc.collect()
                before, served = resident(), sum(map(resident, bookies))
                begun, others = time.perf_counter(), range(len(logs), count)
                logs += await open_logs(client, others, options)
                took = time.perf_counter() - begun
                await asyncio.sleep(rest)
                gc.collect()
                more = max(1, len(others))
                kib = (resident() - before) / more / 1024
                bookie_kib = (sum(map(resident, bookies)) - served) / 3 / more / 1024
                gc.freeze()
                work = time.process_time()
                await asyncio.sleep(given.idle)
                idle = (time.process_time() - work) / given.idle
                delays: list[float] = []
                begun, work = time.perf_counter(), time.process_time()
                while len(delays) < given.appends:
                    for log in rng.sample(logs, min(count, given.appends - len(delays))):
                        at = time.perf_counter()
                        await log.append(RECORD)
                        delays.append(time.perf_counter() - at)
                    await asyncio.sleep(rest)
                passed = time.perf_counter() - begun
                work = time.process_time() - work - idle * passed
                for log in logs:
                    log.abandon()
    return Figures(
        count,
        len(others) / took,
        kib,
        bookie_kib,
        idle,
        1e6 * work / given.appends,
        1000 * statistics.median(delays),
    )


def measure_apart(given: argparse.Namespace, count: int) -> Figures:
    """Measure with so many logs, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.small_logs", "--logs", str(count), "--only"]
    for name in ("rest", "appends", "idle"):
        command += [f"--{name}", str(getattr(given, name))]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return Figures(*json.loads(done.stdout))


def show(rounds: Sequence[Figures]) -> str:
    """Return a row of the table: medians, and the least and the most of an append."""
    found = Figures(*(statistics.median(each) for each in zip(*rounds, strict=True)))
    appends = [each.append_us for each in rounds]
    return (
        f"| {found.logs:,} | {found.opened_per_second:.0f} | {found.kib:.1f} | "
        f"{found.bookie_kib:.1f} | {found.idle_cores:.3f} | {found.append_us:.0f} "
        f"[{min(appends):.0f}, {max(appends):.0f}] | {found.p50_ms:.2f} |"
    )


def main(arguments: list[str] | None = None) -> None:
    """Measure each number of logs in turn, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--logs", default="100,1000,10000", help="numbers of logs")
    parser.add_argument("--rest", type=float, default=1.0, help="seconds until a log rests")
    parser.add_argument("--appends", type=int, default=1000, help="appends of a round")
    parser.add_argument("--idle", type=float, default=10.0, help="seconds of rest to measure")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", action="store_true", help=argparse.SUPPRESS)
    given: Any = parser.parse_args(arguments)
    counts = [int(each) for each in given.logs.split(",")]
    try:
        if given.only:
            json.dump(run_async(measure(given, counts[0])), sys.stdout)
            sys.stdout.flush()
            os._exit(0)  # a hundred thousand handles would be taken apart one by one
        rounds: dict[int, list[Figures]] = {count: [] for count in counts}
        for number in range(given.rounds):
            for count in counts:
                print(f"round {number + 1}: {count:,} logs", file=sys.stderr, flush=True)
                rounds[count].append(measure_apart(given, count))
    except QuireError as error:
        raise SystemExit(f"error: {error}") from None
    print("| logs | opened/s | KiB a log | KiB a log of a bookie | processors at rest |", end="")
    print(" µs of the processor an append [least, most] | p50 ms |")
    print("|---" * 7 + "|")
    for each in rounds.values():
        print(show(each))


if __name__ == "__main__":
    main()
