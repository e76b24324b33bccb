"""The ends of many logs, looked at again and again: a streaming query does so at every trigger.

A log without an open segment ends where its manifest says, and only manifests that changed are
read. Of a log with an open segment the last confirmed entry is asked for, of many logs at once.
An end is the end of a snapshot taken then (snapshot.py): every record before it can be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from quire.aio.tasks import each
from quire.errors import NoSuchLogError
from quire.log.manifest.known import KnownManifests
from quire.log.manifest.manifest import LogManifest
from quire.log.reading.bounds import Bounds
from quire.log.reading.snapshot import take_snapshot
from quire.log.segment_store.port import SegmentStore

ASKED_AT_ONCE: Final = 64


class LogReach(NamedTuple):
    """A log's identity, and the offset after the last record that can be read."""

    log_id: str
    offset: int


class LogEnds:
    """See the module. Raises the errors of a snapshot."""

    def __init__(self, manifests: KnownManifests, segments: SegmentStore) -> None:
        self._manifests = manifests
        self._segments = segments

    async def find(
        self, logs: Mapping[str, int], *, password: bytes = b""
    ) -> dict[str, LogReach | None]:
        """Return how far logs reach, at least to the offsets that are given with them; None for a
        log that does not exist or is being deleted.
        """
        manifests = await self._manifests.look(logs)

        async def reach(name: str) -> LogReach | None:
            manifest, least = manifests[name], logs[name]
            if manifest is None or manifest.retired:
                return None
            if manifest.end_offset is not None:
                return LogReach(manifest.log_id, max(least, manifest.end_offset))
            return await self._ask(name, manifest, least, password)

        return dict(zip(manifests, await each(list(manifests), reach, ASKED_AT_ONCE), strict=True))

    async def _ask(
        self, name: str, manifest: LogManifest, least: int, password: bytes
    ) -> LogReach | None:
        at_hand, seen = [manifest], manifest

        async def describe(name: str) -> LogManifest:
            nonlocal seen
            seen = at_hand.pop() if at_hand else await self._manifests.read(name)
            return seen

        bounds = Bounds(first_offset=least)
        parts = name, self._segments, describe
        try:
            spans = await take_snapshot(*parts, password=password, bounds=bounds)
        except NoSuchLogError:
            return None
        return LogReach(seen.log_id, max(least, spans[-1].offsets.stop if spans else 0))
