"""Offload: closed segments move from bookies into Parquet files and keep their positions.

    begin    records the tier in the manifest, so that later deletions look there
    write    copies a segment's ledger into a file of this attempt only, and reads the file back.
             Any number of processes may write. The file lies below `_attempts/`, which Spark and
             Arrow skip when they read the tier as a table
    commit   names the files in the manifest, in one compare-and-set: readers use them from then on.
             Then moves them out of `_attempts/`; readers look in both places
    release  moves the ledgers from the segments to the manifest's `doomed`, in one compare-and-set;
             then deletes them

A crash between two steps leaves every record readable. A repetition continues after the last
complete step.

A file that the manifest does not name is an *orphan* once its segment has another file or has left
the log. Both conditions last forever, so `gc` never deletes a file of an attempt under way.

The file of a trimmed segment is deleted like a ledger: first removed from the manifest, then
deleted.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from quire.aio.tasks import in_thread
from quire.entry import Entry, LedgerId
from quire.errors import (
    ColdTierError,
    ConfigurationError,
    CorruptStorageError,
    InvalidRequestError,
    LogReplacedError,
    NoSuchLogError,
    QuireError,
)
from quire.log.cold.checksums import Summing
from quire.log.maintenance.doomed import delete_doomed
from quire.log.manifest import page_tree
from quire.log.manifest.capacity import check_growth, manifest_bytes
from quire.log.manifest.cold_files import (
    ColdFile,
    as_arrow,
    file_name,
    join,
    log_id_of,
    segment_of,
    tier_of,
)
from quire.log.manifest.manifest import LogManifest, Segment
from quire.log.manifest.page import Summary
from quire.log.manifest.pages_at_hand import Walk, ask, segment_from
from quire.log.manifest.record import ManifestRecord
from quire.log.reading.segment_reader import open_segment
from quire.log.reading.source import door, is_whole, parquet
from quire.log.segment_store.port import SegmentStore

T = TypeVar("T")

_log = logging.getLogger(__name__)

TOKEN_BITS: Final = 32

_HALF_A_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/(?!/)")
"""`s3:/bucket`, `file:/cold`: as a path this would be a directory below the working directory."""


def target_uri(target: str) -> str:
    """Return the URI of a directory for cold segments; a path is on this machine's disk.

    Raises `ConfigurationError` for any other text, and for a URI with a password: the manifest
    would show the password.
    """
    target = as_arrow(target)
    scheme, mark, _ = target.partition("://")
    if not target.strip() or _HALF_A_URI.match(target):
        raise ConfigurationError(
            f"cold segments cannot be in {target!r}: give a path, or a URI as file:///… or s3://…"
        )
    try:
        if not mark:
            return Path(target).expanduser().resolve().as_uri()
        password = urlsplit(target).password
    except (ValueError, RuntimeError):
        shown = f"{scheme}://…" if mark else repr(target)  # hides a password
        raise ConfigurationError(
            f"cold segments cannot be in {shown}: expected a URI or a path"
        ) from None
    if password is not None:
        raise ConfigurationError(
            "a password in the URI of cold segments would be kept in the manifest: "
            "give credentials by the environment of every process that reads them"
        )
    return target


class Offload:
    """The cold segments of one log. Stateless: any number may exist, and work at the same time."""

    def __init__(self, record: ManifestRecord, segments: SegmentStore, *, rng: Random) -> None:
        self._record = record
        self._segments = segments
        self._rng = rng

    async def begin(self, target: str) -> tuple[str, list[Segment]]:
        """Return the log's tier below a directory, and the segments that can move there.

        Every deletion visits a recorded tier. So the tier is recorded only after a small file was
        written there, read back and removed. From now on programs without support for cold segments
        refuse the log.

        Args:
            target: a URI of pyarrow's file systems (`file:///…`, `s3://bucket/…`, `gs://…`,
                `hdfs://…`), or a path.

        Returns:
            The tier's URI, and the closed segments that are not in a file.

        Raises:
            NoSuchLogError: the log does not exist.
            ColdTierError: the file system does not answer; or the tier has none of the log's files
                any more, as when another disk, or none, is mounted there.
            ConfigurationError: the target cannot be used; or it has files of this log that its
                manifest does not name. After a rebuild they may be the only copies of records.
        """
        uri = target_uri(target)
        door(uri).locate(uri)
        seen, _ = await self._record.read()
        _check_stays(seen)
        tier = tier_of(uri, seen.log_id)
        if tier not in seen.tiers:
            await asyncio.to_thread(door(uri).probe, tier)
        # Files are listed before the manifest is read for the edit. A process that has written a
        # file since then has named the tier first.
        found = set.union(*await asyncio.to_thread(door(uri).list_files, tier, seen.log_id))
        if tier in seen.tiers and not found:
            await self._check_is_empty(seen, tier)

        def change(manifest: LogManifest) -> LogManifest:
            if manifest.log_id != seen.log_id:
                raise LogReplacedError(manifest.name)
            _check_stays(manifest)
            if tier in manifest.tiers:
                return manifest
            if found:
                raise ConfigurationError(
                    f"{tier} has {len(found)} files, and the manifest of log {manifest.name!r} "
                    "names none of them, as after a rebuild: choose another place, or move them"
                )
            return replace(manifest, tiers=(*manifest.tiers, tier))

        manifest = await self._edit(change)
        moved = [each async for each in Walk(manifest, skips=_is_all_moved, wants=_is_movable)]
        return tier, moved

    async def _check_is_empty(self, seen: LogManifest, tier: str) -> None:
        """Raise `ColdTierError` if a tier that was found empty should have a file.

        Files that were written there would be hidden as soon as the right disk is mounted again.
        """
        async for each in Walk(seen, skips=_is_all_hot, wants=lambda each: _is_in(each, tier)):
            for now in await self.find([each.number]):
                if now.ledger == each.ledger and _is_in(now, tier):
                    raise ColdTierError(
                        tier,
                        f"it has no file of log {seen.name!r}, and segment {each.number} should be "
                        "in a file there: mount the disk that has the files, or choose another "
                        "place",
                    )

    async def write(self, segment: Segment, tier: str, *, password: bytes = b"") -> ColdFile:
        """Write a segment into a file, verify the file by reading it, and return it for `commit`.

        The log does not change. After an error or a cancellation the file is removed if possible.
        Raises the errors of reading the segment, `ColdTierError`, and `CorruptStorageError` if the
        file differs from the segment.
        """
        assert segment.last_entry is not None, "an open segment cannot move"
        manifest, _ = await self._record.read()
        _check_stays(manifest)
        if tier not in manifest.tiers:
            raise InvalidRequestError(
                f"{tier} is not a tier of log {manifest.name!r}: begin there first"
            )
        name = file_name(segment.number, segment.ledger, self._rng.getrandbits(TOKEN_BITS))
        door = parquet(tier)
        begun: list[Any] = []

        def begin() -> None:
            begun.append(door.FileWriter(manifest.name, manifest.log_id, segment, tier, name))

        try:
            await in_thread(begin)
            (file,) = begun
            await self._copy(segment, password, file.add)
            cold: ColdFile = await in_thread(file.finish)
            content = Summing()

            def count(run: list[Entry]) -> None:
                for entry in run:
                    content.add(entry.payload)

            alone = cold._replace(alone=True)  # a reader without a file would take the ledger
            await self._copy(replace(segment, cold=alone), password, count)
            if content.value != file.content.value:
                reason = f"read back as {content.value:08x}, written as {file.content.value:08x}"
                raise CorruptStorageError(cold.uri, reason)
        except BaseException:
            for file in begun:
                await asyncio.to_thread(file.abandon)
            raise
        return cold

    async def _copy(
        self, segment: Segment, password: bytes, take: Callable[[list[Entry]], None]
    ) -> None:
        """Pass every entry of a segment to `take`, in a thread. A gap is an error."""
        reader = await open_segment(
            self._segments,
            segment,
            self._record,
            password=password,
            keyring=None,
            follow=False,
        )
        try:
            async for run in reader.raw_runs():
                await in_thread(partial(take, run))
        finally:
            await reader.close()

    async def commit(self, files: Mapping[int, ColdFile]) -> LogManifest:
        """Name files in the manifest, by segment number.

        If a segment has a file already, it keeps that file, and the later file is deleted. The call
        may be repeated. Raises `NoSuchLogError`, and the store's errors.
        """

        def move(segment: Segment) -> Segment:
            file = files.get(segment.number)
            fits = file is not None and segment_of(file.name) == segment.number
            return replace(segment, cold=file) if fits and _is_movable(segment) else segment

        def change(manifest: LogManifest) -> LogManifest:
            if any(file.tier not in manifest.tiers for file in files.values()):
                raise LogReplacedError(manifest.name)
            return manifest.with_segments(move, lambda of: any(map(of.spans, files)))

        try:
            manifest = await self._edit(change)
        except (NoSuchLogError, LogReplacedError):
            await self._delete(file.uri for file in files.values())
            raise
        listed = await self._record.ask(manifest, lambda now: _numbered(now, files))
        named = {each.cold.uri for each in listed if each.cold}
        await self._delete(file.uri for file in files.values() if file.uri not in named)
        await self._settle([file for file in files.values() if file.uri in named])
        return manifest

    async def find(self, numbers: Iterable[int]) -> list[Segment]:
        """Return the segments with these numbers that still exist. Raises `NoSuchLogError`."""
        manifest, _ = await self._record.read()
        return await self._record.ask(manifest, lambda now: _numbered(now, numbers))

    async def release(self, written: Collection[ColdFile] | None = None) -> LogManifest:
        """Delete the ledgers of segments that are in files; first move them to `doomed`.

        A ledger is deleted only if the file exists and is whole. Otherwise the ledger stays, and
        readers use it.

        Args:
            written: files that this run has written and read back. Only their ledgers are given up,
                and a look at the size and the footer is enough. Without it the ledgers of all files
                are given up. They may have been kept for days, so each file is read to its end.

        Returns:
            The manifest.

        Raises:
            NoSuchLogError: the log does not exist.
            ColdTierError: the file system does not answer; or a file is missing or damaged, after
                all other ledgers are deleted. Other such files are logged.
        """
        away: list[Segment] = []
        if written is not None:
            among = await self.find(segment_of(file.name) or 0 for file in written)
            held = [each for each in among if each.cold in written and _is_twice(each)]
            manifest = await self._release(held, away, _is_there)
        else:
            manifest, _ = await self._record.read()
            held = []
            async for each in Walk(manifest, skips=_is_all_given_up, wants=_is_twice):
                held.append(each)
                if len(held) == page_tree.PAGE_ROWS:
                    await self._release(held, away, _is_whole)
                    held = []
            manifest = await self._release(held, away, _is_whole)
        lost: list[ColdTierError] = []
        for each in away:
            found = await segment_from(manifest, each.number)
            if found is not None and found.cold is not None and found.cold == each.cold:
                reason = (
                    "the file is missing or differs from the written file; bookies keep ledger "
                    f"{each.ledger} of segment {each.number}, and readers use it: put the file "
                    "back, then offload again"
                )
                lost.append(ColdTierError(found.cold.uri, reason))
        for error in lost[1:]:
            _log.warning("%s", error)
        if lost:
            raise lost[0]
        return manifest

    async def _release(
        self,
        held: Sequence[Segment],
        away: list[Segment],
        is_sound: Callable[[ColdFile, LedgerId], Awaitable[bool]],
    ) -> LogManifest:
        """Delete the ledgers of some segments; add the segments without their file to `away`."""
        files = {each.cold: each.ledger for each in held if each.cold}
        await self._settle(files)
        there = {file for file, ledger in files.items() if await is_sound(file, ledger)}
        away += [each for each in held if each.cold not in there]
        numbers = [each.number for each in held]
        doomed: list[LedgerId] = []

        def give_up(segment: Segment) -> Segment:
            if segment.cold is None or segment.cold not in there or segment.cold.alone:
                return segment
            doomed.append(segment.ledger)
            return replace(segment, cold=segment.cold._replace(alone=True))

        def change(manifest: LogManifest) -> LogManifest:
            doomed.clear()
            changed = manifest.with_segments(give_up, lambda of: any(map(of.spans, numbers)))
            return replace(changed, doomed=(*manifest.doomed, *doomed))

        return await delete_doomed(self._segments, await self._edit(change), self._edit)

    async def gc(self) -> Sequence[str]:
        """Delete orphans, and whatever a trim could not delete; return the URIs of the orphans.

        The other tiers are cleaned if one fails. Raises `NoSuchLogError`, and the first
        `ColdTierError` or `ConfigurationError` after that.
        """
        manifest, _ = await self._record.read()
        orphans: list[str] = []
        failures: list[QuireError] = []
        for tier in manifest.tiers:
            try:
                orphans += await self._gc_tier(tier)
            except (ColdTierError, ConfigurationError) as error:
                failures.append(error)
        await delete_doomed(self._segments, manifest, self._edit)
        if failures:
            raise failures[0]
        return orphans

    async def _gc_tier(self, tier: str) -> Sequence[str]:
        seen, _ = await self._record.read()
        await asyncio.to_thread(door(tier).delete_probes, tier, seen.log_id)
        placed, attempts = await asyncio.to_thread(door(tier).list_files, tier, seen.log_id)
        # The manifest is read after the files were listed: orphans in it stay orphans.
        manifest, _ = await self._record.read()
        names = sorted(placed | attempts)
        orphans = [
            join(tier, name)
            for name in names
            if await ask(manifest, lambda name=name: is_orphan(manifest, name))  # type: ignore[misc]
        ]
        for name in sorted(attempts):
            found = await segment_from(manifest, segment_of(name) or 0)
            if found is not None and found.cold and found.cold[:2] == (tier, name):
                await self._settle([found.cold])
        await self._delete(orphans)
        return orphans

    async def _settle(self, files: Iterable[ColdFile]) -> None:
        """Move files that the manifest names out of `_attempts/`, where Spark does not see them."""
        for file in files:
            await asyncio.to_thread(door(file.tier).settle, file, log_id_of(file.uri))

    async def _delete(self, uris: Iterable[str]) -> None:
        """Delete files, each in the directory of its log."""
        for uri in sorted(uris):
            await asyncio.to_thread(door(uri).delete_file, uri, log_id_of(uri))

    async def _edit(self, change: Callable[[LogManifest], LogManifest]) -> LogManifest:
        def edit(manifest: LogManifest | None) -> LogManifest:
            if manifest is None:
                raise NoSuchLogError(self._record.name)
            changed = change(manifest)
            if manifest_bytes(changed) > manifest_bytes(manifest):
                check_growth(changed)
            return changed

        return await self._record.edit(edit)


async def gc_each(offloads: Iterable[Offload]) -> list[str]:
    """Clean the tiers of all logs, also if one fails. Return the URIs of the deleted files.

    Raises the first `ColdTierError` or `ConfigurationError` after all other logs are cleaned.
    """
    orphans: list[str] = []
    failures: list[QuireError] = []
    for each in offloads:
        try:
            orphans += await each.gc()
        except NoSuchLogError:
            continue  # deleted meanwhile
        except (ColdTierError, ConfigurationError) as error:
            failures.append(error)
    if failures:
        raise failures[0]
    return orphans


async def _is_there(file: ColdFile, _: LedgerId) -> bool:
    found: bool = await asyncio.to_thread(door(file.tier).is_there, file, log_id_of(file.uri))
    return found


async def _is_whole(file: ColdFile, ledger: LedgerId) -> bool:
    return await _is_there(file, ledger) and await is_whole(file, ledger)


def _check_stays(manifest: LogManifest) -> None:
    """Raise `NoSuchLogError` for a log that is being deleted: its tiers may be deleted."""
    if manifest.retired:
        raise NoSuchLogError(manifest.name)


def is_orphan(manifest: LogManifest, name: str) -> bool:
    """Return whether the manifest does not name a file, and never will. Pure.

    The file's tier is ignored: two tiers may be the same directory, by a link or in another
    spelling, and the names of attempts differ everywhere. Raises `PagesNeededError`.
    """
    number = segment_of(name)
    if number is None or number >= manifest.next_segment:
        return False
    found = manifest.segment_from(number)
    if found is None or found.number != number:
        return True
    return found.cold is not None and found.cold.name != name


def _is_movable(segment: Segment) -> bool:
    return segment.end is not None and segment.cold is None


def _is_all_hot(of: Summary) -> bool:
    return not of.cold


def _is_in(segment: Segment, tier: str) -> bool:
    return segment.cold is not None and segment.cold.tier == tier


def _is_all_moved(of: Summary) -> bool:
    return of.cold == of.segments


def _is_all_given_up(of: Summary) -> bool:
    return of.alone == of.cold


def _is_twice(segment: Segment) -> bool:
    """Whether a segment is in a file, and its ledger still belongs to the log."""
    return segment.cold is not None and segment.is_hot


def _numbered(manifest: LogManifest, numbers: Iterable[int]) -> list[Segment]:
    """Return the segments with these numbers. Raises `PagesNeededError`."""
    found = {each: manifest.segment_from(each) for each in sorted(numbers)}
    return [each for number, each in found.items() if each and each.number == number]
