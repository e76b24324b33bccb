"""Blocking twin of a log's offload."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from quire.log.maintenance.offload import Offload
from quire.log.manifest.cold_files import ColdFile
from quire.log.manifest.manifest import LogManifest, Segment
from quire.sync.portal import Portal


class SyncOffload:
    """Blocking twin of `Offload`."""

    def __init__(self, portal: Portal, offload: Offload) -> None:
        self._portal = portal
        self._offload = offload

    def begin(self, target: str) -> tuple[str, list[Segment]]:
        """See `Offload.begin`."""
        return self._portal.call(self._offload.begin(target))

    def write(self, segment: Segment, tier: str, *, password: bytes = b"") -> ColdFile:
        """See `Offload.write`."""
        return self._portal.call(self._offload.write(segment, tier, password=password))

    def commit(self, files: Mapping[int, ColdFile]) -> LogManifest:
        """See `Offload.commit`."""
        return self._portal.call(self._offload.commit(files))

    def find(self, numbers: Iterable[int]) -> list[Segment]:
        """See `Offload.find`."""
        return self._portal.call(self._offload.find(numbers))

    def release(self, written: Collection[ColdFile] | None = None) -> LogManifest:
        """See `Offload.release`."""
        return self._portal.call(self._offload.release(written))

    def gc(self) -> Sequence[str]:
        """See `Offload.gc`."""
        return self._portal.call(self._offload.gc())
