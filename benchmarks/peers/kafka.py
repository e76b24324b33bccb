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
from threading import Lock
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


class KafkaBrokers:
    """Three brokers, each a process.

    Args:
        directory: for configurations, logs and data; it does not exist yet.
        setting: a key of `SETTINGS`.
    """

    def __init__(self, directory: Path, setting: str) -> None:
        self._settings = SETTINGS[setting]
        self._directory = directory
        self._brokers: list[subprocess.Popen[bytes]] = []
        self._ports = [free_port() for _ in range(BROKERS)]
        self._controllers = [free_port() for _ in range(BROKERS)]
        self._lock = Lock()
        self._is_over = False

    @property
    def addresses(self) -> Sequence[str]:
        """The brokers as host:port."""
        return [f"127.0.0.1:{port}" for port in self._ports]

    def _configure(self, number: int) -> Path:
        voters = ",".join(
            f"{other}@127.0.0.1:{port}" for other, port in enumerate(self._controllers)
        )
        broker = f"PLAINTEXT://{self.addresses[number]}"
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

    def start(self) -> None:
        """Format, start the brokers, and return when they listen.

        Raises `TimeoutError`, also when `stop` is called meanwhile from another thread.
        """
        self._directory.mkdir(parents=True)
        for number in range(BROKERS):
            config = self._configure(number)
            words = ("kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", config)
            with (self._directory / f"format-{number}.log").open("wb") as log:
                subprocess.run(java(*words), stdout=log, stderr=log, check=True)
            self._launch(number, config)
        for port, broker in zip(self._ports, self._brokers, strict=True):
            wait_for_port(port, self._directory, broker)

    def _launch(self, number: int, config: Path) -> None:
        with self._lock, (self._directory / f"broker-{number}.log").open("wb") as log:
            if self._is_over:
                raise TimeoutError(f"the brokers in {self._directory} are ended already")
            command = java("kafka.Kafka", config)
            self._brokers.append(subprocess.Popen(command, stdout=log, stderr=log))

    def pids(self) -> Sequence[int]:
        """Return the pids of the brokers."""
        return [each.pid for each in self._brokers]

    def stop(self) -> None:
        """End the brokers that were started; no other one starts."""
        with self._lock:
            self._is_over = True
        for each in self._brokers:
            each.kill()
        for each in self._brokers:
            each.wait()


class Kafka:
    """Three brokers and a JVM with the client."""

    kinds: Sequence[Kind] = ("log", "Kafka's client")

    def __init__(self, directory: Path, setting: str) -> None:
        self.name = f"Kafka {setting}"
        self._directory = directory
        self._brokers = KafkaBrokers(directory, setting)
        self._client: KafkaClient | None = None

    async def start(self) -> None:
        """Format, and start brokers and client."""
        await asyncio.to_thread(self._brokers.start)
        self._client = KafkaClient(self._brokers.addresses, self._directory / "client.log")

    async def run(self, workload: Workload, seconds: float) -> Took:
        """Append to a new topic, or read one back."""
        assert self._client is not None, "start comes first"
        return await self._client.run(workload, seconds)

    def servers(self) -> Sequence[int]:
        """Return the pids of the brokers."""
        return self._brokers.pids()

    async def stop(self) -> None:
        """End client and brokers."""
        if self._client is not None:
            self._client.bench.end()
        self._brokers.stop()
