"""What the jobs of `quire.spark` need of the logs of a cluster beyond the public calls."""

from __future__ import annotations

from quire.log.directory import LogDirectory
from quire.log.manifest.manifest import LogManifest
from quire.log.records.position import Position
from quire.sync.ingest import SyncIngest
from quire.sync.offloads import SyncOffload
from quire.sync.portal import Portal


class SyncLogDirectory:
    """Blocking twin of some methods of `LogDirectory`."""

    def __init__(self, portal: Portal, logs: LogDirectory) -> None:
        self._portal = portal
        self._logs = logs

    def describe(self, name: str) -> LogManifest:
        """See `LogDirectory.describe`."""
        return self._portal.call(self._logs.describe(name))

    def check_left(self, name: str, start: Position | int, *, password: bytes = b"") -> None:
        """See `LogDirectory.check_left`."""
        self._portal.call(self._logs.check_left(name, start, password=password))

    def ingest(self, name: str) -> SyncIngest:
        """See `LogDirectory.ingest`."""
        return SyncIngest(self._portal, self._logs.ingest(name))

    def offload(self, name: str) -> SyncOffload:
        """See `LogDirectory.offload`."""
        return SyncOffload(self._portal, self._logs.offload(name))
