"""A ZooKeeper server of our own, for tests and local clusters; alone or in an ensemble.

The server listens on 127.0.0.1 only and keeps everything below one directory:

    zoo.cfg   data/   zookeeper.out   LOCK

It runs there and is told relative paths: Java reads zoo.cfg as Latin-1 and takes backslashes for
escapes, so that another name than a plain one would lead elsewhere. ZooKeeper itself lets any
number of servers write to one disk; so the server holds a lock as long as it lives.

Calls block, for about a third of a second; from an event loop make them in a thread. The process
that starts a server stops it. If its owner is killed the server is killed too: a shell between the
two holds one end of a pipe from the owner (`_GUARD`). Signals go to the server's own process id.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quire.cluster.zookeeper.java import find_jars, find_java
from quire.errors import ConfigurationError, StoreUnavailableError
from quire.metastore.zookeeper_probe import PROBE_SECONDS, ServerStatus, probe

START_SECONDS: Final = 30.0
STOP_SECONDS: Final = 10.0
TICK_MILLISECONDS: Final = 500
"""Sessions are granted 2 to 120 ticks, and expire at a tick."""

INIT_TICKS: Final = 40
SYNC_TICKS: Final = 20
"""How long a server of an ensemble may take to join its leader, and then to follow it."""

LOCK_NAME: Final = "LOCK"

LOCK_SECONDS: Final = 2.0
"""How long a start waits for the server before it, which may be about to die with its owner."""

_JAVA_OPTIONS: Final = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xmx512m",
    "-XX:+ExitOnOutOfMemoryError",
)
"""Quick to start and small. Every record is in memory: about 1 KiB for a ledger's record."""

_START_ATTEMPTS: Final = 3

_CONFIG: Final = "zoo.cfg"
_OUTPUT: Final = "zookeeper.out"

_GUARD: Final = """
exec 3<&0 4<&2 2>/dev/null
output=$1; shift
"$@" </dev/null >>"$output" 2>&1 3<&- &
server=$!
echo "$server"
{ read -r _ <&3; kill -KILL "$server"; } >/dev/null 4<&- &
watcher=$!
exec 3<&-
wait "$server"; code=$?
kill "$watcher" 2>/dev/null
exit "$code"
"""
"""Starts the server, tells its process id, ends as it does, and kills it when the pipe closes.

It is given the lock in the place of its standard error; the server keeps it, its watcher does not.
"""


@dataclass(frozen=True, slots=True)
class EnsembleMember:
    """A server's part in an ensemble: its number, and the ports its peers find it at."""

    number: int
    quorum_port: int
    election_port: int

    @property
    def line(self) -> str:
        """The member as every server's configuration names it."""
        return f"server.{self.number}=127.0.0.1:{self.quorum_port}:{self.election_port}\n"


