"""etcd: a cluster of three, a prefix of keys for each log.

Every entry is one Put over gRPC, to the leader. Raft acknowledges it when two members of three have
flushed it. The client has no more than 4,000 Puts in flight: etcd refuses more when 5,000 entries
are committed and not yet applied.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import grpc
import grpc.aio

from benchmarks.peers import etcd_messages as messages
from benchmarks.peers.log_peer import SERVERS, LogPeer, Pending, append
from benchmarks.peers.peer import Took, UnavailableError
from benchmarks.peers.processes import START_SECONDS, STEP_SECONDS
from benchmarks.peers.programs import Found, Wanted, find
from benchmarks.peers.workloads import Workload
from tests.interop.servers import free_port

PROGRAMS: Final = Wanted(("etcd",), ("etcd-server",))
SETTINGS: Final[Mapping[str, object]] = MappingProxyType(
    {
        # The default of 2 GiB would end a long comparison.
        "quota-backend-bytes": 8 << 30,
        "heartbeat-interval": 100,
        "election-timeout": 3000,
        "log-level": "error",
        "logger": "zap",
    }
)
IN_FLIGHT_MAX: Final = 4_000
PAGE: Final = 1_000
PATIENCE: Final[Mapping[str, Any]] = {"wait_for_ready": True, "timeout": START_SECONDS}
OPTIONS: Final = (("grpc.max_receive_message_length", -1),)


def options(
    directory: Path, clients: Sequence[int], peers: Sequence[int], number: int
) -> list[str]:
    """Return the options of a member.

    Args:
        directory: of its data.
        clients: ports for clients, of all members.
        peers: ports for members, of all members.
        number: of this member.
    """
    urls = [f"http://127.0.0.1:{port}" for port in peers]
    client = f"http://127.0.0.1:{clients[number]}"
    lines = {
        **SETTINGS,
        "name": f"etcd-{number}",
        "data-dir": directory,
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": urls[number],
        "initial-advertise-peer-urls": urls[number],
        "initial-cluster": ",".join(f"etcd-{other}={url}" for other, url in enumerate(urls)),
    }
    return [f"--{key}={value}" for key, value in lines.items()]


class Etcd(LogPeer):
    """Three members and a channel to the leader."""

    name = "etcd"
    failures = (grpc.RpcError, ValueError)

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._programs: Found = find(PROGRAMS)
        self._clients = [free_port() for _ in range(SERVERS)]
        self._peers = [free_port() for _ in range(SERVERS)]
        self._channels: list[grpc.aio.Channel] = []
        self._leader: grpc.aio.Channel | None = None

    async def launch(self) -> None:
        """Start the members, and find the leader."""
        started = [self._serve(number) for number in range(SERVERS)]
        for name, port, process in started:
            await self.processes.wait_for(name, port, process)
        self._channels = [
            grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=OPTIONS)
            for port in self._clients
        ]
        for _ in range(int(START_SECONDS / STEP_SECONDS)):
            for channel in self._channels:
                status = _method(channel, messages.STATUS)(b"", **PATIENCE)
                if messages.is_leader(await status):
                    self._leader = channel
                    return
            await asyncio.sleep(STEP_SECONDS)
        raise UnavailableError(f"no member leads: see the logs in {self.directory}")

    def _serve(self, number: int) -> tuple[str, int, subprocess.Popen[bytes]]:
        name, port = f"etcd-{number}", self._clients[number]
        words = options(self.directory / f"{number}", self._clients, self._peers, number)
        command = (self._programs.path("etcd"), *words)
        return name, port, self.processes.begin(name, command, self._programs.environment())

    async def create(self, log: str) -> None:
        """Nothing: a prefix begins with its first key."""

    async def append_to(self, log: str, workload: Workload, seconds: float) -> Took:
        """Put keys with a number each."""
        assert self._leader is not None, "start comes first"
        put = _method(self._leader, messages.PUT)
        payload = os.urandom(workload.size)
        numbers = count()

        async def submit() -> Pending:
            call: Pending = put(messages.put_request(_key(log, next(numbers)), payload))
            return call

        return await append(submit, min(workload.in_flight, IN_FLIGHT_MAX), seconds)

    async def read_all(self, log: str, entries: int) -> int:
        """Read pages of keys with their values."""
        assert self._leader is not None, "start comes first"
        read = _method(self._leader, messages.RANGE)
        found, first, end = 0, _key(log, 0), log.encode() + b"0"
        while page := messages.pairs(await read(messages.range_request(first, end, PAGE))):
            found += len(page)
            first = page[-1].key + b"\0"
        return found

    async def disconnect(self) -> None:
        """Close the channels."""
        for channel in self._channels:
            await channel.close(None)


def _key(log: str, number: int) -> bytes:
    return f"{log}/{number:012}".encode()


def _method(channel: grpc.aio.Channel, path: str) -> Callable[..., Any]:
    """Return a method that takes and gives bytes."""
    method: Callable[..., Any] = channel.unary_unary(
        path, request_serializer=bytes, response_deserializer=bytes
    )
    return method
