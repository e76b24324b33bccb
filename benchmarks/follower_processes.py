"""Followers of one log, each in a process of its own.

    python -m benchmarks.follower_processes [--followers 20] [--seconds 10] [--pause 5] [--rounds 3]

The writer's process appends a record of 1 KiB, pauses, and appends the next. A delay is the time
from the acknowledgement of a record until a follower's process has it; all processes read the
machine's monotonic clock. The processor time of the followers' processes is divided by the
deliveries: no append is in it.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, NamedTuple

import quire
from benchmarks.followers import LAG_SECONDS_MAX, Log, Round, run, show
from quire.cluster import LocalCluster

START_SECONDS_MAX: Final = 120.0


class Found(NamedTuple):
    """The report of a follower's process at the end of a round."""

    seen: list[float]
    """When each record came, in seconds of the machine's monotonic clock."""
    cpu_seconds: float


async def _follow(store: str, name: str, pipe: Connection) -> None:
    """Say that the log is followed, read as many records as the writer asks for, and tell."""
    async with quire.connect(store) as client:
        reader = await client.read_log(name, follow=True)
        seen: list[float] = []

        async def read() -> None:
            async for _ in reader:
                seen.append(time.monotonic())  # noqa: PERF401 - looked at while they come

        task = asyncio.create_task(read())
        await asyncio.sleep(1)  # connected
        work = time.process_time()
        pipe.send(None)
        count: int = await asyncio.to_thread(pipe.recv)
        async with asyncio.timeout(LAG_SECONDS_MAX):
            while len(seen) < count:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        pipe.send(Found(seen, time.process_time() - work))


def follow(store: str, name: str, pipe: Connection) -> None:
    """Run a follower: the main function of its process."""
    asyncio.run(_follow(store, name, pipe))


async def _received(pipe: Connection, seconds: float) -> Found | None:
    if not await asyncio.to_thread(pipe.poll, seconds):
        raise SystemExit(f"a follower's process said nothing in {seconds:.0f} s")
    answer: Found | None = pipe.recv()
    return answer


async def measure(store: str, name: str, given: argparse.Namespace) -> Round:
    """Run one round.

    Args:
        store: URI of the metadata store.
        name: A name that no log has.
        given: `followers`, `seconds` and `pause`, as the command line has them.

    Returns:
        Appends a second, delays, and milliseconds of the followers' processors a delivery.
    """
    context = multiprocessing.get_context("spawn")
    async with quire.connect(store) as writer, await writer.open_log(name) as log:
        pipes, processes = [], []
        for _ in range(given.followers):
            ours, theirs = context.Pipe()
            process = context.Process(target=follow, args=(store, name, theirs), daemon=True)
            process.start()
            pipes.append(ours)
            processes.append(process)
        try:
            for pipe in pipes:
                await _received(pipe, START_SECONDS_MAX)
            written = Log(0)
            took = await written.append(log, given.seconds, given.pause / 1000)
            for pipe in pipes:
                pipe.send(len(written.acked))
            found = [await _received(pipe, LAG_SECONDS_MAX) for pipe in pipes]
        finally:
            for process in processes:
                process.join(5)
                process.kill()
    told = [each for each in found if each is not None]
    written.seen = [each.seen for each in told]
    delays = written.delays()
    return Round(
        len(written.acked) / took,
        1000 * delays[len(delays) // 2],
        1000 * delays[len(delays) * 99 // 100],
        1000 * sum(each.cpu_seconds for each in told) / len(delays),
    )


async def main(given: argparse.Namespace) -> None:
    """Run the rounds, and print the medians."""
    rounds: list[Round] = []
    with tempfile.TemporaryDirectory() as directory:
        async with LocalCluster(Path(directory), bookies=3) as cluster:
            for number in range(given.rounds):
                rounds.append(await measure(cluster.store_uri, f"log-{number}", given))
                print(show(f"round {number + 1}", rounds[-1:]), flush=True)
    print(show(f"{given.followers} followers, a process each", rounds))


if __name__ == "__main__":
    run(__doc__, 20, main)
