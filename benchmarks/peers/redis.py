"""Redis: a master and two replicas, a stream for each log.

Every server flushes its append-only file before it answers. An ack is the answer of WAIT 1: one
replica has the entries too, so two copies of three are flushed. Entries in flight go as pipelines
of XADD, at most 500 each, with one WAIT at the end. Later pipelines are on their way meanwhile.

A stream stays in memory. A log is deleted before the next one, except the log that is read.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import redis.asyncio
from redis.exceptions import RedisError

from benchmarks.peers.log_peer import SERVERS, LogPeer, append
from benchmarks.peers.peer import Took, UnavailableError
from benchmarks.peers.processes import START_SECONDS, STEP_SECONDS
from benchmarks.peers.programs import Found, Wanted, find
from benchmarks.peers.workloads import Workload
from tests.interop.servers import free_port

PROGRAMS: Final = Wanted(
    ("redis-server",),
    ("redis-server", "redis-tools", "libjemalloc2", "liblzf1", "libatomic1"),
)
SETTINGS: Final[Mapping[str, object]] = MappingProxyType(
    {
        "appendonly": "yes",
        "appendfsync": "always",
        # Neither a snapshot nor a new file within a run.
        "save": '""',
        "auto-aof-rewrite-percentage": 0,
        "repl-diskless-sync-delay": 0,
    }
)
PIPELINE_MAX: Final = 500
PAGE: Final = 1_000
WAIT_MS: Final = 10_000


def configuration(directory: Path, ports: Sequence[int], number: int) -> str:
    """Return the lines of redis.conf of a server; number 0 is the master."""
    lines = {**SETTINGS, "bind": "127.0.0.1", "port": ports[number], "dir": directory}
    if number:
        lines["replicaof"] = f"127.0.0.1 {ports[0]}"
    return "".join(f"{key} {value}\n" for key, value in lines.items())


class Redis(LogPeer):
    """A master, two replicas and one connection."""

    name = "Redis"
    failures = (RedisError,)

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._programs: Found = find(PROGRAMS)
        self._ports = [free_port() for _ in range(SERVERS)]
        self._connection = redis.asyncio.Connection(
            host="127.0.0.1", port=self._ports[0], socket_timeout=None
        )
        self._answers = asyncio.Lock()

    async def launch(self) -> None:
        """Start the servers, and connect when both replicas follow."""
        for number in range(SERVERS):
            await self._serve(number)
        for _ in range(int(START_SECONDS / STEP_SECONDS)):
            followers = (await self._ask("ROLE"))[2]
            if len(followers) == SERVERS - 1 and await self._ask("WAIT", SERVERS - 1, 100) == 2:
                return
            await asyncio.sleep(STEP_SECONDS)
        raise UnavailableError(f"the replicas do not follow: see the logs in {self.directory}")

    async def _serve(self, number: int) -> None:
        name, place = f"redis-{number}", self.directory / f"{number}"
        place.mkdir()
        config = place / "redis.conf"
        config.write_text(configuration(place, self._ports, number))
        command = (self._programs.path("redis-server"), str(config))
        process = self.processes.begin(name, command, self._programs.environment())
        await self.processes.wait_for(name, self._ports[number], process)

    async def _ask(self, *words: object) -> Any:
        await self._connection.send_command(*words)  # connects before the first one
        async with self._answers:
            return await self._connection.read_response()

    async def create(self, log: str) -> None:
        """Delete the logs that no reading needs; a stream begins with its first entry."""
        kept = () if self._last is None else (self._last[0],)
        for key in await self._ask("KEYS", "*"):
            if key.decode() not in kept:
                await self._ask("DEL", key)

    async def append_to(self, log: str, workload: Workload, seconds: float) -> Took:
        """Send pipelines of XADD with a WAIT each."""
        size = min(workload.in_flight, PIPELINE_MAX)
        payload = os.urandom(workload.size)
        commands = [("XADD", log, "*", "p", payload)] * size + [("WAIT", 1, WAIT_MS)]

        async def submit() -> asyncio.Task[None]:
            packed = self._connection.pack_commands(commands)
            await self._connection.send_packed_command(packed, check_health=False)
            return asyncio.ensure_future(self._confirm(size))

        return await append(submit, workload.in_flight, seconds, size)

    async def _confirm(self, size: int) -> None:
        # The lock is fair, so answers are read in the order of their pipelines.
        async with self._answers:
            for _ in range(size):
                await self._connection.read_response()
            copies = await self._connection.read_response()
        if not copies:
            raise RedisError(f"no replica has the entries after {WAIT_MS} ms")

    async def read_all(self, log: str, entries: int) -> int:
        """Read pages of a stream."""
        count, after = 0, b"-"
        while page := await self._ask("XRANGE", log, after, "+", "COUNT", PAGE):
            count += len(page)
            after = b"(" + page[-1][0]
        return count

    async def disconnect(self) -> None:
        """Close the connection."""
        await self._connection.disconnect(nowait=True)
