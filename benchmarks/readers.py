"""Reading a whole log in each way that Python has for it, in turn.

    python -m benchmarks.readers [--megabytes 100] [--size 100] [--rounds 5]

One record after the other; whole entries with a list of payloads, or with Arrow's buffers, which
copy nothing; Arrow record batches of `scan_log` in another thread. Three bookies of this machine.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import quire
from quire.cluster import LocalCluster
from quire.errors import QuireError

GROUP_RECORDS: Final = 100
GROUPS_IN_FLIGHT: Final = 200
NAME: Final = "read"


async def write(client: quire.Client, count: int, size: int) -> None:
    """Make a log with so many records."""
    group = [bytes(size)] * GROUP_RECORDS
    options = quire.LogOptions(bytes_in_flight_max=64 * 1024 * 1024)
    async with await client.open_log(NAME, options) as log:
        left = count // GROUP_RECORDS

        async def append() -> None:
            nonlocal left
            while left > 0:
                left -= 1
                await log.append_many(group)

        await asyncio.gather(*(append() for _ in range(GROUPS_IN_FLIGHT)))


async def by_record(client: quire.Client) -> int:
    """Read one record after the other; return how many."""
    count = 0
    async with await client.read_log(NAME) as reader:
        async for _ in reader:
            count += 1
    return count


async def by_payloads(client: quire.Client) -> int:
    """Read entry by entry, with the payloads of each as a list."""
    count = 0
    async with await client.read_log(NAME) as reader:
        async for batch in reader.read_batches():
            count += len(batch.payloads())
    return count


async def by_buffers(client: quire.Client) -> int:
    """Read entry by entry, with the payloads of each as two buffers."""
    count = 0
    async with await client.read_log(NAME) as reader:
        async for batch in reader.read_batches():
            offsets, _ = batch.arrow_buffers()
            count += len(offsets) - 1
    return count


async def by_scan(client: quire.Client) -> int:
    """Scan the log in another thread, offsets and payloads."""
    reader = await client.scan_log(NAME, columns=["offset", "payload"])
    return await asyncio.to_thread(lambda: sum(len(batch) for batch in reader))


WAYS: Final[dict[str, Callable[[quire.Client], Awaitable[int]]]] = {
    "async for record": by_record,
    "read_batches, payloads": by_payloads,
    "read_batches, arrow_buffers": by_buffers,
    "scan_log": by_scan,
}


async def main(given: argparse.Namespace) -> None:
    """Write the log, read it in turn, and print the medians."""
    count = given.megabytes * 1_000_000 // given.size // GROUP_RECORDS * GROUP_RECORDS
    rates: dict[str, list[float]] = {name: [] for name in WAYS}
    work: dict[str, list[float]] = {name: [] for name in WAYS}
    with tempfile.TemporaryDirectory() as directory:
        async with LocalCluster(Path(directory), bookies=3) as cluster:
            async with quire.connect(cluster.store_uri) as client:
                await write(client, count, given.size)
            for _ in range(given.rounds):
                for name, read in WAYS.items():
                    async with quire.connect(cluster.store_uri) as client:
                        await client.log_end(NAME)  # so that connections are there
                        begun, cpu = time.perf_counter(), time.process_time()
                        found = await read(client)
                        assert found == count, f"{name}: {found} records of {count}"
                        rates[name].append(count / (time.perf_counter() - begun))
                        work[name].append(1e6 * (time.process_time() - cpu) / count)
    base = statistics.median(rates["async for record"])
    for name in WAYS:
        rate = statistics.median(rates[name])
        print(
            f"{name}: {rate:,.0f} records/s, {rate / base:.1f} times, "
            f"{rate * given.size / 1e6:.0f} MB/s, "
            f"{statistics.median(work[name]):.2f} µs of the processor a record"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--megabytes", type=int, default=100, help="payload bytes of the log")
    parser.add_argument("--size", type=int, default=100, help="bytes of a record")
    parser.add_argument("--rounds", type=int, default=5)
    try:
        asyncio.run(main(parser.parse_args()))
    except QuireError as error:
        raise SystemExit(f"error: {error}") from None
