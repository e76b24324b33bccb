"""Deleting what left a log: ledgers, files, and pages with all that they name.

The manifest changes first: what left it stays on its lists of the doomed until it is deleted, so a
crash in between costs nothing, and the next deletion goes on. A page that is doomed has the
deletion of its segments as its content: they are deleted, then the manifest forgets the page, then
the page goes. Pages below it go as soon as all is deleted that they name. So a page that is not
there was deleted before; two deletions at a time do no harm.

The oldest ledgers go first. So the ledgers that are left of a log have no hole, and its manifest
can be rebuilt from them (orphans.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import TypeAlias

from quire.aio.retry import TRANSIENT
from quire.entry import LedgerId
from quire.errors import (
    ConfigurationError,
    CorruptStorageError,
    MissingPageError,
    NoSuchLedgerError,
)
from quire.log.manifest.manifest import LogManifest, Segment
from quire.log.manifest.page_tree import Place, below
from quire.log.reading.source import door
from quire.log.segment_store.port import SegmentStore

_log = logging.getLogger(__name__)

EditManifest: TypeAlias = Callable[[Callable[[LogManifest], LogManifest]], Awaitable[LogManifest]]
"""Something that applies a change to a log's manifest and returns the manifest as it then is."""

DeleteSegment: TypeAlias = Callable[[Segment], Awaitable[bool]]
"""Deletes the ledger of a segment, and its file; False when it is to be tried again later."""


async def delete_doomed(
    segments: SegmentStore, manifest: LogManifest, edit: EditManifest
) -> LogManifest:
    """Delete ledgers, files and pages that left the log. A failed deletion stays listed.

    So does a file where pyarrow is missing: a program that has it deletes it with the next trim or
    sweep. A place that cannot be a file of this log leaves the list untouched.
    """
    manifest = await delete_singles(segments, manifest, edit)
    if not manifest.doomed_pages:
        return manifest

    async def delete(segment: Segment) -> bool:
        deleted = await _delete_ledgers(segments, [segment.ledger] if segment.is_hot else [])
        files = [segment.cold.uri] if segment.cold else []
        removed = await _delete_files(manifest, files)
        return bool(deleted) == segment.is_hot and len(removed) == len(files)

    manifest = await delete_pages(manifest, edit, delete)
    return await delete_singles(segments, manifest, edit)


async def delete_singles(
    segments: SegmentStore, manifest: LogManifest, edit: EditManifest
) -> LogManifest:
    """As `delete_doomed`, without pages, and without ledgers that may be younger than those of a
    page: there are few of these, however long the log is.
    """
    waits_from = min((each.reference.of.min_ledger for each in _rebuilt(manifest)), default=None)
    older = [each for each in manifest.doomed if waits_from is None or each < waits_from]
    deleted = await _delete_ledgers(segments, older)
    removed = await _delete_files(manifest, manifest.doomed_files)
    if not (deleted or removed):
        return manifest
    try:
        return await edit(lambda now: now.forget(deleted, removed))
    except TRANSIENT as error:
        _log.info("log %r still lists what was deleted: %s", manifest.name, error)
        return manifest


def _rebuilt(manifest: LogManifest) -> list[Place]:
    """Return the doomed pages of which a rebuild could find the ledgers: without ingested ones, and
    without files.
    """
    found = [(each, each.reference.of) for each in manifest.doomed_pages]
    return [each for each, of in found if not of.ingested and not of.cold]


async def _delete_ledgers(segments: SegmentStore, ledgers: Iterable[LedgerId]) -> list[LedgerId]:
    """Delete ledgers, and return the deleted ones."""
    deleted = []
    for ledger in ledgers:
        with suppress(*TRANSIENT):
            with suppress(NoSuchLedgerError):
                await segments.delete(ledger)
            deleted.append(ledger)
    return deleted


async def _delete_files(manifest: LogManifest, uris: Iterable[str]) -> list[str]:
    """Delete files, and return the URIs that leave the list."""
    removed = []
    for uri in uris:
        with suppress(ConfigurationError, *TRANSIENT):
            try:
                await asyncio.to_thread(door(uri).delete_file, uri, manifest.log_id)
            except CorruptStorageError as error:
                _log.warning("log %r: not deleted: %s", manifest.name, error)
            removed.append(uri)
    return removed


async def delete_pages(
    manifest: LogManifest, edit: EditManifest, delete: DeleteSegment
) -> LogManifest:
    """Delete the doomed pages with the segments that they name, the oldest first.

    Raises the errors of `delete`, of pages and of the edit.
    """
    for place in manifest.doomed_pages:
        if await _empty(manifest, place, delete):
            manifest = await edit(_forget(place))
            await manifest.pages.remove([place])
    return manifest


def _forget(place: Place) -> Callable[[LogManifest], LogManifest]:
    return lambda now: now.forget((), (), [place.reference.name])


async def _empty(manifest: LogManifest, place: Place, delete: DeleteSegment) -> bool:
    """Delete the ledgers and pages of a page; returns whether all of them are gone."""
    try:
        page = await manifest.pages.fetch(place, manifest.tiers)
    except MissingPageError:
        return True
    outcomes = [await delete(each) for each in page.segments]
    lower: Sequence[Place] = below(page)
    for each in lower:
        outcomes.append(await _empty(manifest, each, delete))
        if outcomes[-1]:
            await manifest.pages.remove([each])
    return all(outcomes)
