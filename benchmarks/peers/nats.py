"""NATS JetStream: three servers, a stream of three copies for each log.

An ack comes when two servers of three have stored the entry. NATS 2.9 has no `sync_interval`: its
servers store entries in the page cache, and flush them every two minutes. So this peer is not
synced, and its name says so.

The client publishes through the server that leads the stream.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

import nats
from nats.aio.client import Client
from nats.errors import Error
from nats.js import JetStreamContext
from nats.js.api import StorageType, StreamConfig

from benchmarks.peers.log_peer import SERVERS, LogPeer, Pending, append
from benchmarks.peers.peer import Took, UnavailableError
from benchmarks.peers.processes import START_SECONDS, STEP_SECONDS
from benchmarks.peers.programs import Found, Wanted, find
from benchmarks.peers.workloads import Workload
from tests.interop.servers import free_port

PROGRAMS: Final = Wanted(("nats-server",), ("nats-server",))
SETTINGS: Final[Mapping[str, object]] = MappingProxyType(
    {"max_memory_store": 1 << 30, "max_file_store": 64 << 30}
)
COPIES: Final = 3
IN_FLIGHT_MAX: Final = 20_000
SILENCE_SECONDS: Final = 10.0


def configuration(
    directory: Path, clients: Sequence[int], routes: Sequence[int], number: int
) -> str:
    """Return the configuration of a server, in JSON.

    Args:
        directory: of its data.
        clients: ports for clients, of all servers.
        routes: ports for servers, of all servers.
        number: of this server.
    """
    lines = {
        "server_name": f"nats-{number}",
        "listen": f"127.0.0.1:{clients[number]}",
        "jetstream": {**SETTINGS, "store_dir": str(directory)},
        "cluster": {
            "name": "peers",
            "listen": f"127.0.0.1:{routes[number]}",
            "routes": [f"nats://127.0.0.1:{port}" for port in routes],
        },
    }
    return json.dumps(lines, indent=1) + "\n"


class Nats(LogPeer):
    """Three servers and a connection to each."""

    name = "NATS (not synced)"
    failures = (Error, TimeoutError)

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._programs: Found = find(PROGRAMS)
        self._ports = [free_port() for _ in range(SERVERS)]
        self._routes = [free_port() for _ in range(SERVERS)]
        self._clients: list[Client] = []
        self._streams: list[JetStreamContext] = []
        self._leaders: dict[str, JetStreamContext] = {}

    async def launch(self) -> None:
        """Start the servers, connect, and wait until they elect leaders of streams."""
        started = [self._serve(number) for number in range(SERVERS)]
        for number, process in enumerate(started):
            await self.processes.wait_for(f"nats-{number}", self._ports[number], process)
        for port in self._ports:
            client = await nats.connect(f"nats://127.0.0.1:{port}", allow_reconnect=False)
            self._clients.append(client)
            self._streams.append(client.jetstream(publish_async_max_pending=IN_FLIGHT_MAX))
        for _ in range(int(START_SECONDS / STEP_SECONDS)):
            try:
                return await self.create("peer_0")
            except self.failures:
                await asyncio.sleep(STEP_SECONDS)
        raise UnavailableError(f"no server leads: see the logs in {self.directory}")

    def _serve(self, number: int) -> subprocess.Popen[bytes]:
        place = self.directory / f"{number}"
        config = self.directory / f"{number}.json"
        config.write_text(configuration(place, self._ports, self._routes, number))
        command = (self._programs.path("nats-server"), "-c", str(config))
        return self.processes.begin(f"nats-{number}", command, self._programs.environment())

    async def create(self, log: str) -> None:
        """Create a stream with a subject of its name, and note its leader."""
        config = StreamConfig(
            name=log, subjects=[log], num_replicas=COPIES, storage=StorageType.FILE
        )
        made = await self._streams[0].add_stream(config)
        leader = made.cluster.leader if made.cluster else None
        if leader is None:
            raise Error(f"stream {log} has no leader")
        self._leaders[log] = self._streams[int(leader.removeprefix("nats-"))]

    async def append_to(self, log: str, workload: Workload, seconds: float) -> Took:
        """Publish without waiting for acks in between."""
        publish = self._leaders[log].publish_async
        payload = os.urandom(workload.size)

        async def submit() -> Pending:
            future: Pending = await publish(log, payload, stream=log)
            return future

        return await append(submit, min(workload.in_flight, IN_FLIGHT_MAX), seconds)

    async def read_all(self, log: str, entries: int) -> int:
        """Read by an ordered consumer."""
        subscription = await self._leaders[log].subscribe(log, stream=log, ordered_consumer=True)
        for _ in range(entries):
            await subscription.next_msg(SILENCE_SECONDS)
        await subscription.unsubscribe()
        return entries

    async def disconnect(self) -> None:
        """Close the connections."""
        for client in self._clients:
            await client.close()
