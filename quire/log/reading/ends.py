"""The ends of many logs, looked at again and again: a streaming query does so at every trigger.

A log without an open segment ends where its manifest says, and only manifests that changed are
read. The end of an open segment is asked for once, and then watched: until something happens there,
the end is where it was. So a look at logs without news costs one question to the store.

  - Every record before an end can be read, as in a snapshot taken then (snapshot.py).
  - A record that a look found is found by every later look.
  - A fresh look asks all open segments, and is at or above every end that was announced before.
    Another look may miss what was announced a moment ago and is still on its way.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final, NamedTuple

from quire.aio.tasks import each
from quire.errors import NoSuchLedgerError, NoSuchLogError
from quire.log.manifest.known import KnownManifests
from quire.log.manifest.manifest import LogManifest
from quire.log.manifest.segment import Segment
from quire.log.reading.bounds import Bounds
from quire.log.reading.snapshot import take_snapshot
from quire.log.records.batch import decode_header, place_header
from quire.log.segment_store.port import SegmentSource, SegmentStore, SegmentWatch

ASKED_AT_ONCE: Final = 64

WATCHED_MAX: Final = 2_000
"""Logs that are watched; others are asked each time. A bookie lets a peer wait for 4,096 ledgers at
once, those that it follows included.
"""


class LogReach(NamedTuple):
    """A log's identity, and the offset after the last record that can be read."""

    log_id: str
    offset: int


@dataclass(frozen=True, slots=True)
class _WatchedEnd:
    """The end of an open segment, and what tells that it may have moved."""

    manifest: LogManifest
    source: SegmentSource
    watch: SegmentWatch
    offset: int

    async def close(self) -> None:
        await self.watch.close()
        await self.source.close()


class LogEnds:
    """See the module. Raises the errors of a snapshot."""

    def __init__(self, manifests: KnownManifests, segments: SegmentStore) -> None:
        self._manifests = manifests
        self._segments = segments
        self._watched: dict[str, _WatchedEnd] = {}

    async def find(
        self, logs: Mapping[str, int], *, password: bytes = b"", fresh: bool = False
    ) -> dict[str, LogReach | None]:
        """Return how far logs reach, at least to the offsets that are given with them; None for a
        log that does not exist or is being deleted.

        With `fresh` every open segment is asked.
        """
        manifests = await self._manifests.look(logs)
        if len(self._watched) >= WATCHED_MAX:
            for name in self._watched.keys() - logs.keys():
                await self._forget(name)

        async def reach(name: str) -> LogReach | None:
            manifest, least = manifests[name], logs[name]
            watched = self._watched.get(name)
            if watched is not None and (
                fresh or watched.manifest is not manifest or watched.watch.is_stirred
            ):
                watched = None
                await self._forget(name)
            if manifest is None or manifest.retired:
                return None
            end = manifest.end_offset if watched is None else watched.offset
            if end is None:
                end = await self._watch(name, manifest, password)
            if end is None:
                return await self._ask(name, manifest, least, password)
            return LogReach(manifest.log_id, max(least, end))

        return dict(zip(manifests, await each(list(manifests), reach, ASKED_AT_ONCE), strict=True))

    async def close(self) -> None:
        """End all watches."""
        for name in list(self._watched):
            await self._forget(name)

    async def _forget(self, name: str) -> None:
        if (watched := self._watched.pop(name, None)) is not None:
            await watched.close()

    async def _watch(self, name: str, manifest: LogManifest, password: bytes) -> int | None:
        """Find the end of a log with one open segment, and watch it from then on.

        None for another log, also when its segment was sealed or deleted since, and when enough
        logs are watched.
        """
        segment = manifest.tail
        is_alone = segment is not None and manifest.open_segments == (segment,)
        if segment is None or not is_alone or len(self._watched) >= WATCHED_MAX:
            return None
        async with AsyncExitStack() as stack:
            try:
                source = await self._segments.open(segment.ledger, password=password)
                stack.push_async_callback(source.close)
                last = await source.last_confirmed()
                watch = source.watch()
                stack.push_async_callback(watch.close)
                end = await _end_after(segment, source, last)
            except NoSuchLedgerError:
                return None
            if source.is_closed or end is None:
                return None
            await self._forget(name)  # of another look, meanwhile
            if len(self._watched) < WATCHED_MAX:
                self._watched[name] = _WatchedEnd(manifest, source, watch, end)
                stack.pop_all()
        return end

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


async def _end_after(segment: Segment, source: SegmentSource, last: int) -> int | None:
    """Return the offset after an entry of an open segment; None if nothing tells."""
    if last < 0:
        return segment.first_offset
    header = decode_header(await source.read_head(last), segment.ledger, last)
    return place_header(header, segment.base).next_offset
