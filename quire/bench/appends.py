"""Appends of 1 KiB entries to one ledger, with so many in flight."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Final

from quire.bench.figures import Figures
from quire.ledger.writer import LedgerWriter

ENTRY_BYTES: Final = 1024
WARM_UP_SECONDS: Final = 0.5
IN_FLIGHT: Final = (1, 64, 1_000, 4_000)


def workload_name(in_flight: int) -> str:
    """Return what people read."""
    return "one at a time" if in_flight == 1 else f"{in_flight:,} in flight"


async def measure_appends(
    writer: LedgerWriter, in_flight: int, seconds: float, payload: bytes
) -> Figures:
    """Append for `seconds` after a warm-up, with `in_flight` entries unconfirmed all the time.

    An entry's latency lasts from its submission to the moment the caller goes on.
    """
    await _append_for(writer, in_flight, min(WARM_UP_SECONDS, seconds), payload)
    cpu, started = time.process_time(), time.perf_counter()
    latencies = await _append_for(writer, in_flight, seconds, payload)
    elapsed, cpu = time.perf_counter() - started, time.process_time() - cpu
    return Figures.of(workload_name(in_flight), len(payload), elapsed, latencies, cpu)


async def _append_for(
    writer: LedgerWriter, in_flight: int, seconds: float, payload: bytes
) -> list[float]:
    clock = time.perf_counter
    latencies: list[float] = []
    window: deque[tuple[asyncio.Future[int], float]] = deque()
    now = clock()
    end = now + seconds
    while now < end or window:
        while len(window) < in_flight and now < end:
            now = clock()
            window.append((await writer.submit(payload), now))
        oldest, submitted = window.popleft()
        await oldest
        now = clock()
        latencies.append(now - submitted)
        while window and window[0][0].done():  # confirmed together: one look at the clock is enough
            latencies.append(now - window.popleft()[1])
    return latencies
