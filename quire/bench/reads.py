"""Reading a closed ledger back, in order, as often as there is time for."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from quire.bench.figures import Figures
from quire.client import Client
from quire.ledger.quorum import Replication

ENTRIES: Final = 32 * 1024
"""In the ledger: 32 MiB of entries of 1 KiB, a part of what bookies and page cache remember."""

ENTRIES_AT_ONCE: Final = 1024


async def measure_reads(client: Client, seconds: float, payload: bytes) -> Figures:
    """Read for `seconds`, entry by entry, as an application does. Each is verified.

    A latency is how long the reader waits for its first entry, each time that it begins.
    """
    ledger = await _write(client, payload)
    count, firsts = 0, list[float]()
    cpu, started = time.process_time(), time.perf_counter()
    while (elapsed := time.perf_counter() - started) < seconds:
        async with await client.open_ledger(ledger) as reader:
            async for entry in reader.read():
                if entry.entry == 0:
                    firsts.append(time.perf_counter() - started - elapsed)
                count += 1
    cpu = time.process_time() - cpu
    waits = Figures.of("in order", len(payload), elapsed, firsts, cpu)
    return waits.times(count / len(firsts))


async def _write(client: Client, payload: bytes) -> int:
    async with await client.create_ledger(Replication(3, 3, 2)) as writer:
        for _ in range(ENTRIES // ENTRIES_AT_ONCE):
            await asyncio.gather(*(writer.append(payload) for _ in range(ENTRIES_AT_ONCE)))
        return writer.ledger
