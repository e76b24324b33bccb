"""The whole benchmark: raw limits, then appends to three bookie processes on this machine."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from quire.bench.appends import ENTRY_BYTES, IN_FLIGHT, measure_appends, workload_name
from quire.bench.figures import COPIES, Figures, Report
from quire.bench.logs import LogReport, measure_log
from quire.bench.raw import measure_limits
from quire.client import Client, connect
from quire.cluster import LocalCluster
from quire.ledger.quorum import Replication

RAW_SHARE: Final = 0.25
"""Part of the time that the raw limits get, each."""

STEPS: Final = 5 + 1 + len(IN_FLIGHT)
"""How often `advance` is called."""


async def measure(directory: Path, seconds: float, advance: Callable[[str], None]) -> Report:
    """Run the benchmark in `directory`, each workload for `seconds`.

    `advance` is called with the name of each step as it begins. Raises what a cluster's start
    raises.
    """
    limits = await measure_limits(directory, max(0.5, seconds * RAW_SHARE), advance)
    advance("starting three bookies")
    async with (
        LocalCluster(directory / "cluster", bookies=COPIES) as cluster,
        connect(cluster.store_uri) as client,
    ):
        appends = []
        for in_flight in IN_FLIGHT:
            advance(f"appends, {workload_name(in_flight)}")
            appends.append(await _measure_one(client, in_flight, seconds))
    return Report(limits, tuple(appends), uvloop="uvloop" in sys.modules)


async def measure_logs(directory: Path, seconds: float) -> LogReport:
    """Run the log's benchmark on three bookies in `directory`, each workload for `seconds`."""
    async with (
        LocalCluster(directory / "cluster", bookies=COPIES) as cluster,
        connect(cluster.store_uri) as client,
    ):
        return await measure_log(client, seconds)


async def _measure_one(client: Client, in_flight: int, seconds: float) -> Figures:
    payload = random.Random(in_flight).randbytes(ENTRY_BYTES)
    async with await client.create_ledger(Replication(3, 3, 2)) as writer:
        return await measure_appends(writer, in_flight, seconds, payload)
