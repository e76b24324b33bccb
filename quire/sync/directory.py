"""What the jobs of `quire.spark` need of the logs of a cluster beyond the public calls."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence

from quire.log.directory import LogDirectory
from quire.log.maintenance.ingest import logs_with_parts
from quire.log.manifest.known import KnownManifests
from quire.log.manifest.manifest import LogManifest
from quire.log.reading.ends import LogEnds, LogReach
from quire.log.reading.span import Slice, Span
from quire.log.reading.spans import read_in_order
from quire.log.records.keyring import Keyring
from quire.log.records.position import Position
from quire.sync.ingest import SyncIngest
from quire.sync.offloads import SyncOffload
from quire.sync.portal import Portal


class SyncLogDirectory:
    """Blocking twin of some methods of `LogDirectory`."""

    def __init__(self, portal: Portal, logs: LogDirectory) -> None:
        self._portal = portal
        self._logs = logs
        manifests = KnownManifests(logs._store, logs._record)
        self._ends = LogEnds(manifests, logs._segments)

    def describe(self, name: str) -> LogManifest:
        """See `LogDirectory.describe`."""
        return self._portal.call(self._logs.describe(name))

    def ends(
        self, logs: Mapping[str, int], *, password: bytes = b"", fresh: bool = False
    ) -> dict[str, LogReach | None]:
        """See `LogEnds.find`."""
        return self._portal.call(self._ends.find(logs, password=password, fresh=fresh))

    def with_parts(self) -> list[str]:
        """See `logs_with_parts`."""
        return self._portal.call(logs_with_parts(self._logs._store))

    def check_left(self, name: str, start: Position | int, *, password: bytes = b"") -> None:
        """See `LogDirectory.check_left`."""
        self._portal.call(self._logs.check_left(name, start, password=password))

    def read_spans(
        self, spans: Sequence[Span], *, password: bytes = b"", keyring: Keyring | None = None
    ) -> Iterator[tuple[int, Slice]]:
        """See `read_in_order`."""

        def read(span: Span) -> AsyncGenerator[Slice, None]:
            return self._logs.read_span(span, password=password, keyring=keyring)

        return self._portal.iterate(
            lambda: read_in_order(spans, read), lambda item: len(item[1].batch.body)
        )

    def ingest(self, name: str) -> SyncIngest:
        """See `LogDirectory.ingest`."""
        return SyncIngest(self._portal, self._logs.ingest(name))

    def offload(self, name: str) -> SyncOffload:
        """See `LogDirectory.offload`."""
        return SyncOffload(self._portal, self._logs.offload(name))
