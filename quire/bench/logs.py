"""Figures of the log layer: records through one leader, rolls, followers, catching up, and how long
a log is without a leader.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from quire.aio.timing import time_limit
from quire.bench.crash import measure_crash
from quire.bench.figures import Figures
from quire.bench.operations import count_operations
from quire.client import Client
from quire.log.leader.log import Log
from quire.log.manifest.options import LogOptions
from quire.log.records.position import BEGINNING, LATEST, Appended

IN_FLIGHT: Final = 20_000
GROUP_RECORDS: Final = 100
WARM_UP_SECONDS: Final = 0.5
PROBE_SECONDS: Final = 0.005
SESSION_SECONDS: Final = 6.0
ROLL_ENTRIES: Final = 50
LAG_SECONDS_MAX: Final = 10.0
"""Longest wait for a follower; records that it has not seen by then are not counted."""


@dataclass(frozen=True, slots=True)
class LogReport:
    """What `quire bench log` found out; times in milliseconds unless named otherwise."""

    appends: tuple[Figures, ...]
    """100 B, one by one and many at once, and 1 KiB; many in flight."""
    alone: Figures
    """One append at a time."""
    rolling: Figures
    """The same while the log is rolled every `ROLL_ENTRIES` entries."""
    follower: Figures
    """From the moment an append was acknowledged until a follower has the record."""
    catch_up_mb_s: float
    handoff_ms: float
    """From the last append of a leader that resigns to the first of its successor."""
    take_over_ms: float
    """Opening a log without a leader: the new leader does not have to wait."""
    operations_per_append: float
    operations_per_roll: float
    """Operations of the metadata store."""
    crash_ms: float
    """From the kill of a leader with a lease of `LEASE_SECONDS` to its successor's first append."""


async def measure_log(client: Client, seconds: float) -> LogReport:
    """Measure a log on the cluster of a client, each workload for `seconds`."""
    many = [
        await _many(client, "100 B, 20,000 in flight", 100, seconds, _append_for),
        await _many(client, "100 B by 100, as many", 100, seconds, _append_groups_for),
        await _many(client, "1 KiB, as many", 1024, seconds, _append_for),
    ]
    alone = await _alone(client, "one at a time", seconds, LogOptions())
    rolling = LogOptions(roll_entries=ROLL_ENTRIES)
    per_append, per_roll = await count_operations(client.store_uri)
    return LogReport(
        appends=tuple(many),
        alone=alone,
        rolling=await _alone(client, f"rolling every {ROLL_ENTRIES}", seconds, rolling),
        follower=await _follow(client, seconds),
        catch_up_mb_s=await _catch_up(client, "bench 1 KiB, as many"),
        handoff_ms=await _hand_over(client),
        take_over_ms=await _crash(client),
        operations_per_append=per_append,
        operations_per_roll=per_roll,
        crash_ms=1e3 * await measure_crash(client),
    )


async def _many(
    client: Client,
    name: str,
    size: int,
    seconds: float,
    append_for: Callable[[Log, bytes, float], Awaitable[list[float]]],
) -> Figures:
    options = LogOptions(records_in_flight_max=2 * IN_FLIGHT, bytes_in_flight_max=64 * 1024 * 1024)
    async with await client.open_log(f"bench {name}", options) as log:
        await append_for(log, bytes(size), min(WARM_UP_SECONDS, seconds))
        cpu, started = time.process_time(), time.perf_counter()
        latencies = await append_for(log, bytes(size), seconds)
        elapsed, cpu = time.perf_counter() - started, time.process_time() - cpu
    return Figures.of(name, size, elapsed, latencies, cpu)


async def _append_for(log: Log, payload: bytes, seconds: float) -> list[float]:
    clock, latencies = time.perf_counter, list[float]()
    window: deque[tuple[asyncio.Future[Appended], float]] = deque()
    now = clock()
    end = now + seconds
    while now < end or window:
        while len(window) < IN_FLIGHT and now < end:
            now = clock()
            window.append((await log.submit(payload), now))
        await window[0][0]
        now = clock()
        while window and window[0][0].done():
            latencies.append(now - window.popleft()[1])
    return latencies


