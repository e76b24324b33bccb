"""Apache Kafka from its published jars, with its own Java client.

Three processes, each broker and controller (KRaft). Three copies, `min.insync.replicas=2`,
`acks=all`, one partition. `default` acknowledges records in the page caches of two brokers.
`synced` flushes each batch (`log.flush.interval.messages=1`), as quire always does.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from benchmarks.peers.peer import Took
from benchmarks.peers.workloads import Kind, Workload
from quire.cluster.zookeeper.java import find_java
from tests.interop.jars import JANINO, install_kafka, of_pyspark
from tests.interop.servers import JavaProgram, free_port, wait_for_port

SOURCE: Final = Path(__file__).with_name("KafkaBench.java")
CLUSTER: Final = "cXVpcmUtYmVuY2htYXJrcw"
BROKERS: Final = 3
SETTINGS: Final[Mapping[str, Mapping[str, object]]] = MappingProxyType(
    {"default": {}, "synced": {"log.flush.interval.messages": 1}}
)
READ_FROM: Final = (1024, 1_000)


class Kafka:
    """Three brokers and a JVM with the client."""

    kind: Kind = "log"

    def __init__(self, directory: Path, setting: str) -> None:
        self.name = f"Kafka {setting}"
        self._jars = install_kafka()
        self._settings = SETTINGS[setting]
        self._directory = directory
        self._brokers: list[subprocess.Popen[bytes]] = []
        self._ports = [free_port() for _ in range(BROKERS)]
        self._controllers = [free_port() for _ in range(BROKERS)]
        self._client: JavaProgram | None = None
        self._topics = 0
        self._last: tuple[str, int] | None = None

    def _java(self, *words: object) -> list[str]:
        beside = map(of_pyspark, ("janino", "commons-compiler"))
        path = ":".join([f"{self._jars}/*", *map(str, beside)])
        return [str(find_java()), "-Xmx1g", "-cp", path, *map(str, words)]

    def _configure(self, number: int) -> Path:
        voters = ",".join(
            f"{other}@127.0.0.1:{port}" for other, port in enumerate(self._controllers)
        )
        broker = f"PLAINTEXT://127.0.0.1:{self._ports[number]}"
        lines = {
            "process.roles": "broker,controller",
            "node.id": number,
            "controller.quorum.voters": voters,
            "controller.listener.names": "CONTROLLER",
            "listeners": f"{broker},CONTROLLER://127.0.0.1:{self._controllers[number]}",
            "advertised.listeners": broker,
            "log.dirs": self._directory / f"broker-{number}",
            "default.replication.factor": 3,
            "offsets.topic.replication.factor": 3,
            "min.insync.replicas": 2,
            "num.partitions": 1,
            "message.max.bytes": 8 << 20,
            **self._settings,
        }
        config = self._directory / f"broker-{number}.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        return config

    async def start(self) -> None:
        """Format, and start brokers and client."""
        await asyncio.to_thread(self._start)

    def _start(self) -> None:
        self._directory.mkdir(parents=True)
        for number in range(BROKERS):
            config = self._configure(number)
            words = ("kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", config)
            with (self._directory / f"format-{number}.log").open("wb") as log:
                subprocess.run(self._java(*words), stdout=log, stderr=log, check=True)
            with (self._directory / f"broker-{number}.log").open("wb") as log:
                command = self._java("kafka.Kafka", config)
                self._brokers.append(subprocess.Popen(command, stdout=log, stderr=log))
        for port in self._ports:
            wait_for_port(port, self._directory)
        servers = ",".join(f"127.0.0.1:{port}" for port in self._ports)
        command = self._java(JANINO, SOURCE, SOURCE.stem, servers)
        self._client = JavaProgram(command, self._directory / "client.log")

    async def _ask(self, *words: object) -> list[int]:
        assert self._client is not None, "start comes first"
        answer = await asyncio.to_thread(self._client.ask, *words)
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
        if (workload.size, workload.in_flight) == READ_FROM:
            self._last = (topic, count)
        return Took(count, nanos / 1e9, work / 1e9, p50 / 1e3, p99 / 1e3)

    def servers(self) -> Sequence[int]:
        """Return the pids of the brokers."""
        return [each.pid for each in self._brokers]

    async def stop(self) -> None:
        """End client and brokers."""
        if self._client is not None:
            self._client.kill()
        for each in self._brokers:
            each.kill()
        for each in self._brokers:
            each.wait()
