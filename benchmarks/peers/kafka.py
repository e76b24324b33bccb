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

from benchmarks.peers.kafka_client import KafkaClient, java
from benchmarks.peers.peer import Took
from benchmarks.peers.workloads import Kind, Workload
from tests.interop.servers import free_port, wait_for_port

CLUSTER: Final = "cXVpcmUtYmVuY2htYXJrcw"
BROKERS: Final = 3
SETTINGS: Final[Mapping[str, Mapping[str, object]]] = MappingProxyType(
    {"default": {}, "synced": {"log.flush.interval.messages": 1}}
)


class Kafka:
    """Three brokers and a JVM with the client."""

    kinds: Sequence[Kind] = ("log", "Kafka's client")

    def __init__(self, directory: Path, setting: str) -> None:
        self.name = f"Kafka {setting}"
        self._settings = SETTINGS[setting]
        self._directory = directory
        self._brokers: list[subprocess.Popen[bytes]] = []
        self._ports = [free_port() for _ in range(BROKERS)]
        self._controllers = [free_port() for _ in range(BROKERS)]
        self._client: KafkaClient | None = None

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
                subprocess.run(java(*words), stdout=log, stderr=log, check=True)
            with (self._directory / f"broker-{number}.log").open("wb") as log:
                command = java("kafka.Kafka", config)
                self._brokers.append(subprocess.Popen(command, stdout=log, stderr=log))
        for port in self._ports:
            wait_for_port(port, self._directory)
        servers = [f"127.0.0.1:{port}" for port in self._ports]
        self._client = KafkaClient(servers, self._directory / "client.log")

    async def run(self, workload: Workload, seconds: float) -> Took:
        """Append to a new topic, or read one back."""
        assert self._client is not None, "start comes first"
        return await self._client.run(workload, seconds)

    def servers(self) -> Sequence[int]:
        """Return the pids of the brokers."""
        return [each.pid for each in self._brokers]

    async def stop(self) -> None:
        """End client and brokers."""
        if self._client is not None:
            self._client.end()
        for each in self._brokers:
            each.kill()
        for each in self._brokers:
            each.wait()
