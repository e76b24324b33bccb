"""The systems that the benchmark runs before: Kafka in two settings, and quire with a gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol

from benchmarks.peers.kafka import KafkaBrokers
from quire.cluster import LocalCluster
from tests.gateway.process import GatewayProcess

BOOKIES: Final = 3
OWN: Final = "quire"


class System(Protocol):
    """Servers on this machine that Kafka's clients reach."""

    @property
    def name(self) -> str:
        """Short, for the head of a column."""

    @property
    def topic(self) -> Mapping[str, object]:
        """Options of a topic that the benchmark creates."""

    async def start(self) -> Sequence[str]:
        """Start the servers, and return the brokers as host:port."""

    def servers(self) -> Sequence[int]:
        """Return the pids of the servers."""

    async def stop(self) -> None:
        """End the servers that were started."""


class KafkaSystem:
    """Three brokers of Apache Kafka."""

    topic: Mapping[str, object] = MappingProxyType({"min.insync.replicas": 2})

    def __init__(self, directory: Path, setting: str) -> None:
        """`directory` does not exist yet; `setting` is `default` or `synced`."""
        self.name = f"Kafka {setting}"
        self._brokers = KafkaBrokers(directory, setting)

    async def start(self) -> Sequence[str]:
        """Start the brokers, and return them as host:port."""
        await asyncio.to_thread(self._brokers.start)
        return self._brokers.addresses

    def servers(self) -> Sequence[int]:
        """Return the pids of the brokers."""
        return self._brokers.pids()

    async def stop(self) -> None:
        """End the brokers."""
        await asyncio.to_thread(self._brokers.stop)


class GatewaySystem:
    """Three bookies and a gateway. Each record has three copies, and an ack waits for two."""

    name = OWN
    topic: Mapping[str, object] = MappingProxyType({})

    def __init__(self, directory: Path) -> None:
        """`directory` is for bookies and for what the gateway says."""
        self._directory = directory
        self._cluster = LocalCluster(directory, bookies=BOOKIES)
        self._gateway: GatewayProcess | None = None

    async def start(self) -> Sequence[str]:
        """Start bookies and gateway, and return the gateway as host:port."""
        await self._cluster.start()
        log = self._directory / "gateway.log"
        self._gateway = GatewayProcess(self._cluster.store_uri, log)
        return [(await asyncio.to_thread(self._gateway.start)).kafka]

    def servers(self) -> Sequence[int]:
        """Return the pids of bookies and gateway."""
        assert self._gateway is not None, "start comes first"
        return [*(self._cluster.pid(index) for index in range(BOOKIES)), self._gateway.pid]

    async def stop(self) -> None:
        """End gateway and bookies."""
        if self._gateway is not None:
            await asyncio.to_thread(self._gateway.end)
        await self._cluster.stop()
