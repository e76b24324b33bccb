"""How long a streaming query over many logs needs to look for new records.

    python -m benchmarks.spark_logs --logs 500 [--live] [--zookeeper]

Starts three bookies in a temporary directory, makes the logs, and asks the source of a streaming
query for its next place, as Spark does at each trigger: with nothing new, and after one record in
every fiftieth log. Logs are closed, or with `--live` they have leaders in this process. Needs
PySpark, and no Java.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import quire.sync
from quire.spark.options import ReadOptions
from quire.spark.stream import LogStreamReader
from quire.sync import SyncClient, SyncLocalCluster, SyncLog

ROUNDS: Final = 10
EVERY: Final = 50


class Logs:
    """The logs, with their leaders where they have any."""

    def __init__(self, client: SyncClient, names: list[str], stack: ExitStack | None) -> None:
        self._client = client
        self._names = names
        self._leaders: dict[str, SyncLog] = {}
        if stack is not None:
            for name in names:
                self._leaders[name] = stack.enter_context(client.open_log(name))
        self.append(1)

    def append(self, every: int) -> int:
        """Append a record to every so manyth log; return how many these are."""
        chosen = self._names[::every]
        for name in chosen:
            if leader := self._leaders.get(name):
                leader.append(b"a record of some bytes")
            else:
                with self._client.open_log(name) as opened:
                    opened.append(b"a record of some bytes")
        return len(chosen)


def milliseconds(times: list[float]) -> str:
    return f"{1000 * statistics.median(times):.0f} ms ({1000 * min(times):.0f} at best)"


def measure(reader: LogStreamReader, logs: Logs) -> None:
    began = time.perf_counter()
    place: dict[str, Any] = reader.initialOffset()
    print(f"the query's beginning: {time.perf_counter() - began:.2f} s", flush=True)
    place = reader.latestOffset(place)
    idle, busy, plan = [], [], []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        assert reader.latestOffset(place) == place
        idle.append(time.perf_counter() - began)
    for _ in range(ROUNDS):
        changed = logs.append(EVERY)
        time.sleep(0.1)  # leaders announce
        began = time.perf_counter()
        after = reader.latestOffset(place)
        busy.append(time.perf_counter() - began)
        assert sum(after[name] != place[name] for name in after) == changed
        began = time.perf_counter()
        reader.partitions(place, after)
        plan.append(time.perf_counter() - began)
        place = after
    print(f"a trigger without news: {milliseconds(idle)}")
    print(f"a trigger with news of {changed} logs: {milliseconds(busy)}")
    print(f"planning their batch: {milliseconds(plan)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logs", type=int, default=500)
    parser.add_argument("--live", action="store_true", help="the logs have leaders")
    parser.add_argument("--zookeeper", action="store_true")
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="quire-bench-") as scratch,
        SyncLocalCluster(
            Path(scratch) / "cluster", bookies=3, zookeeper=1 if given.zookeeper else None
        ) as cluster,
        quire.sync.connect(cluster.store_uri) as client,
        ExitStack() as stack,
    ):
        names = [f"log-{number:04}" for number in range(given.logs)]
        logs = Logs(client, names, stack if given.live else None)
        options = {"cluster": cluster.store_uri, "log": "log-*"}
        measure(LogStreamReader(ReadOptions.parse(options, streaming=True)), logs)


if __name__ == "__main__":
    main()
