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
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
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


class Times:
    """Of something that is done again and again: by the clock, and of the processor."""

    def __init__(self) -> None:
        self._clock: list[float] = []
        self._processor: list[float] = []

    @contextmanager
    def taken(self) -> Iterator[None]:
        begun, work = time.perf_counter(), time.process_time()
        yield
        self._clock.append(1000 * (time.perf_counter() - begun))
        self._processor.append(1000 * (time.process_time() - work))

    def __str__(self) -> str:
        return (
            f"{statistics.median(self._clock):.0f} ms ({min(self._clock):.0f} at best), "
            f"{statistics.median(self._processor):.0f} of the processor"
        )


def measure(reader: LogStreamReader, logs: Logs) -> None:
    began = time.perf_counter()
    place: dict[str, Any] = reader.initialOffset()
    print(f"the query's beginning: {time.perf_counter() - began:.2f} s", flush=True)
    place = reader.latestOffset(place)
    idle, busy, plan = Times(), Times(), Times()
    for _ in range(ROUNDS):
        with idle.taken():
            assert reader.latestOffset(place) == place
    for _ in range(ROUNDS):
        changed = logs.append(EVERY)
        time.sleep(0.1)  # leaders announce
        with busy.taken():
            after = reader.latestOffset(place)
        assert sum(after[name] != place[name] for name in after) == changed
        with plan.taken():
            reader.partitions(place, after)
        place = after
    print(f"a trigger without news: {idle}")
    print(f"a trigger with news of {changed} logs: {busy}")
    print(f"planning their batch: {plan}")


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
