"""Kafka's own Java client, for every system that serves it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.peers.peer import Took
from benchmarks.peers.workloads import Workload
from quire.cluster.zookeeper.java import find_java
from tests.interop.jars import JANINO, install_kafka, of_pyspark
from tests.interop.servers import JavaProgram

SOURCE: Final = Path(__file__).with_name("KafkaBench.java")


def java(*words: object) -> list[str]:
    """Return a command of a JVM with Kafka's jars and Janino."""
    beside = map(of_pyspark, ("janino", "commons-compiler"))
    path = ":".join([f"{install_kafka()}/*", *map(str, beside)])
    return [str(find_java()), "-Xmx1g", "-cp", path, *map(str, words)]


class KafkaClient:
    """A JVM with a producer and a consumer, which does one workload after the other."""

    def __init__(self, servers: Sequence[str], log: Path) -> None:
        """`servers` are host:port; `log` takes what the JVM says."""
        self._program = JavaProgram(java(JANINO, SOURCE, SOURCE.stem, ",".join(servers)), log)
        self._topics = 0
        self._last: tuple[str, int] | None = None

    async def _ask(self, *words: object) -> list[int]:
        answer = await asyncio.to_thread(self._program.ask, *words)
        return [int(each) for each in answer.split()]

    async def run(self, workload: Workload, seconds: float) -> Took:
        """Append to a new topic, or read one back."""
        if not workload.in_flight:
            assert self._last is not None, "the warm-up writes it"
            count, nanos, work = await self._ask("read", *self._last)
            return Took(count, nanos / 1e9, work / 1e9, 0, 0)
        self._topics += 1
        topic = f"peer-{self._topics}"
        words = (topic, workload.size, workload.in_flight, round(seconds * 1000))
        count, nanos, work, p50, p99 = await self._ask("append", *words)
        if workload.is_read_later:
            self._last = (topic, count)
        return Took(count, nanos / 1e9, work / 1e9, p50 / 1e3, p99 / 1e3)

    def end(self) -> None:
        """End the JVM."""
        self._program.kill()
