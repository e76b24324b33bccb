"""Appends of 1 KiB entries to ledgers of one client, with so many in flight."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from itertools import chain, count
from typing import Final, NamedTuple

from quire.bench.figures import Figures
from quire.ledger.writer import LedgerWriter

ENTRY_BYTES: Final = 1024
WARM_UP_SECONDS: Final = 0.5


class Workload(NamedTuple):
    """So many ledgers, and so many entries of each in flight; seconds before the next is sent."""

    in_flight: int
    ledgers: int = 1
    pause: float = 0.0

    @property
    def name(self) -> str:
        """What people read."""
        each = "one at a time" if self.in_flight == 1 else f"{self.in_flight:,} in flight"
        if self.pause:
            each = f"each after {self.pause * 1e3:g} ms"
        return each if self.ledgers == 1 else f"{self.ledgers:,} ledgers, {each}"


WORKLOADS: Final = (
    Workload(1),
    Workload(64),
    Workload(1_000),
    Workload(4_000),
    Workload(1, ledgers=100),
    Workload(1, ledgers=100, pause=0.05),
)
"""In the last workload an explicit LAC follows every entry."""


async def measure_appends(
    writers: Sequence[LedgerWriter],
    workload: Workload,
    seconds: float,
    payload: bytes,
    warm_up: float = WARM_UP_SECONDS,
) -> Figures:
    """Append for `seconds` after a warm-up, with so many entries unconfirmed all the time.

    An entry's latency lasts from its submission until the caller continues.
    """
    if warm_up:
        await _append_all(writers, workload, min(warm_up, seconds), payload)
    cpu, started = time.process_time(), time.perf_counter()
    latencies = await _append_all(writers, workload, seconds, payload)
    elapsed, cpu = time.perf_counter() - started, time.process_time() - cpu
    return Figures.of(workload.name, len(payload), elapsed, latencies, cpu)


async def _append_all(
    writers: Sequence[LedgerWriter], workload: Workload, seconds: float, payload: bytes
) -> list[float]:
    """Begin one after the other within the first pause, so that they do not all come at once."""
    ends = asyncio.get_running_loop().time() + seconds

    async def append(number: int, writer: LedgerWriter) -> list[float]:
        await asyncio.sleep(workload.pause * number / len(writers))
        left = ends - asyncio.get_running_loop().time()
        return await _append_for(writer, workload, left, payload)

    return list(chain.from_iterable(await asyncio.gather(*map(append, count(), writers))))


async def _append_for(
    writer: LedgerWriter, workload: Workload, seconds: float, payload: bytes
) -> list[float]:
    clock = time.perf_counter
    latencies: list[float] = []
    window: deque[tuple[asyncio.Future[int], float]] = deque()
    now = clock()
    end = now + seconds
    while now < end or window:
        while len(window) < workload.in_flight and now < end:
            now = clock()
            window.append((await writer.submit(payload), now))
        oldest, submitted = window.popleft()
        await oldest
        now = clock()
        latencies.append(now - submitted)
        while window and window[0][0].done():  # confirmed together: one look at the clock is enough
            latencies.append(now - window.popleft()[1])
        if workload.pause:
            await asyncio.sleep(workload.pause)
            now = clock()
    return latencies
