"""Removing what a log no longer needs: ledgers that left it, and segments that are too old.

The manifest changes first, ledgers and files are deleted after. What left the manifest stays on its
lists of the doomed until it is deleted, so a crash in between costs nothing: whoever comes next
goes on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol, TypeAlias

from quire.aio.retry import TRANSIENT
from quire.entry import LedgerId
from quire.errors import (
    ConfigurationError,
    CorruptStorageError,
    IntegrityError,
    InvalidRequestError,
    NoSuchLedgerError,
)
from quire.ledger.catalog import LedgerCatalog
from quire.log.manifest.ages import Reading
from quire.log.manifest.live_options import LiveOptions
from quire.log.manifest.manifest import LogManifest
from quire.log.manifest.record import Look
from quire.log.reading.source import door
from quire.log.records.position import BEGINNING, Position

_log = logging.getLogger(__name__)

EditManifest: TypeAlias = Callable[[Callable[[LogManifest], LogManifest]], Awaitable[LogManifest]]
"""Something that applies a change to a log's manifest and returns the manifest as it then is."""


async def delete_doomed(
    catalog: LedgerCatalog, manifest: LogManifest, edit: EditManifest
) -> LogManifest:
    """Delete ledgers and files that left the log; what cannot be deleted now stays listed.

    So does a file where pyarrow is missing: a process that has pyarrow deletes the file with the
    next trim or gc. A place that cannot be a file of this log leaves the list, and what is there
    stays.
    """
    deleted: list[LedgerId] = []
    removed: list[str] = []
    for ledger in manifest.doomed:
        with suppress(*TRANSIENT):
            with suppress(NoSuchLedgerError):
                await catalog.delete(ledger)
            deleted.append(ledger)
    for uri in manifest.doomed_files:
        with suppress(ConfigurationError, *TRANSIENT):
            try:
                await asyncio.to_thread(door(uri).delete_file, uri, manifest.log_id)
            except CorruptStorageError as error:
                _log.warning("log %r: not deleted: %s", manifest.name, error)
            removed.append(uri)
    if not (deleted or removed):
        return manifest
    return await edit(lambda now: now.forget(deleted, removed))


Floor: TypeAlias = Callable[[], Awaitable[Position]]
"""Returns the position of the first record that some program still needs."""


class EditLooking(Protocol):
    """An `EditManifest` that looks at something else each time before it applies the change."""

    def __call__(
        self, change: Callable[[LogManifest], LogManifest], /, *, look: Look | None = None
    ) -> Awaitable[LogManifest]: ...


async def apply_retention(
    catalog: LedgerCatalog,
    live: LiveOptions,
    reading: Callable[[], Reading],
    edit: EditLooking,
    slowest: Callable[[], Awaitable[Position | None]],
    floor: Floor | None = None,
) -> LogManifest:
    """Trim what the options do not want kept, as they are when the manifest is changed.

    `reading` says what the leader's clocks show now (ages.py). With `retention_cursors` nothing
    goes that is not behind the position which `slowest` returns, and nothing at all while that
    cannot be told. Cursors only move forward, and one that is made meanwhile has the change tried
    again. Retention keeps the records from the position on that `floor` returns. Where nothing
    goes the manifest is changed only for what the next leader has to know.
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

    return await delete_doomed(catalog, await edit(change, look=look), edit)


async def _first_needed(floor: Floor) -> Position:
    """Ask for the first record that a program needs. An unreadable answer must end no leader."""
    try:
        return await floor()
    except (IntegrityError, InvalidRequestError) as error:
        _log.warning("retention waits: the records still needed are unknown: %s", error)
        return BEGINNING


async def _limit(
    live: LiveOptions, slowest: Callable[[], Awaitable[Position | None]]
) -> Position | None:
    """Where cursors are. One that cannot be read, or is of a newer version, must end no leader."""
    try:
        return await slowest()
    except (IntegrityError, InvalidRequestError) as error:
        if live.now.retention_cursors:
            _log.warning("retention waits for a cursor that cannot be read: %s", error)
        return BEGINNING


def retention_point(
    manifest: LogManifest, seconds: float | None, bytes_max: int | None
) -> Position | None:
    """Return the position to trim to, or None when nothing has to go.

    Whole sealed segments only, oldest first, computed from one snapshot: those that were sealed
    longer than `seconds` ago when the log's time was counted last (ages.py), and those without
    which the sealed rest still holds `bytes_max` bytes.
    """
    total = sum(each.bytes or 0 for each in manifest.segments)
    point: Position | None = None
    old = 0 if seconds is None else manifest.ages.older_than(1000 * seconds)
    for segment in manifest.segments:
        if segment.end is None:
            break
        total -= segment.end.bytes
        too_old = segment.number < old
        too_much = bytes_max is not None and total >= bytes_max
        if not (too_old or too_much):
            break
        point = segment.end_position
    return point
