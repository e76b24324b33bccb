"""Trimming: deleting a prefix of a log, beside its leader. First the manifest, then the ledgers.

A position belongs to one log, and so does an offset once it was looked up. Another log of the
name, created meanwhile, stays unchanged.
"""

from __future__ import annotations

from collections.abc import Callable

from quire.errors import LogReplacedError, NoSuchLogError
from quire.log.maintenance.doomed import delete_doomed
from quire.log.manifest.manifest import LogManifest
from quire.log.manifest.record import ManifestRecord
from quire.log.reading.search import OpenSegment, check_reached, find_place, look
from quire.log.records.position import Position
from quire.log.segment_store.port import SegmentStore


async def trim_log(
    record: ManifestRecord,
    segments: SegmentStore,
    before: Position | int,
    open_segment: OpenSegment,
    log_id: str | None,
) -> None:
    """Remove every record before a position or offset. Raises `NoSuchLogError`, `LogReplacedError`,
    `InvalidRequestError`.
    """

    async def describe() -> LogManifest:
        nonlocal log_id
        seen, _ = await record.read()
        if log_id not in (None, seen.log_id):
            raise LogReplacedError(record.name)
        log_id = seen.log_id
        return seen

    async def find(manifest: LogManifest) -> Position:
        found = await find_place(manifest, before, open_segment)
        return await check_reached(manifest, found, open_segment)

    position = await look(describe, find)

    async def edit(change: Callable[[LogManifest], LogManifest]) -> LogManifest:
        def edit_same(found: LogManifest | None) -> LogManifest:
            if found is None:
                raise NoSuchLogError(record.name)
            if found.log_id != log_id:
                raise LogReplacedError(record.name)
            return change(found)

        return await record.edit(edit_same)

    await delete_doomed(segments, await edit(lambda manifest: manifest.trim(position)), edit)
