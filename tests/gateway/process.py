"""A gateway as a process of its own, for soaks and benchmarks."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

PROTOCOLS: Final = ("listen", "kafka", "grpc")


class Addresses(NamedTuple):
    """Where a gateway is served."""

    http: str
    """A URL."""
    kafka: str
    grpc: str


class GatewayProcess:
    """One gateway. Ports that are named stay the same after a new start."""

    def __init__(
        self,
        store: str,
        log: Path,
        ports: tuple[int, int, int] = (0, 0, 0),
        options: Sequence[str] = (),
    ) -> None:
        """`ports` are of HTTP, of Kafka's clients and of gRPC; 0 takes a free one. `options` are
        further words of the command.
        """
        self._options = options
        self._store = store
        self._log = log
        self._ports = ports
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> Addresses:
        """Start the process, and wait until it serves.

        Raises:
            RuntimeError: it ended before.
        """
        words = [sys.executable, "-m", "quire", "gateway", "serve", "--json", "--store"]
        words.append(self._store)
        for protocol, port in zip(PROTOCOLS, self._ports, strict=True):
            words += [f"--{protocol}", f"127.0.0.1:{port}"]
        words += self._options
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        if not said:
            raise RuntimeError(f"the gateway ended: see {self._log}")
        found = json.loads(said)
        return Addresses(found["gateway"], found["kafka"], found["grpc"])

    def keep(self, ports: tuple[int, int, int]) -> None:
        """Take these ports from the next start on."""
        self._ports = ports

    @property
    def pid(self) -> int:
        """Of the process that runs."""
        assert self._process is not None, "start comes first"
        return self._process.pid

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        assert self._process is not None, "start comes first"
        self._process.send_signal(number)

    def wait(self, seconds: float) -> int:
        """Wait for the end, and return the code of the exit."""
        assert self._process is not None, "start comes first"
        code = self._process.wait(seconds)
        assert self._process.stdout is not None
        self._process.stdout.close()
        return code

    def end(self) -> None:
        """Kill the process, if it runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self.wait(60)
