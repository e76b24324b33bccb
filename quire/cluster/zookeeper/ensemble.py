"""A ZooKeeper ensemble of our own on this machine: one server, or three or five that agree.

    DIRECTORY/zookeeper-1/   DIRECTORY/zookeeper-2/   ...   one server each (zookeeper_server.py)

The number of servers is decided when the directory is first used: servers that join with empty
disks could outvote the server with the data, so another number is refused. Ports are kept over
restarts when they are still free, so that the ensemble is found at the same address again.

Calls block; from an event loop make them in a thread.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from quire.cluster.zookeeper.server import EnsembleMember, ZooKeeperServer, free_ports, is_free
from quire.errors import ConfigurationError, StoreUnavailableError

SIZES: Final = (1, 3, 5)
"""Odd numbers: a fourth server would survive no more failures than three do."""

_START_ATTEMPTS: Final = 3
_PORT: Final = re.compile(r"^clientPort=(\d+)$", re.MULTILINE)


class ZooKeeperEnsemble:
    """The servers of one ensemble, started and stopped together or one by one."""

    def __init__(self, directory: Path, size: int = 1, **options: Any) -> None:
        """Prepare an ensemble below `directory`; `options` go to every `ZooKeeperServer`.

        Raises `ConfigurationError` for another size than 1, 3 or 5, or than the directory has; and
        when Java or the jars are missing.
        """
        if size not in SIZES:
            raise ConfigurationError(f"an ensemble has 1, 3 or 5 ZooKeeper servers, not {size}")
        if found := found_size(directory):
            check_size(directory, found, size)
        self.directory = directory
        self.servers = [
            ZooKeeperServer(server_directory(directory, number), **options)
            for number in range(1, size + 1)
        ]
        self._assigned = False

    @property
    def uri(self) -> str:
        """What `open_store` takes; a root may be appended. Known once started."""
        return "zk://" + ",".join(server.address for server in self.servers)

    def start(self) -> None:
        """Start stopped servers and return when all serve. Raises `StoreUnavailableError`, and
        `ConfigurationError` when another ensemble uses the directory. None runs then.
        """
        for attempt in range(_START_ATTEMPTS):
            if not self._assigned:
                self._assign(keep=attempt == 0)
            self._launch()
            mute = [server for server in self.servers if not server.wait_until_serving()]
            if not mute:
                self._assigned = True
                return
            said = mute[0].last_words()
            self.stop()
            if self._assigned or not self._has_lost_a_port():
                break
        raise StoreUnavailableError(self.uri, f"a server did not start: {said}")

    def stop(self) -> None:
        """End every server and wait for it. Harmless when none runs."""
        self._all(lambda server: server.stop())

    def kill(self) -> None:
        """End every server as a crash would."""
        self._all(lambda server: server.kill())

    def __enter__(self) -> ZooKeeperEnsemble:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _all(self, call: Callable[[ZooKeeperServer], None]) -> None:
        with ThreadPoolExecutor(len(self.servers)) as threads:
            list(threads.map(call, self.servers))

    def _launch(self) -> None:
        try:
            for server in self.servers:
                if server.pid is None:
                    server.launch()
        except BaseException:
            self.stop()
            raise

    def _has_lost_a_port(self) -> bool:
        """Whether another process took a free port; no server of ours listens now."""
        return not all(is_free(port) for server in self.servers for port in server.ports)

    def _assign(self, *, keep: bool) -> None:
        """Give every server its ports: the previous ports if they are still free."""
        count = len(self.servers)
        fresh = free_ports(3 * count)
        ports = [
            last if keep and last is not None and is_free(last) else fresh.pop()
            for last in (_last_port(server.directory) for server in self.servers)
        ]
        numbers = range(1, count + 1) if count > 1 else ()
        members = tuple(EnsembleMember(number, fresh.pop(), fresh.pop()) for number in numbers)
        for index, server in enumerate(self.servers):
            server.assign(ports[index], members[index] if members else None, members)


def server_directory(directory: Path, number: int) -> Path:
    """Return the directory of one server of an ensemble."""
    return directory / f"zookeeper-{number}"


def found_size(directory: Path) -> int:
    """Return how many servers an ensemble had in a directory before; 0 without an ensemble."""
    return sum(server_directory(directory, number).is_dir() for number in range(1, SIZES[-1] + 1))


def check_size(directory: Path, found: int, wanted: int) -> None:
    """Raise `ConfigurationError` unless an ensemble is started with as many servers as it has."""
    if found != wanted:
        raise ConfigurationError(
            f"the ensemble in {directory} has {found} ZooKeeper servers, not {wanted}: "
            "the number is decided once, when the cluster is made"
        )


def _last_port(directory: Path) -> int | None:
    config = directory / "zoo.cfg"
    match = _PORT.search(config.read_text()) if config.is_file() else None
    return int(match[1]) if match else None
