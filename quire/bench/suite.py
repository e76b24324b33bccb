"""The whole benchmark: raw limits, appends to three bookie processes on this machine, reads."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from quire.bench.appends import ENTRY_BYTES, WORKLOADS, Workload, measure_appends
from quire.bench.figures import COPIES, Figures, Report
from quire.bench.logs import LogReport, measure_log
from quire.bench.raw import measure_limits
from quire.bench.reads import measure_reads
from quire.client import Client
from quire.cluster import LocalCluster
from quire.connection import connect
from quire.ledger.quorum import Replication

RAW_SHARE: Final = 0.25
"""Part of the time that the raw limits get, each."""

STEPS: Final = 5 + 1 + len(WORKLOADS) + 1
"""How often `advance` is called."""


async def measure(directory: Path, seconds: float, advance: Callable[[str], None]) -> Report:
    """Run the benchmark in `directory`, each workload for `seconds`.

    `advance` is called with the name of each step as it begins. Raises as a
    cluster's start does.
    """
    limits = await measure_limits(directory, max(0.5, seconds * RAW_SHARE), advance)
    advance("starting three bookies")
    async with (
        LocalCluster(directory / "cluster", bookies=COPIES) as cluster,
        connect(cluster.store_uri) as client,
    ):
        appends = []
        for workload in WORKLOADS:
            advance(f"appends, {workload.name}")
            appends.append(await _measure_one(client, workload, seconds))
        advance("reading back")
        reads = [await measure_reads(client, seconds, _payload(0))]
    return Report(limits, tuple(appends), tuple(reads), uvloop="uvloop" in sys.modules)


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