async def _append_groups_for(log: Log, payload: bytes, seconds: float) -> list[float]:
    """As a service that commits many records at once does."""
    clock, latencies = time.perf_counter, list[float]()
    group = [payload] * GROUP_RECORDS
    end = clock() + seconds

    async def append() -> None:
        while (before := clock()) < end:
            await log.append_many(group)
            latencies.extend([clock() - before] * GROUP_RECORDS)

    await asyncio.gather(*(append() for _ in range(IN_FLIGHT // GROUP_RECORDS)))
    return latencies


async def _alone(client: Client, name: str, seconds: float, options: LogOptions) -> Figures:
    clock, latencies = time.perf_counter, list[float]()
    async with await client.open_log(f"bench {name}", options) as log:
        cpu, started = time.process_time(), clock()
        while clock() - started < seconds:
            before = clock()
            await log.append(bytes(1024))
            latencies.append(clock() - before)
        elapsed, cpu = clock() - started, time.process_time() - cpu
    return Figures.of(name, 1024, elapsed, latencies, cpu)


async def _follow(client: Client, seconds: float) -> Figures:
    clock, latencies = time.perf_counter, list[float]()
    async with await client.open_log("bench follower") as log:
        await log.append(b"first")
        reader = await client.read_log("bench follower", LATEST, follow=True)
        async with reader:
            seen: list[float] = []

            async def follow() -> None:
                async for record in reader:
                    if record.payload != b"first":  # which it may begin with
                        seen.append(clock())  # noqa: PERF401

            following = asyncio.create_task(follow())
            await asyncio.sleep(0.2)
            cpu, started = time.process_time(), clock()
            acked: list[float] = []
            while clock() - started < seconds:
                await log.append(bytes(1024))
                acked.append(clock())
                await asyncio.sleep(PROBE_SECONDS)
            elapsed, cpu = clock() - started, time.process_time() - cpu
            with suppress(TimeoutError):
                async with time_limit(LAG_SECONDS_MAX):
                    while len(seen) < len(acked):  # noqa: ASYNC110
                        await asyncio.sleep(PROBE_SECONDS)
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
    latencies += [max(0.0, at - ack) for at, ack in zip(seen, acked, strict=False)]
    return Figures.of("ack to follower", 1024, elapsed, latencies, cpu)


async def _catch_up(client: Client, name: str) -> float:
    started, size = time.perf_counter(), 0
    async with await client.read_log(name, BEGINNING) as reader:
        async for batch in reader.read_batches():
            size += len(batch.batch.data)
    return size / (time.perf_counter() - started) / 1e6


async def _hand_over(client: Client) -> float:
    """Two candidates on one client: one resigns by closing the log, the other opens it."""
    led: list[float] = []
    go, second = asyncio.Event(), asyncio.Event()

    async def stand(name: str, last: asyncio.Event) -> None:
        election = client.election("bench", name, session_timeout=SESSION_SECONDS)
        async with election.lead() as leadership:
            log = await client.open_log("bench handoff")
            await log.append(b"x")
            led.append(time.perf_counter())
            if len(led) == 2:
                second.set()
            await last.wait()
            await leadership.hand_over()
            await log.close()

    first = asyncio.create_task(stand("first", go))
    while not led:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    other = asyncio.create_task(stand("second", second))
    await asyncio.sleep(0.5)
    started = time.perf_counter()
    go.set()
    await asyncio.gather(first, other)
    return (led[1] - started) * 1e3


async def _crash(client: Client) -> float:
    log = await client.open_log("bench crash")
    for _ in range(100):
        await log.append(bytes(1024))
    log.abandon()
    started = time.perf_counter()
    async with await client.open_log("bench crash") as successor:
        await successor.append(b"x")
        return (time.perf_counter() - started) * 1e3
