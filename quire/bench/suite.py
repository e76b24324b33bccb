"""The whole benchmark: raw limits, appends to three bookie processes on this machine, reads."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from quire.bench import raw
from quire.bench.appends import ENTRY_BYTES, WORKLOADS, Workload, measure_appends
from quire.bench.figures import COPIES, Figures, Report, TlsFigures
from quire.bench.logs import LogReport, measure_log
from quire.bench.reads import measure_reads
from quire.client import Client
from quire.cluster import LocalCluster
from quire.connection import connect
from quire.ledger.quorum import Replication

RAW_SHARE: Final = 0.25
"""Part of the time that the raw limits get, each."""

STEPS: Final = raw.STEPS + 1 + len(WORKLOADS) + 1
"""How often `advance` is called."""


async def measure(
    directory: Path, seconds: float, advance: Callable[[str], None], *, tls: bool = False
) -> Report:
    """Run the benchmark in `directory`, each workload for `seconds`.

    With `tls` each workload runs twice in turns, on a cluster without TLS and on one with it.
    `advance` is called with the name of each step as it begins. Raises as a
    cluster's start does.
    """
    limits = await raw.measure_limits(directory, max(0.5, seconds * RAW_SHARE), advance)
    advance("starting three bookies")
    async with AsyncExitStack() as stack:
        clients = [await _connected(stack, directory / "cluster", tls=False)]
        if tls:
            clients.append(await _connected(stack, directory / "cluster-with-tls", tls=True))
        appends: list[list[Figures]] = [[] for _ in clients]
        for workload in WORKLOADS:
            advance(f"appends, {workload.name}")
            for client, figures in zip(clients, appends, strict=True):
                figures.append(await _measure_one(client, workload, seconds))
        advance("reading back")
        reads = [await measure_reads(client, seconds, _payload(0)) for client in clients]
    with_tls = TlsFigures(tuple(appends[1]), (reads[1],)) if tls else None
    uvloop = "uvloop" in sys.modules
    return Report(limits, tuple(appends[0]), (reads[0],), uvloop, with_tls)


async def _connected(stack: AsyncExitStack, directory: Path, *, tls: bool) -> Client:
    cluster = await stack.enter_async_context(LocalCluster(directory, bookies=COPIES, tls=tls))
    return await stack.enter_async_context(connect(cluster.store_uri, tls=cluster.tls))


async def measure_logs(directory: Path, seconds: float) -> LogReport:
    """Run the log's benchmark on three bookies in `directory`, each workload for `seconds`."""
    async with (
        LocalCluster(directory / "cluster", bookies=COPIES) as cluster,
        connect(cluster.store_uri) as client,
    ):
        return await measure_log(client, seconds)


async def _measure_one(client: Client, workload: Workload, seconds: float) -> Figures:
    async with AsyncExitStack() as stack:
        writers = [
            await stack.enter_async_context(await client.create_ledger(Replication(3, 3, 2)))
            for _ in range(workload.ledgers)
        ]
        return await measure_appends(writers, workload, seconds, _payload(workload.in_flight))


def _payload(seed: int) -> bytes:
    return random.Random(seed).randbytes(ENTRY_BYTES)
