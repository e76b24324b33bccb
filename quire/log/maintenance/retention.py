"""Retention: which segments of a log are old enough, or too many, and trimming them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias

from quire.errors import IntegrityError, InvalidRequestError
from quire.log.maintenance.doomed import delete_doomed
from quire.log.manifest.ages import Reading
from quire.log.manifest.live_options import LiveOptions
from quire.log.manifest.manifest import LogManifest, Segment
from quire.log.manifest.page_tree import Place, below, need
from quire.log.manifest.record import Look
from quire.log.records.position import BEGINNING, Position
from quire.log.segment_store.port import SegmentStore

_log = logging.getLogger(__name__)

Floor: TypeAlias = Callable[[], Awaitable[Position]]
"""Returns the position of the first record that some program still needs."""


class EditLooking(Protocol):
    """An `EditManifest` that looks at something else each time before it applies the change."""

    def __call__(
        self, change: Callable[[LogManifest], LogManifest], /, *, look: Look | None = None
    ) -> Awaitable[LogManifest]: ...


async def apply_retention(
    segments: SegmentStore,
    live: LiveOptions,
    reading: Callable[[], Reading],
    edit: EditLooking,
    slowest: Callable[[], Awaitable[Position | None]],
    floor: Floor | None = None,
) -> LogManifest:
    """Trim the records that the options do not keep; the options are read again for each change.

    `reading` gives the present readings of the leader's clocks (ages.py). With `retention_cursors`
    only records before the position that `slowest` returns are trimmed, and none while that
    position is unknown. Cursors only move forward; a cursor that is created meanwhile makes the
    change start again. Records from the position on that `floor` returns stay. If no record is
    trimmed, the manifest changes only if the next leader needs the change.
    """
    limit: Position | None = None
    last: Position | None = None

    async def look() -> None:
        nonlocal limit, last
        limit = await _limit(live, slowest)
        last = None if floor is None else await _first_needed(floor)

    def change(manifest: LogManifest) -> LogManifest:
        wanted = live.now
        seconds, bytes_max = wanted.retention_seconds, wanted.retention_bytes
        now = reading()
        aged = manifest.aged(now)
        point = retention_point(aged, seconds, bytes_max)
        if wanted.retention_cursors and limit is not None and point is not None:
            point = min(point, limit)
        if point is not None and last is not None:
            point = min(point, last)
        if point is not None:
            return manifest.trim(point)
        has_news = aged.ages.marks != manifest.ages.marks or manifest.ages.must_begin_again(now)
        return aged if seconds is not None and has_news else manifest

    return await delete_doomed(segments, await edit(change, look=look), edit)


async def _first_needed(floor: Floor) -> Position:
    """Ask for the first record that a program needs. An unreadable answer must not end the
    leader.
    """
    try:
        return await floor()
    except (IntegrityError, InvalidRequestError) as error:
        _log.warning("retention waits: the records still needed are unknown: %s", error)
        return BEGINNING


async def _limit(
    live: LiveOptions, slowest: Callable[[], Awaitable[Position | None]]
) -> Position | None:
    """Return the position of the slowest cursor. An unreadable cursor must not end the leader."""
    try:
        return await slowest()
    except (IntegrityError, InvalidRequestError) as error:
        if live.now.retention_cursors:
            _log.warning("retention waits for a cursor that cannot be read: %s", error)
        return BEGINNING


def retention_point(
    manifest: LogManifest, seconds: float | None, bytes_max: int | None
) -> Position | None:
    """Return the position to trim to, or None if every segment stays.

    Whole sealed segments only, oldest first, computed from one snapshot: those that were sealed
    longer than `seconds` ago when the log's time was counted last (ages.py), and those without
    which the sealed rest still holds `bytes_max` bytes. Raises `PagesNeededError` for the page that
    goes in part.
    """
    old = 0 if seconds is None else manifest.ages.older_than(1000 * seconds)
    counting = _Counting(manifest, old, bytes_max)
    if counting.take_pages(manifest.places):
        counting.take_rows(manifest.rows)
    return counting.point


class _Counting:
    """Goes through a log from its beginning, as far as segments have to go."""

    def __init__(self, manifest: LogManifest, old: int, bytes_max: int | None) -> None:
        self.point: Position | None = None
        self._manifest = manifest
        self._old = old
        self._bytes_max = bytes_max
        self._left = manifest.live_bytes

    def take_pages(self, places: Sequence[Place]) -> bool:
        """Take pages, one after the other; returns whether all have to go."""
        first = self._manifest.first_number
        for place in places:
            of = place.reference.of
            if of.last < first:
                continue
            if of.first >= first and self._has_to_go(of.last, of.bytes):
                self._left -= of.bytes
                self.point = Position(of.last + 1, 0, 0)
                continue
            page = need(self._manifest.pages, place)
            if not (self.take_pages(below(page)) and self.take_rows(page.segments)):
                return False
        return True

    def take_rows(self, segments: Sequence[Segment]) -> bool:
        """Take segments; returns whether all have to go."""
        for segment in segments:
            if segment.number < self._manifest.first_number:
                continue
            if segment.end is None or not self._has_to_go(segment.number, segment.end.bytes):
                return False
            self._left -= segment.end.bytes
            self.point = segment.end_position
        return True

    def _has_to_go(self, last: int, size: int) -> bool:
        is_too_much = self._bytes_max is not None and self._left - size >= self._bytes_max
        return last < self._old or is_too_much
