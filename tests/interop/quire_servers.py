"""Bookies of quire that serve clients of Apache BookKeeper, as processes, beside a ZooKeeper; and
clusters with bookies of both kinds.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from quire.wire.certificates import TlsOptions
from tests.interop.servers import ApacheServers, free_port

QUIRE = (sys.executable, "-m", "quire")


class QuireServers(ApacheServers):
    """`ApacheServers` with bookies of quire's: the cluster is made by `quire bookie format`."""

    def __init__(
        self,
        directory: Path,
        jars: Path,
        bookies: int = 3,
        *,
        collect_seconds: float = 600.0,
        tls: Callable[[str], TlsOptions] | None = None,
    ) -> None:
        """`tls` gives the files of a bookie, by its id; None for bookies without TLS."""
        super().__init__(directory, jars, "db", bookies)
        self._tls = tls
        self._collect_seconds = collect_seconds
        self._places: dict[str, Path] = {}

    @property
    def own_uri(self) -> str:
        """The store of the own records of the bookies."""
        return f"zk://127.0.0.1:{self.port}/quire-bookies/ledgers"

    def knows_batches(self, bookie: str) -> bool:
        return bookie in self._places or super().knows_batches(bookie)

    def quire(self, *arguments: object, store: str | None = None) -> Any:
        """Run a command of quire with the cluster's store, or another; return what it says."""
        given = self.writable_uri if store is None else store
        command = [*QUIRE, "--json", "--store", given, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def _found(self) -> None:
        self.bookies = self._formatted(len(self.bookies))

    def _formatted(self, count: int) -> dict[str, int]:
        """Format directories of bookies; return a port for each."""
        places = [self._place(number) for number in range(count)]
        names = [self.quire("bookie", "format", each)["bookie"] for each in places]
        self._places = dict(zip(names, places, strict=True))
        return {name: free_port() for name in names}

    def _place(self, number: int) -> Path:
        return self.directory / f"quire{number}"

    def _launch(self, name: str) -> None:
        pause = f"collect-seconds={self._collect_seconds:g}"
        listen = f"127.0.0.1:{self.bookies[name]}"
        serve = ["bookie", "serve", str(self._places[name]), "--listen-bookkeeper", listen]
        more = ["--storage", pause, "--no-auditor"]
        if self._tls is not None:
            names = ("--tls-cert", "--tls-key", "--tls-ca")
            for option, file in zip(names, self._tls(name).files, strict=True):
                more += [option, str(file)]
        self._begin(name, [*QUIRE, "--store", self.writable_uri, *serve, *more])


class MixedServers(QuireServers):
    """Two bookies of Apache's and two of quire's in one cluster: each ensemble has both."""

    def __init__(self, directory: Path, jars: Path) -> None:
        super().__init__(directory, jars, 2)

    def _found(self) -> None:
        ApacheServers._found(self)
        self.bookies |= self._formatted(2)

    def _launch(self, name: str) -> None:
        if name in self._places:
            super()._launch(name)
        else:
            ApacheServers._launch(self, name)
