"""Offload: closed segments move from the bookies into Parquet files, and stay where they are in the
log: readers find them there.

    begin    the tier goes into the manifest, so that whoever cleans up knows where to look
    write    a segment's ledger is read into a file of this attempt's own, and the file is read
             back; any number of processes at a time. The file lies below `_attempts/`, which
             Spark and Arrow pass over when they read the tier as a table
    commit   one compare-and-set has the manifest name the files; from then on they are read. Then
             they move out of `_attempts/`; readers look into both places
    release  one compare-and-set takes the ledgers off the log, onto its list of doomed ones; then
             they are deleted

A crash between any two of these leaves every record readable, and doing all of it again goes on
where it ended. A file that the manifest does not name is an *orphan* once its segment has another
one or has left the log: both are for ever, so that `gc` can take nothing from an attempt that is
still under way.

A trimmed segment's file goes as its ledger does: off the manifest first, then deleted.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
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
from quire.log.reading.source import door, parquet
from quire.log.segment_store.port import SegmentStore

T = TypeVar("T")

TOKEN_BITS: Final = 32

_HALF_A_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/(?!/)")
"""`s3:/bucket`, `file:/cold`: taken for a path it would be a directory below the present one."""


def target_uri(target: str) -> str:
    """Return the URI of a directory for cold segments; a path means this machine's disk.

    Raises `ConfigurationError` for what is neither, and for a URI with a password in it, which
    would lie open in the manifest.
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
        shown = f"{scheme}://…" if mark else repr(target)  # there may be a password in it
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
        """Return the log's tier below a directory, and the segments that could move there.

        `target` is a URI as pyarrow's file systems know them (`file:///…`, `s3://bucket/…`,
        `gs://…`, `hdfs://…`), or a path. A place is recorded only after a small file was written,
        read back and removed there: what is recorded must be visited by every deletion. From now on
        programs that know nothing of cold segments refuse the log. Raises `NoSuchLogError`,
        `ColdTierError`, and `ConfigurationError`, also for a place with files of this log that its
        manifest does not know of: it was rebuilt, and they may be all that is left of some records.
        """
        uri = target_uri(target)
        door(uri).locate(uri)
        seen, _ = await self._record.read()
        _check_stays(seen)
        tier = tier_of(uri, seen.log_id)
        if tier not in seen.tiers:
            await asyncio.to_thread(door(uri).probe, tier)
        # Listed before the manifest is read for the edit: whoever has written since was quicker to
        # name the tier.
        found = set.union(*await asyncio.to_thread(door(uri).list_files, tier, seen.log_id))

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

    async def write(self, segment: Segment, tier: str, *, password: bytes = b"") -> ColdFile:
        """Write a segment into a file, verify that by reading it, and return what to commit.

        Nothing of the log changes. After an error or a cancellation the file is removed if that is
        possible. Raises what reading the segment does, `ColdTierError`, and `CorruptStorageError`
        when the file does not give back what was written.
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

            await self._copy(replace(segment, cold=cold), password, count)
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
        """Have `take` get every entry of a segment, in a thread. The segment must be whole."""
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
        """Have the manifest name files, by segment number; whatever else was written meanwhile wins
        over them. Files that came too late are deleted. May be repeated.

        Raises `NoSuchLogError`, and the store's errors.
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
        """Return the segments of some numbers that are left now. Raises `NoSuchLogError`."""
        manifest, _ = await self._record.read()
        return await self._record.ask(manifest, lambda now: _numbered(now, numbers))

    async def release(self) -> LogManifest:
        """Give up the ledgers of all segments that are in files: doom them, then delete them.

        Each file is in its place before, and as large as it was: the ledger of a file that is away
        stays, and readers go on with it. Raises `NoSuchLogError`, `ColdTierError`, also for a file
        that is away, when all other ledgers are given up.
        """
        away: list[Segment] = []
        manifest, _ = await self._record.read()
        held: list[Segment] = []
        async for each in Walk(manifest, skips=_is_all_given_up, wants=_is_twice):
            held.append(each)
            if len(held) == page_tree.PAGE_ROWS:
                await self._release(held, away)
                held = []
        manifest = await self._release(held, away)
        for each in away:
            found = await segment_from(manifest, each.number)
            if found is not None and found.cold is not None and found.cold == each.cold:
                raise ColdTierError(
                    found.cold.uri,
                    f"the file is missing, or is not {found.cold.size} bytes; bookies keep ledger "
                    f"{each.ledger} of segment {each.number}, and readers use it: put the file "
                    "back, then offload again",
                )
        return manifest

    async def _release(self, held: Sequence[Segment], away: list[Segment]) -> LogManifest:
        """Give up the ledgers of some segments and delete them; note those whose file is away."""
        files = [each.cold for each in held if each.cold]
        await self._settle(files)
        there = {each for each in files if await _is_there(each)}
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
        """Delete files that no manifest names, nor ever will, and return their URIs.

        Also what a trim could not delete. A tier that fails does not keep the others from being
        cleaned. Raises `NoSuchLogError`, `ColdTierError`, `ConfigurationError`.
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
        # Read after the files were listed: what it says of their segments stays so.
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
        """Move files that the manifest names out of the attempts, where Spark does not see them."""
        for file in files:
            await asyncio.to_thread(door(file.tier).settle, file, log_id_of(file.uri))

    async def _delete(self, uris: Iterable[str]) -> None:
        """Delete files that this program wrote or found; each lies in the directory of its log."""
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
    """Clean the tiers of logs one by one; one that fails does not keep the others from it.

    Returns the URIs of all files that were deleted. Raises the first `ColdTierError` or
    `ConfigurationError`, after all others are cleaned.
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


async def _is_there(file: ColdFile) -> bool:
    found: bool = await asyncio.to_thread(door(file.tier).is_there, file, log_id_of(file.uri))
    return found


def _check_stays(manifest: LogManifest) -> None:
    """Raise for a log that is being deleted, whose tiers may be gone already."""
    if manifest.retired:
        raise NoSuchLogError(manifest.name)


def is_orphan(manifest: LogManifest, name: str) -> bool:
    """True when a file is not, and can never be, named by the manifest, whatever its tier. Pure.
    Raises `PagesNeededError`.

    Two tiers may be one directory, by a link or in another spelling. Names alone keep attempts
    apart.
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
