"""Reading a log of small segments, with segments opened ahead and without, in turn.

    python -m benchmarks.small_segments [--segments 500] [--zookeeper]

Each segment has one record, on three bookies of this machine. The rounds take turns, because other
work on the machine slows both down.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from typing import Final
from unittest import mock

import quire
from quire.cluster import LocalCluster
from quire.errors import QuireError
from quire.log.reading import ahead

ROUNDS: Final = 5


async def write(client: quire.Client, count: int) -> None:
    """Make a log with so many sealed segments."""
    log = await client.open_log("small")
    for number in range(count):
        if number:
            await log.roll()
        await log.append(b"%d" % number)
    await log.close()


async def read(store: str, count: int, most: int) -> tuple[float, float]:
    """Read the log with so many segments ahead; return milliseconds a segment, of time and of the
    processor.
    """
    with mock.patch.object(ahead, "MOST", most):
        async with quire.connect(store) as client:
            await client.log_end("small")  # so that connections are there
            begun, work, found = time.perf_counter(), time.process_time(), 0
            async for _ in client.read_log("small"):
                found += 1
            took = time.perf_counter() - begun, time.process_time() - work
    assert found == count, f"{found} records of {count}"
    return 1000 * took[0] / count, 1000 * took[1] / count


async def main(count: int, zookeeper: bool) -> None:
    with tempfile.TemporaryDirectory() as directory:
        servers = 1 if zookeeper else None
        async with LocalCluster(Path(directory), bookies=3, zookeeper=servers) as cluster:
            async with quire.connect(cluster.store_uri) as client:
                await write(client, count)
            figures: dict[int, list[tuple[float, float]]] = {0: [], ahead.MOST: []}
            for _ in range(ROUNDS):
                for most, found in figures.items():
                    found.append(await read(cluster.store_uri, count, most))
    for most, found in figures.items():
        took, work = (statistics.median(each) for each in zip(*found, strict=True))
        print(f"{most:2} segments ahead: {took:.2f} ms a segment, {work:.2f} of the processor")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--segments", type=int, default=500)
    parser.add_argument("--zookeeper", action="store_true")
    given = parser.parse_args()
    try:
        asyncio.run(main(given.segments, given.zookeeper))
    except QuireError as error:
        raise SystemExit(f"error: {error}") from None
