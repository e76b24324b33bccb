"""PostgreSQL: a primary and two streaming standbys, a table for each log.

A commit returns when the primary and one of the standbys have flushed it: two copies of three.
Alone, an entry is an INSERT with a commit of its own. Entries in flight go as one COPY per commit,
at most 1,000 rows each, one commit after the other on one connection: so rows become visible in the
order of their ids.

Root may not run the servers: they run as `postgres` or `nobody` then.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

import psycopg
from psycopg import sql

from benchmarks.peers.log_peer import LogPeer, append
from benchmarks.peers.machine import with_children
from benchmarks.peers.peer import Took, UnavailableError
from benchmarks.peers.processes import START_SECONDS, STEP_SECONDS, Processes, User
from benchmarks.peers.programs import Found, Wanted, find
from benchmarks.peers.workloads import Workload
from tests.interop.servers import free_port

PROGRAMS: Final = Wanted(
    ("postgres", "initdb", "pg_basebackup"),
    ("postgresql-15", "postgresql-client-15", "libpq5"),
    "usr/lib/postgresql/*/bin",
)
NAMES: Final = ("primary", "a", "b")
SETTINGS: Final[Mapping[str, object]] = MappingProxyType(
    {
        "synchronous_commit": "on",
        "synchronous_standby_names": "ANY 1 (a, b)",
        "fsync": "on",
        # No checkpoint within a run, and a slow standby goes on where it was.
        "max_wal_size": "4GB",
        "wal_keep_size": "4GB",
        "shared_buffers": "512MB",
        # Nothing is ever updated; workers that come and go would not be measured.
        "autovacuum": "off",
    }
)
ROWS_MAX: Final = 1_000
USERS: Final = ("postgres", "nobody")

STREAMING: Final = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"
TABLE: Final = sql.SQL(
    "CREATE TABLE {} (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payload bytea NOT NULL)"
)
INSERT: Final = sql.SQL("INSERT INTO {} (payload) VALUES (%b)")
FILL: Final = sql.SQL("COPY {} (payload) FROM STDIN (FORMAT BINARY)")
READ: Final = sql.SQL("COPY (SELECT payload FROM {} ORDER BY id) TO STDOUT (FORMAT BINARY)")


def configuration(name: str, port: int, primary_port: int) -> str:
    """Return the lines of postgresql.conf of a server."""
    lines = {
        **SETTINGS,
        "listen_addresses": "127.0.0.1",
        "port": port,
        "unix_socket_directories": "",
        "primary_conninfo": ""
        if name == NAMES[0]
        else f"host=127.0.0.1 port={primary_port} user=quire application_name={name}",
    }
    return "".join(f"{key} = '{value}'\n" for key, value in lines.items())


def unprivileged() -> User | None:
    """Return the user of the servers; None: this one.

    Raises:
        UnavailableError: This user is root, and the machine has neither user.
    """
    if os.geteuid():
        return None
    for name in USERS:
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        return User(found.pw_uid, found.pw_gid)
    raise UnavailableError("root may not run it; add a user postgres")


class PostgreSQL(LogPeer):
    """A primary, two standbys and one connection."""

    name = "PostgreSQL"
    failures = (psycopg.Error,)

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._programs: Found = find(PROGRAMS)
        self._user = unprivileged()
        self.processes = Processes(directory, self._user)
        self._ports = [free_port() for _ in NAMES]
        self._connection: psycopg.AsyncConnection | None = None
        self._lock = asyncio.Lock()

    async def launch(self) -> None:
        """Make the primary, copy it, and connect when both standbys stream."""
        if self._user is not None:
            # Enter, but not list.
            self.directory.parent.chmod(0o711)
            os.chown(self.directory, *self._user)
        await self._finish("initdb", "-U", "quire", "-A", "trust", "--locale=C", "-E", "UTF8", "-N")
        await self._serve(0)
        for number in (1, 2):
            await self._copy(number)
            await self._serve(number)
        self._connection = await psycopg.AsyncConnection.connect(
            f"host=127.0.0.1 port={self._ports[0]} user=quire dbname=postgres", autocommit=True
        )
        await self._both_stream()

    async def _finish(self, program: str, *words: str, number: int = 0) -> None:
        command = (self._programs.path(program), "-D", str(self._place(number)), *words)
        name = f"{program}-{NAMES[number]}"
        await self.processes.finish(name, command, self._programs.environment())

    def _place(self, number: int) -> Path:
        return self.directory / NAMES[number]

    async def _copy(self, number: int) -> None:
        primary = ("-h", "127.0.0.1", "-p", str(self._ports[0]), "-U", "quire")
        await self._finish("pg_basebackup", *primary, "-c", "fast", "-N", number=number)
        (self._place(number) / "standby.signal").touch()

    async def _serve(self, number: int) -> None:
        name, port, place = NAMES[number], self._ports[number], self._place(number)
        (place / "postgresql.conf").write_text(configuration(name, port, self._ports[0]))
        command = (self._programs.path("postgres"), "-D", str(place))
        process = self.processes.begin(name, command, self._programs.environment())
        await self.processes.wait_for(name, port, process)

    async def _both_stream(self) -> None:
        for _ in range(int(START_SECONDS / STEP_SECONDS)):
            row = await (await self._client.execute(STREAMING)).fetchone()
            if row == (2,):
                return
            await asyncio.sleep(STEP_SECONDS)
        raise UnavailableError("the standbys do not stream: see pg_stat_replication")

    @property
    def _client(self) -> psycopg.AsyncConnection:
        assert self._connection is not None, "start comes first"
        return self._connection

    async def create(self, log: str) -> None:
        """Create a table with an id and a payload."""
        await self._client.execute(TABLE.format(sql.Identifier(log)))

    async def append_to(self, log: str, workload: Workload, seconds: float) -> Took:
        """Insert one row per commit, or copy a batch per commit."""
        payload = os.urandom(workload.size)
        rows = min(workload.in_flight, ROWS_MAX)

        async def submit() -> asyncio.Task[None]:
            commit = self._insert(log, payload) if rows == 1 else self._fill(log, payload, rows)
            return asyncio.ensure_future(commit)

        return await append(submit, workload.in_flight, seconds, rows)

    async def _insert(self, log: str, payload: bytes) -> None:
        await self._client.execute(INSERT.format(sql.Identifier(log)), (payload,))

    async def _fill(self, log: str, payload: bytes, rows: int) -> None:
        # One COPY after the other: the lock is fair.
        async with (
            self._lock,
            self._client.cursor() as cursor,
            cursor.copy(FILL.format(sql.Identifier(log))) as copy,
        ):
            copy.set_types(["bytea"])
            for _ in range(rows):
                await copy.write_row((payload,))

    async def read_all(self, log: str, entries: int) -> int:
        """Copy all payloads out, in the order of their ids."""
        count = 0
        async with (
            self._client.cursor() as cursor,
            cursor.copy(READ.format(sql.Identifier(log))) as copy,
        ):
            copy.set_types(["bytea"])
            async for _ in copy.rows():
                count += 1
        return count

    def servers(self) -> Sequence[int]:
        """Return the pids of the servers and of their children."""
        return with_children(self.processes.pids())

    async def disconnect(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            await self._connection.close()

    async def stop(self) -> None:
        """End client and servers; a server ends its children."""
        try:
            await self.disconnect()
        finally:
            await self.processes.end(signal.SIGQUIT)