class ZooKeeperServer:
    """One server process. The port stays the same over restarts."""

    def __init__(
        self,
        directory: Path,
        *,
        java: Path | None = None,
        jars: Path | None = None,
        sync: bool = True,
        tick_milliseconds: int = TICK_MILLISECONDS,
        settings: Mapping[str, str] | None = None,
        java_options: Sequence[str] = (),
        tls: bool = False,
    ) -> None:
        """Prepare a server that lives in `directory`, which is made as needed.

        `jars` is a folder; without it pyspark's are used. Without `sync` changes are lost with the
        machine (not with the process): for tests. `settings` are lines of zoo.cfg. `tls` only adds
        the jars for it. Raises `ConfigurationError` when Java or the jars are missing; it says what
        to install.
        """
        self.directory = directory
        self._java = (java or find_java()).absolute()
        self._jars = [jar.absolute() for jar in find_jars(jars, tls=tls)]
        self._java_options = [*java_options, *([] if sync else ["-Dzookeeper.forceSync=no"])]
        self._tick_milliseconds = tick_milliseconds
        self._settings = dict(settings or {})
        self._port: int | None = None
        self._member: EnsembleMember | None = None
        self._members: tuple[EnsembleMember, ...] = ()
        self._process: subprocess.Popen[bytes] | None = None
        self._server_pid: int | None = None

    @property
    def port(self) -> int:
        """The port for clients; known once started, or assigned."""
        assert self._port is not None
        return self._port

    @property
    def ports(self) -> tuple[int, ...]:
        """Every port it listens at; known once started, or assigned."""
        member = self._member
        return (self.port, *((member.quorum_port, member.election_port) if member else ()))

    @property
    def address(self) -> str:
        """host:port; known once started."""
        return f"127.0.0.1:{self.port}"

    @property
    def uri(self) -> str:
        """What `open_store` takes; a root may be appended."""
        return f"zk://{self.address}"

    @property
    def pid(self) -> int | None:
        """The server's process id while it runs; None until its guard has told it."""
        running = self._process is not None and self._process.poll() is None
        return self._server_pid if running else None

    def assign(
        self, port: int, member: EnsembleMember | None, members: tuple[EnsembleMember, ...]
    ) -> None:
        """Choose the port, and the part in an ensemble, from the next start on."""
        self._port, self._member, self._members = port, member, members

    def start(self) -> None:
        """Start the server and return when it serves. Raises `StoreUnavailableError`, and
        `ConfigurationError` when another server uses the directory.
        """
        if self.pid is not None:
            return
        keep_port = self._port is not None
        for attempt in range(_START_ATTEMPTS):
            # Another process may take a port after it was found free, before the server binds it.
            self._port = self._port if keep_port else free_ports(1)[0]
            self.launch()
            if self.wait_until_serving():
                return
            self.stop()
            if keep_port or attempt == _START_ATTEMPTS - 1:
                break
        raise StoreUnavailableError(self.uri, f"the server did not start: {self.last_words()}")

    def stop(self) -> None:
        """End the process and wait for it. Harmless when it does not run."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the process as a crash would, and wait for it."""
        self._end(signal.SIGKILL)

    def interrupt(self) -> None:
        """Kill the process if there is one, without waiting: a start under way fails by it."""
        self._signal(signal.SIGKILL)

    def pause(self) -> None:
        """Freeze the process: its connections stay open, and no request is answered."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused process go on."""
        self._signal(signal.SIGCONT)

    def status(self) -> ServerStatus | None:
        """Return the server's description of itself; None while it does not serve."""
        return None if self._port is None else probe("127.0.0.1", self._port)

    def __enter__(self) -> ZooKeeperServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def launch(self) -> None:
        """Start the process without waiting for it to serve. Raises `ConfigurationError` when
        another server uses the directory.
        """
        self.kill()  # a server may outlive its guard, and would keep the lock
        (self.directory / "data").mkdir(parents=True, exist_ok=True)
        with _locked(self.directory) as lock:
            (self.directory / _CONFIG).write_text(self._config())
            if self._member is not None:
                (self.directory / "data" / "myid").write_text(f"{self._member.number}\n")
            # An interrupt of a start from another thread must not signal process 0, which means all
            # of our own process group, nor the previous server.
            self._server_pid = None
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _GUARD, "zookeeper", _OUTPUT, *self._command()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=lock,
                cwd=self.directory,
                # Java cannot even find its own directory if its locale cannot represent the name.
                env={**os.environ, "LC_ALL": "C.UTF-8"},
                # Ctrl-C at the terminal is for us: we stop the server in our own time.
                start_new_session=True,
            )
        assert self._process.stdout is not None
        with self._process.stdout as told:
            line = told.readline()
        self._server_pid = int(line) if line else None

    def wait_until_serving(self) -> bool:
        """Return True once the server serves, False when it ended or START_SECONDS are over."""
        deadline = time.monotonic() + START_SECONDS
        while self.pid is not None and time.monotonic() < deadline:
            if self.status() is not None:
                return True
            time.sleep(PROBE_SECONDS / 20)
        return False

    def last_words(self) -> str:
        """Return the last lines of the server's output."""
        with suppress(OSError):
            lines = (self.directory / _OUTPUT).read_text(errors="replace").splitlines()
            return " / ".join(lines[-5:]) or "it said nothing"
        return "it said nothing"

    def _config(self) -> str:
        settings = {
            "tickTime": self._tick_milliseconds,
            "maxSessionTimeout": self._tick_milliseconds * 120,
            "dataDir": "./data",
            "clientPort": self._port,
            "clientPortAddress": "127.0.0.1",
            "maxClientCnxns": 0,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "srvr",
            "initLimit": INIT_TICKS,
            "syncLimit": SYNC_TICKS,
            **self._settings,
        }
        lines = "".join(f"{name}={value}\n" for name, value in settings.items())
        return lines + "".join(member.line for member in self._members)

    def _command(self) -> list[str]:
        options = [*_JAVA_OPTIONS, *self._java_options]
        class_path = os.pathsep.join(str(jar) for jar in self._jars)
        main = "quorum.QuorumPeerMain" if self._members else "ZooKeeperServerMain"
        name = f"org.apache.zookeeper.server.{main}"
        return [str(self._java), *options, "-cp", class_path, name, f"./{_CONFIG}"]

    def _signal(self, number: signal.Signals) -> None:
        if (pid := self.pid) is not None:
            # The server may have ended and its guard not yet: its number is not reused so soon.
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _end(self, how: signal.Signals) -> None:
        process = self._process
        if process is None:
            return
        self._signal(how)
        self._signal(signal.SIGCONT)
        assert process.stdin is not None
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            process.wait()
        process.stdin.close()
        self._process = None


@contextmanager
def _locked(directory: Path) -> Iterator[int]:
    """Return a descriptor of a lock that lasts as long as a process holds it or inherited it.

    Raises `ConfigurationError` when another process holds it.
    """
    descriptor = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        deadline = time.monotonic() + LOCK_SECONDS
        while not _lock(descriptor):
            if time.monotonic() >= deadline:
                raise ConfigurationError(
                    f"{directory} is in use by another ZooKeeper server: stop it, or the cluster "
                    "that it belongs to, or use another directory"
                )
            time.sleep(LOCK_SECONDS / 40)
        yield descriptor
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def free_ports(count: int) -> list[int]:
    """Return some free ports: no process listens at them now."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in probes:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in probes]


def is_free(port: int) -> bool:
    """Return whether a server could listen at a port now."""
    with socket.socket() as each:
        each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            each.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
