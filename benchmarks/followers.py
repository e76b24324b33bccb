"""Followers of one log, of one client and of a client each, in turn.

    python -m benchmarks.followers [--followers 100] [--seconds 10] [--pause 5] [--rounds 3]

Followers of one client share a tail: bookies are asked once for all of them. Followers with a
client each are asked for one by one. Both are in the writer's process, which appends a record of
1 KiB, pauses, and appends the next. A delay is the time from the acknowledgement of a record until
a follower has it; followers that lag by the end of a round are waited for. The processor time is
that of the process, appends included, divided by the deliveries.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import quire
from quire.cluster import LocalCluster
from quire.errors import QuireError

RECORD: Final = bytes(1024)
LAG_SECONDS_MAX: Final = 60.0


class Round(NamedTuple):
    """What one round measured."""

    appends_per_second: float
    p50_ms: float
    p99_ms: float
    cpu_ms: float
    """Of the process, for each delivery."""


class Log:
    """A log under measurement: when its records were acknowledged, and when they came."""

    def __init__(self, count: int) -> None:
        self.acked: list[float] = []
        self.seen: list[list[float]] = [[] for _ in range(count)]

    async def follow(self, reader: quire.LogReader, number: int) -> None:
        """Note when the records come to a follower."""
        seen, clock = self.seen[number], time.perf_counter
        async for _ in reader:
            seen.append(clock())

    async def append(self, log: quire.Log, seconds: float, pause: float) -> float:
        """Append for so many seconds; return how many it were."""
        clock = time.perf_counter
        begun = clock()
        while clock() - begun < seconds:
            await log.append(RECORD)
            self.acked.append(clock())
            await asyncio.sleep(pause)
        return clock() - begun

    async def delivered(self) -> None:
        """Wait until every follower has every record."""
        async with asyncio.timeout(LAG_SECONDS_MAX):
            while min(len(seen) for seen in self.seen) < len(self.acked):  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    def delays(self) -> list[float]:
        """Return all delays in seconds, ascending."""
        return sorted(
            max(0.0, at - acked)
            for seen in self.seen
            for at, acked in zip(seen, self.acked, strict=True)
        )


async def measure(store: str, name: str, given: argparse.Namespace, together: bool) -> Round:
    """Run one round."""
    async with contextlib.AsyncExitStack() as stack:
        writer = await stack.enter_async_context(quire.connect(store))
        log = await writer.open_log(name)
        found = Log(given.followers)
        tasks = []
        for number in range(given.followers):
            client = writer if together else await stack.enter_async_context(quire.connect(store))
            reader = await client.read_log(name, follow=True)
            tasks.append(asyncio.create_task(found.follow(reader, number)))
        await asyncio.sleep(1)  # they have connected
        work = time.process_time()
        took = await found.append(log, given.seconds, given.pause / 1000)
        await found.delivered()
        work = time.process_time() - work
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await log.close()
    delays = found.delays()
    count = len(delays)
    return Round(
        len(found.acked) / took,
        1000 * delays[count // 2],
        1000 * delays[count * 99 // 100],
        1000 * work / count,
    )


def show(name: str, rounds: Sequence[Round]) -> str:
    """Return a line with the medians."""
    found = Round(*(statistics.median(each) for each in zip(*rounds, strict=True)))
    return (
        f"{name}: {found.appends_per_second:.0f} appends/s, delay p50 {found.p50_ms:.1f} ms, "
        f"p99 {found.p99_ms:.0f} ms, {found.cpu_ms:.3f} ms of the processor a delivery"
    )


async def main(given: argparse.Namespace) -> None:
    """Run the rounds, in turn, and print the medians."""
    figures: dict[bool, list[Round]] = {False: [], True: []}
    names = {False: "a client each", True: "one client"}
    with tempfile.TemporaryDirectory() as directory:
        async with LocalCluster(Path(directory), bookies=3) as cluster:
            for number in range(given.rounds):
                for together, rounds in figures.items():
                    rounds.append(
                        await measure(cluster.store_uri, f"{number} {together}", given, together)
                    )
                    print(show(f"round {number + 1}, {names[together]}", rounds[-1:]), flush=True)
    for together, rounds in figures.items():
        print(show(f"{given.followers} followers, {names[together]}", rounds))


def run(about: str, followers: int, work: Callable[[argparse.Namespace], Awaitable[None]]) -> None:
    """Run a benchmark of followers as a command; `followers` is the default of that option."""
    parser = argparse.ArgumentParser(description=about.split("\n")[0])
    parser.add_argument("--followers", type=int, default=followers)
    parser.add_argument("--seconds", type=float, default=10.0, help="length of a round")
    parser.add_argument("--pause", type=float, default=5.0, help="milliseconds after an append")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()

    async def main() -> None:
        await work(given)

    try:
        asyncio.run(main())
    except QuireError as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    run(__doc__, 100, main)
