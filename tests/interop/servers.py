"""Apache's servers from their published jars: one ZooKeeper and some bookies, on 127.0.0.1."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from quire.cluster.zookeeper.java import find_java
from tests.interop.jars import class_path, program

STORAGES = {
    "db": "org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage",
    "sorted": "org.apache.bookkeeper.bookie.SortedLedgerStorage",
}
OPENED = ("java.io", "java.util.zip", "sun.nio.ch", "jdk.internal.loader", "java.nio")
LOG = """<Configuration><Appenders><Console name="C" target="SYSTEM_ERR"/></Appenders>
<Loggers><Root level="ERROR"><AppenderRef ref="C"/></Root></Loggers></Configuration>
"""
START_SECONDS = 600.0
MEASURED_MEMORY = ("-Xmx1g", "-XX:MaxDirectMemorySize=1g")
"""Of a bookie that is measured. With 256 MiB for buffers one ended under a thousand entries of
64 KiB in flight.
"""
SOURCE = Path(__file__).with_name("Client.java")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for_port(
    port: int, directory: Path, process: subprocess.Popen[bytes] | None = None
) -> None:
    """Return when a port listens. Raises `TimeoutError`, which names the directory of the logs,
    also when the process that shall listen has ended.
    """
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and (process is None or process.poll() is None):
        try:
            socket.create_connection(("127.0.0.1", port), 1.0).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise TimeoutError(f"port {port} does not listen: see the logs in {directory}")


class ApacheServers:
    """`with ApacheServers(...)`: started. `kill`, `stop`, `go_on`, `start` concern one bookie."""

    def __init__(
        self,
        directory: Path,
        jars: Path,
        storage: str,
        bookies: int = 4,
        *,
        thorough: bool = False,
        settings: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        """Take `thorough` for servers that are measured: Java then compiles as by default.

        `settings` of the bookies stand beside, or instead of, those of the tests.
        """
        self._settings = settings
        self._thorough = thorough
        self._flags = () if thorough else ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        self.directory = directory
        self.jars = jars
        self._storage = STORAGES[storage]
        self.port = free_port()
        self.bookies = {f"bk{number}": free_port() for number in range(bookies)}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def metadata(self) -> str:
        return f"zk+hierarchical://127.0.0.1:{self.port}/ledgers"

    @property
    def uri(self) -> str:
        return f"zk://127.0.0.1:{self.port}/?ledgers=bookkeeper:/ledgers"

    @property
    def writable_uri(self) -> str:
        return f"{self.uri}&write=true"

    def java(self, *arguments: str) -> list[str]:
        opened = [f"--add-opens=java.base/{each}=ALL-UNNAMED" for each in OPENED]
        return [
            *(str(find_java()), *opened, *self._flags, "-Djava.net.preferIPv4Stack=true"),
            # Libraries are unpacked there, 15 MB a server, and stay when it is killed.
            f"-Djava.io.tmpdir={self.directory}",
            "-Dio.netty.tryReflectionSetAccessible=true",
            *(f"-Dlog4j2.configurationFile={self.directory / 'log4j2.xml'}", "-cp"),
            *(class_path(self.jars), *arguments),
        ]

    def __enter__(self) -> Self:
        (self.directory / "zk").mkdir(parents=True)
        (self.directory / "log4j2.xml").write_text(LOG, encoding="utf-8")
        try:
            self._start_zookeeper()
            self._found()
            for name in self.bookies:
                self._launch(name)
            for name in self.bookies:
                self._wait_for(name)
        except BaseException:
            self._end()
            raise
        return self

    def _found(self) -> None:
        """Make the records that a cluster begins with."""
        initial = self._configure("bk0", self.bookies["bk0"])
        shell = "org.apache.bookkeeper.bookie.BookieShell"
        with (self.directory / "init.log").open("wb") as log:
            command = self.java(shell, "-conf", str(initial), "initnewcluster")
            subprocess.run(command, stdout=log, stderr=log, check=True)

    def _start_zookeeper(self) -> None:
        lines = {
            "tickTime": 2000,
            "dataDir": self.directory / "zk",
            "clientPort": self.port,
            "clientPortAddress": "127.0.0.1",
            "admin.enableServer": "false",
        }
        config = self.directory / "zoo.cfg"
        config.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        main = "org.apache.zookeeper.server.ZooKeeperServerMain"
        self._begin("zookeeper", self.java(main, str(config)))
        wait_for_port(self.port, self.directory, self._processes["zookeeper"])

    def _configure(self, name: str, port: int) -> Path:
        lines = {
            "bookiePort": port,
            "bookieId": name,
            "advertisedAddress": "127.0.0.1",
            "allowLoopback": "true",
            "listeningInterface": "lo",
            "httpServerEnabled": "false",
            "metadataServiceUri": self.metadata,
            "journalDirectories": self.directory / name / "journal",
            "ledgerDirectories": self.directory / name / "ledgers",
            "ledgerStorageClass": self._storage,
            "dbStorage_writeCacheMaxSizeMb": 16,
            "dbStorage_readAheadCacheMaxSizeMb": 16,
            "dbStorage_rocksDB_blockCacheSize": 8 << 20,
            "journalSyncData": "true",
            "journalMaxBackups": 0,
            "diskUsageThreshold": 0.99,
            "diskUsageWarnThreshold": 0.98,
            **self._settings,
        }
        for each in ("journal", "ledgers"):
            (self.directory / name / each).mkdir(parents=True, exist_ok=True)
        config = self.directory / f"{name}.conf"
        config.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        return config

    def _launch(self, name: str) -> None:
        config = self._configure(name, self.bookies[name])
        heap = MEASURED_MEMORY if self._thorough else ("-Xmx160m", "-XX:MaxDirectMemorySize=256m")
        command = self.java("org.apache.bookkeeper.server.Main", "--conf", str(config))
        self._begin(name, [command[0], *heap, *command[1:]])

    def _begin(self, name: str, command: list[str]) -> None:
        with (self.directory / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(command, stdout=log, stderr=log)

    def knows_batches(self, bookie: str) -> bool:
        """Whether the release of a bookie has batch reads."""
        major, minor = self.jars.parent.name.split(".")[:2]
        return (int(major), int(minor)) >= (4, 17)

    def pids(self) -> list[int]:
        """Return the pids of the bookies."""
        return [self._processes[name].pid for name in self.bookies]

    def kill(self, bookie: str) -> None:
        """End a bookie as a crash would."""
        self._processes[bookie].kill()
        self._processes[bookie].wait()

    def start(self, bookie: str) -> None:
        """Start a bookie that was killed; ZooKeeper has forgotten it by then."""
        self._launch(bookie)
        self._wait_for(bookie)

    def _wait_for(self, bookie: str) -> None:
        wait_for_port(self.bookies[bookie], self.directory, self._processes[bookie])

    def ensure(self, bookie: str) -> None:
        """Start a bookie unless it runs."""
        if self._processes[bookie].poll() is not None:
            self.start(bookie)

    def stop(self, bookie: str) -> None:
        os.kill(self._processes[bookie].pid, signal.SIGSTOP)

    def go_on(self, bookie: str) -> None:
        os.kill(self._processes[bookie].pid, signal.SIGCONT)

    def _end(self) -> None:
        for process in reversed(self._processes.values()):
            process.kill()
        for process in self._processes.values():
            process.wait()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end()


class JavaProgram:
    """A program that says `ready` and then answers commands; an answer, or `JavaError`."""

    def __init__(self, command: list[str], log: Path) -> None:
        """Start it, and wait until it is ready. Its standard error goes to `log`."""
        self._log = log
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with log.open("ab") as errors:
            self._process = subprocess.Popen(command, **pipes, stderr=errors, text=True)  # type: ignore[call-overload]
        self._read_until("ready")

    def _read_until(self, *words: str) -> str:
        for line in self._process.stdout:
            if line.split(" ")[0].strip() in words:
                return str(line).strip()
        raise JavaError(f"the process ended: see {self._log.name}")

    def ask(self, *words: object) -> str:
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        kind, _, answer = self._read_until("ok", "error").partition(" ")
        if kind == "error":
            raise JavaError(answer)
        return answer

    def kill(self) -> None:
        """End it in the middle of a command, which then raises `JavaError`."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()


class JavaClient(JavaProgram):
    """Apache's client in a process of its own."""

    def __init__(
        self,
        servers: ApacheServers,
        protocol: str = "v3",
        seconds: int = 3,
        source: Path = SOURCE,
        more: Sequence[object] = (),
    ) -> None:
        """Start it from its source; `seconds` is the limit of its requests to bookies, and `more`
        are further arguments of the program.
        """
        words = (servers.metadata, protocol, str(seconds), *map(str, more))
        command = servers.java(*program(source), *words)
        super().__init__(command, servers.directory / "java.log")


class JavaError(Exception):
    """The name of an exception of the Java client."""
