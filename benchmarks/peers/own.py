"""quire's ledgers, logs and gateway, on bookies of their own."""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import quire
from benchmarks.peers.kafka_client import KafkaClient
from benchmarks.peers.peer import Took
from benchmarks.peers.workloads import Kind, Workload
from quire.bench import appends
from quire.cluster import LocalCluster
from quire.ledger.quorum import Replication
from quire.log.records.position import Appended
from tests.gateway.process import GatewayProcess

BOOKIES: Final = 3


class Own:
    """A cluster of three bookies and a client; each subclass runs workloads on it."""

    name = "quire"

    def __init__(self, directory: Path) -> None:
        self._stack = AsyncExitStack()
        self._cluster = LocalCluster(directory, bookies=BOOKIES)

    async def start(self) -> None:
        """Start bookies and client."""
        await self._stack.enter_async_context(self._cluster)
        self.client = await self._stack.enter_async_context(quire.connect(self._cluster.store_uri))

    def servers(self) -> Sequence[int]:
        """Return the pids of the bookies."""
        return [self._cluster.pid(index) for index in range(BOOKIES)]

    async def stop(self) -> None:
        """End them."""
        await self._stack.aclose()


class Ledgers(Own):
    """Ledgers 3/3/2."""

    kinds: Sequence[Kind] = ("ledger",)
    _last: int | None = None

    async def run(self, workload: Workload, seconds: float) -> Took:
        """Append to new ledgers, or read one back."""
        if not workload.in_flight:
            return await self._read()
        payload = random.randbytes(workload.size)
        async with AsyncExitStack() as stack:
            writers = [
                await stack.enter_async_context(
                    await self.client.create_ledger(Replication(3, 3, 2))
                )
                for _ in range(workload.ledgers)
            ]
            asked = appends.Workload(workload.in_flight, ledgers=workload.ledgers)
            # Nothing but what counts: servers' costs are shared out among counted entries.
            found = await appends.measure_appends(writers, asked, seconds, payload, warm_up=0.0)
        if workload.is_read_later:
            self._last = writers[0].ledger
        cpu = found.cpu_us * found.count / 1e6
        return Took(found.count, found.seconds, cpu, found.p50_ms, found.p99_ms)

    async def _read(self) -> Took:
        assert self._last is not None, "the warm-up writes it"
        reader = await self.client.open_ledger(self._last)
        begun, work, count = time.perf_counter(), time.process_time(), 0
        async for _ in reader.read(0, None):
            count += 1
        return Took(count, time.perf_counter() - begun, time.process_time() - work, 0, 0)


class Logs(Own):
    """A log a workload, with the default options of its copies."""

    kinds: Sequence[Kind] = ("log",)
    _last: str | None = None
    _count = 0

    async def run(self, workload: Workload, seconds: float) -> Took:
        """Append to a new log, or read one back."""
        if not workload.in_flight:
            return await self._read()
        self._count += 1
        name = f"peer-{self._count}"
        options = quire.LogOptions(
            records_in_flight_max=2 * workload.in_flight, bytes_in_flight_max=64 * 1024 * 1024
        )
        async with await self.client.open_log(name, options) as log:
            payload = random.randbytes(workload.size)
            begun, work = time.perf_counter(), time.process_time()
            latencies = sorted(await self._append(log, workload, payload, seconds))
            took, work = time.perf_counter() - begun, time.process_time() - work
        if workload.is_read_later:
            self._last = name
        count = len(latencies)
        p50, p99 = latencies[count // 2], latencies[count * 99 // 100]
        return Took(count, took, work, 1e3 * p50, 1e3 * p99)

    async def _append(
        self, log: quire.Log, workload: Workload, payload: bytes, seconds: float
    ) -> list[float]:
        clock = time.perf_counter
        latencies: list[float] = []
        window: deque[tuple[asyncio.Future[Appended], float]] = deque()
        now = clock()
        end = now + seconds
        while now < end or window:
            while len(window) < workload.in_flight and now < end:
                now = clock()
                window.append((await log.submit(payload), now))
            oldest, submitted = window.popleft()
            await oldest
            now = clock()
            latencies.append(now - submitted)
            while window and window[0][0].done():
                latencies.append(now - window.popleft()[1])
        return latencies

    async def _read(self) -> Took:
        assert self._last is not None, "the warm-up writes it"
        begun, work, count = time.perf_counter(), time.process_time(), 0
        async for _ in self.client.read_log(self._last):
            count += 1
        return Took(count, time.perf_counter() - begun, time.process_time() - work, 0, 0)


class Gateway(Own):
    """A gateway, for Kafka's own Java client."""

    kinds: Sequence[Kind] = ("Kafka's client",)

    def __init__(self, directory: Path) -> None:
        """`directory` is for bookies and for what gateway and client say."""
        super().__init__(directory)
        self._directory = directory
        self._gateway: GatewayProcess | None = None
        self._java: KafkaClient | None = None

    async def start(self) -> None:
        """Start bookies, the gateway and the client."""
        await super().start()
        await asyncio.to_thread(self._serve)

    def _serve(self) -> None:
        self._gateway = GatewayProcess(self._cluster.store_uri, self._directory / "gateway.log")
        kafka = self._gateway.start().kafka
        self._java = KafkaClient([kafka], self._directory / "client.log")

    async def run(self, workload: Workload, seconds: float) -> Took:
        """Append to a new log, or read one back."""
        assert self._java is not None, "start comes first"
        return await self._java.run(workload, seconds)

    def servers(self) -> Sequence[int]:
        """Return the pids of the bookies and of the gateway."""
        assert self._gateway is not None, "start comes first"
        return [*super().servers(), self._gateway.pid]

    async def stop(self) -> None:
        """End client, gateway and bookies."""
        if self._java is not None:
            self._java.bench.end()
        if self._gateway is not None:
            await asyncio.to_thread(self._gateway.end)
        await super().stop()
