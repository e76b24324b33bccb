"""Deletion of a log.

    fence    closes the open ledgers, so that the leader cannot write
    retire   begins an epoch in which the log has no segments, so that no leader can take over
    delete   the ledgers, pages, files and jobs that the manifest names
    forget   the manifest, with its cursors and attachments, in one transaction

A deletion that was interrupted is repeated, and continues where it ended. It deletes the log that
it found first: a log of the same name that is created meanwhile stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

from quire.errors import (
    ColdTierError,
    ConfigurationError,
    ConflictError,
    InvalidRequestError,
    LogReplacedError,
    NoSuchLedgerError,
    NoSuchLogError,
    NoSuchNodeError,
)
from quire.log.maintenance.cursors import CURSORS_AT_ONCE, LogCursors
from quire.log.maintenance.doomed import delete_pages
from quire.log.maintenance.ingest import Ingest
from quire.log.maintenance.page_sweep import delete_all_pages
from quire.log.manifest.cold_files import as_arrow, tier_of
from quire.log.manifest.manifest import EMPTY, LogManifest, Segment
from quire.log.manifest.record import ManifestRecord
from quire.log.manifest.recovery import ATTEMPTS_MAX
from quire.log.reading.source import door
from quire.log.segment_store.port import SegmentStore
from quire.metastore.changes import Change


class Takeover(NamedTuple):
    """A takeover of a log: its number, and the id of the log that had the name."""

    log_id: str
    epoch: int


class Attachment(Protocol):
    """Data beside a log that is deleted with it: the snapshots of a service."""

    async def leave(self, log_id: str) -> Sequence[Change]:
        """Delete the data of this log, and return the changes that forget it. Repeatable."""
        ...


async def delete_log(
    record: ManifestRecord,
    segments: SegmentStore,
    cursors: LogCursors,
    ingest: Ingest,
    password: bytes,
    attached: Sequence[Attachment] = (),
    forget_tiers: Collection[str] = (),
    last: Takeover | None = None,
) -> None:
    """Delete a log with everything in it and attached to it.

    All tiers are listed before anything is deleted, so a tier that does not answer leaves the log
    whole. The files of `forget_tiers` stay: tiers of the log, by their URI or the URI of the
    directory above. Raises:

      * `InvalidRequestError` for a directory that is not a tier of the log;
      * `ColdTierError` for a tier that does not answer;
      * `NoSuchLogError`, also if another process has deleted the log meanwhile;
      * `LogReplacedError` if there is another log of the name meanwhile;
      * `ConflictError` if the log was taken over after `last`, before anything is deleted;
      * the errors of recovery.
    """
    manifest, _ = await record.read()
    log_id = manifest.log_id
    if last is not None and last.log_id != log_id:
        raise LogReplacedError(record.name)
    await _ask(manifest, _tiers_left(manifest, forget_tiers))
    floor = await record.epoch_floor()
    for _ in range(ATTEMPTS_MAX):
        if manifest.retired:
            break
        if last is not None and manifest.epoch != last.epoch:
            raise ConflictError(
                f"log {record.name!r} is at epoch {manifest.epoch}, not {last.epoch}: another "
                "leader took it over, so it is not deleted"
            )
        await _fence(segments, manifest, password)
        manifest = await record.edit(_retire_as(manifest, floor))
    else:
        raise ConflictError(f"log {record.name!r} was taken over at every attempt")
    await delete_ledgers(record, segments, manifest)
    for tier in _tiers_left(manifest, forget_tiers):
        await asyncio.to_thread(door(tier).delete_tier, tier, log_id)
    for job in await ingest.jobs():
        await _read_same(record, log_id)  # jobs are registered under the log's name
        await ingest.drop(job)
    await _delete_records(record, cursors, log_id, attached)


async def delete_ledgers(
    record: ManifestRecord, segments: SegmentStore, manifest: LogManifest
) -> None:
    """Delete the ledgers of a retired log, page by page. A repetition continues."""

    async def delete(segment: Segment) -> bool:
        with suppress(NoSuchLedgerError):
            await segments.delete(segment.ledger)
        return True

    async def edit(change: Callable[[LogManifest], LogManifest]) -> LogManifest:
        def edit_same(found: LogManifest | None) -> LogManifest:
            if found is None:
                raise NoSuchLogError(record.name)
            if found.log_id != manifest.log_id:
                raise LogReplacedError(record.name)
            return change(found)

        return await record.edit(edit_same)

    for ledger in manifest.doomed:
        with suppress(NoSuchLedgerError):
            await segments.delete(ledger)
    await delete_pages(manifest, edit, delete)


def _tiers_left(manifest: LogManifest, forgotten: Collection[str]) -> list[str]:
    """Return the tiers of a log without the forgotten tiers."""
    forgotten = list(map(as_arrow, forgotten))
    given_up = {each for place in forgotten for each in (place, tier_of(place, manifest.log_id))}
    for place in forgotten:
        if not {place, tier_of(place, manifest.log_id)} & set(manifest.tiers):
            known = ", ".join(manifest.tiers) or "no tier"
            raise InvalidRequestError(
                f"{place} is not a tier of log {manifest.name!r}, which has {known}"
            )
    return [each for each in manifest.tiers if each not in given_up]


async def _ask(manifest: LogManifest, tiers: Collection[str]) -> None:
    """List each tier; raise the error with the remedy if one does not answer."""
    for tier in tiers:
        remedy = (
            "mend it, or leave its files and delete the rest: "
            f"quire log delete {manifest.name} --forget-tier {tier}"
        )
        tools = door(tier)
        try:
            await asyncio.to_thread(tools.list_names, tier, manifest.log_id)
        except ColdTierError as error:
            raise ColdTierError(tier, f"{error.reason}; {remedy}") from error
        except ConfigurationError as error:
            raise ConfigurationError(f"{error}; {remedy}") from error


async def _fence(segments: SegmentStore, manifest: LogManifest, password: bytes) -> None:
    """Close the open ledgers at any end. A deleted ledger has no writer."""
    for segment in manifest.open_segments:
        with suppress(NoSuchLedgerError):
            await (await segments.seal(segment.ledger, password=password)).close()


async def _delete_records(
    record: ManifestRecord, cursors: LogCursors, log_id: str, attached: Sequence[Attachment]
) -> None:
    """Delete manifest, cursors and attachments in one transaction.

    Without the manifest no program would find the others.
    """
    for _ in range(ATTEMPTS_MAX):
        version = await _read_same(record, log_id)
        await cursors._forget(log_id, but=CURSORS_AT_ONCE)
        await delete_all_pages(record.store, log_id)
        along = [*await cursors._deletions(log_id), *await record.forget_jobs(log_id)]
        for each in attached:
            along += await each.leave(log_id)
        try:
            return await record.delete(version, along)
        except (NoSuchNodeError, ConflictError):  # a record was changed or deleted meanwhile
            continue
    raise ConflictError(f"records that belong to log {record.name!r} changed at every attempt")


async def _read_same(record: ManifestRecord, log_id: str) -> int:
    """Return the version of the manifest. Raises `LogReplacedError` for another log's."""
    manifest, version = await record.read()
    if manifest.log_id != log_id:
        raise LogReplacedError(record.name)
    return version


def _retire_as(seen: LogManifest, floor: int) -> Callable[[LogManifest | None], LogManifest]:
    """Return the edit that retires a log; it keeps a manifest that has changed since `seen`.

    Open segments count as empty: their ledgers are deleted, too.
    """
    ends = {each.number: EMPTY for each in seen.open_segments}

    def change(manifest: LogManifest | None) -> LogManifest:
        if manifest is None:
            raise NoSuchLogError(seen.name)
        if manifest.log_id != seen.log_id:
            raise LogReplacedError(seen.name)
        if (manifest.epoch, manifest.open_segments) != (seen.epoch, seen.open_segments):
            return manifest
        return manifest.retire(ends, floor)

    return change
