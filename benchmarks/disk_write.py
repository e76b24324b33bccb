"""What a synced write costs a bookie: `python -m benchmarks.disk_write [--data DIR]`.

    direct   blocks that exist, overwritten and synced: past the page cache against the ordinary way
    thread   4 KiB so written from the event loop, and back, by the thread that was idle last
             against `concurrent.futures`, which takes the one that has slept longest; four of each

Both sides of a row take turns; the figures are medians.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from quire.aio.loops import loop_factory
from quire.storage.disk.local import LocalDisk
from quire.storage.disk.local_file import THREADS
from quire.storage.disk.threads import DiskThreads

ROUNDS: Final = 5
FILE_BYTES: Final = 64 * 1024 * 1024


async def timed(write: Callable[[int], Awaitable[object]], size: int, seconds: float) -> float:
    """Return microseconds of one write, of many that go through the file in turn."""
    count, offset, start = 0, 0, time.perf_counter()
    while (spent := time.perf_counter() - start) < seconds:
        await write(offset)
        offset = (offset + size) % (FILE_BYTES - size)
        count += 1
    return spent / count * 1e6


async def compare(
    what: str, sides: Mapping[str, Callable[[int], Awaitable[object]]], size: int, seconds: float
) -> None:
    taken: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(ROUNDS):
        for side, write in sides.items():
            taken[side].append(await timed(write, size, seconds / ROUNDS))
    figures = {side: statistics.median(each) for side, each in taken.items()}
    first, second = figures.values()
    told = ", ".join(f"{side} {figure:5.0f} µs" for side, figure in figures.items())
    print(f"{what:18} {told}: {100 * first / second:3.0f} %", flush=True)


async def measure(directory: Path, seconds: float) -> None:
    disk = LocalDisk(directory)
    file = await disk.open("written", create=True)
    for offset in range(0, FILE_BYTES, 1 << 20):
        await file.write(offset, [bytes(1 << 20)], sync=True)
    for size in (4096, 65536, 1 << 20):
        data = [os.urandom(size)]

        def write(offset: int, is_direct: bool, data: list[bytes] = data) -> Awaitable[None]:
            disk._means.direct.are_possible = is_direct
            return file.write(offset, data, sync=True)

        sides = {"direct": lambda at: write(at, True), "ordinary": lambda at: write(at, False)}
        await compare(f"direct {size // 1024:5} KiB", sides, size, seconds)
    await file.close()
    await measure_threads(directory / "written", seconds)
    await disk.close()


async def measure_threads(path: Path, seconds: float) -> None:
    descriptor, data = os.open(path, os.O_RDWR), os.urandom(4096)
    threads, pool = DiskThreads("idle-last", THREADS), ThreadPoolExecutor(THREADS)

    def write(offset: int) -> None:
        os.pwrite(descriptor, data, offset)
        os.fdatasync(descriptor)

    loop = asyncio.get_running_loop()
    for run in (threads.run, lambda job: loop.run_in_executor(pool, job)):
        await asyncio.gather(*(run(lambda: time.sleep(0.1)) for _ in range(THREADS)))
    sides: dict[str, Callable[[int], Awaitable[object]]] = {
        "idle last": lambda at: threads.run(lambda: write(at)),
        "slept longest": lambda at: loop.run_in_executor(pool, write, at),
    }
    await compare("thread     4 KiB", sides, 4096, seconds)
    await threads.close()
    pool.shutdown()
    os.close(descriptor)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="directory on the disk to measure")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each side of a row")
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(dir=arguments.data) as directory,
        asyncio.Runner(loop_factory=loop_factory()) as runner,
    ):
        runner.run(measure(Path(directory), arguments.seconds))


if __name__ == "__main__":
    main()
