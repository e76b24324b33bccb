"""A gateway of a new cluster, for one run of a suite."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from quire.sync import SyncLocalCluster
from tests.gateway.process import Addresses, GatewayProcess

BUILD: Final = Path("build/suites")
"""Suites are installed here."""

SECONDS_MAX: Final = 1800
"""A run takes so long at most."""


@contextmanager
def serving(*options: str) -> Iterator[Addresses]:
    """Yield the addresses of a gateway before three bookies; then end it. `options` are of
    `quire gateway serve`.
    """
    with (
        tempfile.TemporaryDirectory(prefix="quire-suite-") as scratch,
        SyncLocalCluster(Path(scratch) / "cluster", bookies=3) as cluster,
    ):
        gateway = GatewayProcess(cluster.store_uri, Path(scratch) / "gateway.log", options=options)
        try:
            yield gateway.start()
        finally:
            gateway.end()
