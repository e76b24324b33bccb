"""Ingest: ledgers written by many processes become the next segments of a log, all or none.

    every process   creates a part: a ledger, registered under its job in the same transaction;
                    writes it, with offsets from 0; closes it
    one process     recovers the open segments of the log → in one compare-and-set: epoch + 1, seal
                    the recovered segments, append the parts in order, remember the job → gc

The compare-and-set is a takeover (takeover.py) without a leader after it: the present leader is
deposed, and the next leader continues after the parts. The offsets in the parts begin at 0; readers
add the segment's base (batch.py). A log ingests a job that it remembers only once, so a driver that
does not know the outcome repeats the whole job.

A gc deletes the ledgers of a job that the log does not list. They belong to tasks that failed or
ran twice, or to an attempt that died. An attempt that is still under way then fails.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Final

from quire.aio.retry import BACKOFF
from quire.entry import NO_ENTRY, LedgerId
from quire.errors import (
    ConflictError,
    CorruptEntryError,
    InvalidRequestError,
    MissingPageError,
    NoSuchLedgerError,
    NoSuchNodeError,
    OvertakenError,
    QuireError,
    UnsupportedError,
)
from quire.ledger.catalog import LedgerCatalog
from quire.ledger.writer import LedgerWriter
from quire.log.maintenance.job_info import JobInfo, LogJobs, PartInfo, is_silent
from quire.log.manifest.capacity import PART_BYTES, check_growth, manifest_bytes
from quire.log.manifest.clocks import Clocks
from quire.log.manifest.jobs import Limits, forgotten_count
from quire.log.manifest.manifest import EMPTY, Job, LogManifest, SegmentEnd
from quire.log.manifest.options import LogOptions, of_log
from quire.log.manifest.page_tree import Place, below
from quire.log.manifest.pages_at_hand import lists
from quire.log.manifest.record import ManifestRecord, once
from quire.log.manifest.recovery import (
    ATTEMPTS_MAX,
    check_password,
    check_writable,
    recover_open_segments,
)
from quire.log.records.batch import UNPLACED, decode_header
from quire.log.segment_store.port import SegmentCapability, SegmentStore
from quire.metastore.changes import Change, Create
from quire.metastore.layout import (
    PARTS,
    jobs_path,
    parse_ledger,
    part_path,
    parts_path,
    unquote_name,
)
from quire.metastore.record import RecordFormat
from quire.metastore.store import MetadataStore

FORMAT: Final = RecordFormat("part", frozenset())


class _RaceLostError(Exception):
    """Another client took the log over since its segments were recovered. Caught in this module."""


class Ingest:
    """The jobs of one log. Stateless: any number may exist."""

    def __init__(
        self,
        store: MetadataStore,
        record: ManifestRecord,
        catalog: LedgerCatalog,
        segments: SegmentStore,
        *,
        rng: Random,
        clocks: Clocks,
    ) -> None:
        self._store = store
        self._record = record
        self._catalog = catalog
        self._segments = segments
        self._rng = rng
        self._clocks = clocks

    def _check_parts(self) -> None:
        if SegmentCapability.PARTS not in self._segments.capabilities:
            raise UnsupportedError(f"log {self._record.name!r}", SegmentCapability.PARTS.value)

    async def check_attributes_allowed(self) -> None:
        """Raise `LevelNeededError` unless records of parts may have keys, headers and times."""
        await self._record.check_attributes_allowed()

    async def create_part(self, job: str, options: LogOptions) -> LedgerWriter:
        """Create a ledger for a job. Its entries are batches whose headers count from `UNPLACED`.

        Ledger and registration are one change of the store, so the next gc finds every part. The
        log's stored options override `options`. Raises `NotEnoughBookiesError`, the store's errors,
        and `UnsupportedError` if the segments of logs are not ledgers.
        """
        self._check_parts()
        manifest, _ = await self._record.find()
        if manifest is not None:
            check_growth(manifest)
        options = options.with_stored(manifest.settings if manifest else {})

        def registration(ledger: LedgerId) -> Sequence[Change]:
            path = part_path(self._record.name, job, ledger)
            return (Create(path, FORMAT.encode({})),)

        return await self._catalog.create(
            options.replication,
            password=options.password,
            digest=options.digest,
            custom_metadata={"log": self._record.name, "job": job},
            placement=options.placement,
            read_needs_password=options.read_needs_password,
            salt=manifest.log_id.encode() if manifest else b"",
            along=registration,
        )

    async def ingest(
        self,
        parts: Sequence[LedgerId],
        job: Job,
        *,
        remember: bool,
        after: int | None = None,
        password: bytes = b"",
    ) -> LogManifest:
        """Append closed parts to the log, in this order. Create the log if it does not exist.

        With `remember` a job that has done this work, or later work, is not ingested again. Either
        way the call may be repeated after any error.

        Args:
            parts: the ledgers, all closed.
            job: the job's name and the sequence of this work.
            remember: store the job in the log.
            after: the sequence that the job must have reached, 0 for none; None to skip the check.
            password: the log's password.

        Returns:
            The manifest as it then is.

        Raises:
            OvertakenError: the job has reached another sequence than `after`.
            JobReusedError: a stream continues under the job of another stream, or repeats a
                sequence with other records.
            ForgottenJobError: the log no longer remembers the job's result.
            TooManyJobsError: the job is new, and the log may not forget another job yet.
            LogFullError, LogSealedError, LogBeingDeletedError: the log takes no segments.
            NoSuchLedgerError: another attempt of the job deleted a part; or a part was ingested and
                trimmed since, and the log does not remember the job.
            InvalidRequestError: a part is not closed, or is given twice, or is new beside parts
                that the log has; or a manifest cannot hold the sequence.
            UnauthorizedError: the password is not the log's.
            UnsupportedError: the segments of logs are not ledgers.
            QuireError: the errors of recovery and of the store.
        """
        self._check_parts()
        _check_work(parts, job)
        seen, _ = await self._record.find()
        if remember and seen is not None and await self._find_done(seen, parts, job):
            await self._sweep(job.name)
            return seen
        for attempt in range(ATTEMPTS_MAX):
            try:
                manifest = await self._attempt(parts, job, remember, after, password)
                break
            except _RaceLostError:
                await asyncio.sleep(BACKOFF.seconds(attempt, self._rng))
        else:
            raise ConflictError(f"log {self._record.name!r} was taken over at every attempt")
        await self._sweep(job.name)
        return manifest

    async def has_done(self, job: Job) -> bool:
        """Return whether the log remembers this work of a job, or later work.

        Raises `ForgottenJobError` if the log has forgotten the job.
        """
        manifest, _ = await self._record.find()
        if manifest is None:
            return False
        return await self._record.ask(manifest, lambda now: now.has_done(job))

    async def jobs(self) -> list[str]:
        """Return the names of the jobs with registered parts: neither ingested nor deleted."""
        names = await self._store.children(jobs_path(self._record.name))
        jobs = [unquote_name(name) for name in names]
        return sorted([job for job in jobs if await self._registered(job)])

    async def survey(self) -> LogJobs:
        """Return the jobs that the log remembers, or that have registered parts, by name.

        Raises `CorruptRecordError`, and the store's errors.
        """
        manifest, _ = await self._record.find()
        if manifest is not None:
            manifest = await self._record.with_jobs(manifest)
        remembered = {each.name: each for each in manifest.jobs} if manifest else {}
        found: list[JobInfo] = []
        for name in sorted({*remembered, *await self.jobs()}):
            known = remembered.get(name)
            sequence, query = (known.sequence, known.query) if known else (None, "")
            parts = [await self._part(each) for each in await self._registered(name)]
            shown = tuple(each for each in parts if each is not None)
            if known or shown:
                found.append(JobInfo(name, sequence, query, shown))
        forgotten = forgotten_count(manifest.forgotten_jobs) if manifest else 0
        return LogJobs(self._record.name, tuple(found), forgotten)

    async def _part(self, ledger: LedgerId) -> PartInfo | None:
        """Return the content of a part's record, None if it is deleted."""
        try:
            metadata = await self._catalog.metadata(ledger)
        except NoSuchLedgerError:
            return None
        return PartInfo(ledger, metadata.created_ms, metadata.length)

    async def drop(self, job: str) -> list[LedgerId]:
        """Delete the ledgers of a job that the log did not ingest, and return them."""
        return await self._sweep(job)

    async def drop_silent(self, seconds: float) -> list[LedgerId]:
        """Delete the parts of jobs that began none within so many seconds, and return them.

        The clocks of the processes that wrote them decide. A job that is still under way fails
        then: its ingest raises `NoSuchLedgerError`, and nothing of it is in the log.
        """
        since_ms = self._now_ms() - int(seconds * 1000)
        dropped: list[LedgerId] = []
        for each in (await self.survey()).jobs:
            if is_silent(each, since_ms):
                dropped += await self._sweep(each.name)
        return dropped

    async def _attempt(
        self,
        parts: Sequence[LedgerId],
        job: Job,
        remember: bool,
        after: int | None,
        password: bytes,
    ) -> LogManifest:
        seen, version = await self._record.find()
        base = seen or LogManifest(
            self._record.name, f"{self._rng.getrandbits(128):032x}", self._now_ms()
        )
        remembered = job if remember else None
        if await self._find_done(base, parts, remembered):
            return base
        floor = await self._record.epoch_floor()
        # Parts are read after the manifest: deleting a log deletes them before the manifest.
        found = [(ledger, await self._end_of(ledger, password)) for ledger in parts]
        full = [(ledger, end) for ledger, end in found if end.records]
        ends: dict[int, SegmentEnd] = {}
        aged = base.aged(self._clocks.reading())
        await self._record.ask(aged, lambda now: _check_space(now, remembered, len(full)))
        if full:
            await check_password(self._segments, base, password)
            try:
                ends = await recover_open_segments(self._segments, base, password)
            except NoSuchLedgerError:
                if (await self._record.find())[1] == version:
                    raise
                raise _RaceLostError from None

        def edit(manifest: LogManifest | None) -> LogManifest:
            if manifest is None and seen is not None:
                raise _RaceLostError  # deleted: its segments must not be listed again
            now = manifest or base
            if _is_done(now, parts, remembered):
                return now
            _check_follows(now, job, after)
            check_writable(now)
            fresh = now.aged(self._clocks.reading())
            if not full:
                return now if remembered is None else fresh.note_job(remembered, _limits(now))
            if _shape(now) != _shape(base):
                raise _RaceLostError
            return fresh.ingest(ends, full, remembered, self._now_ms(), _limits(now), floor)

        # The parts of a log that was deleted meanwhile are gone: the next attempt checks them.
        return await self._record.edit(once(edit, _RaceLostError()))

    async def _find_done(
        self, manifest: LogManifest, parts: Sequence[LedgerId], job: Job | None
    ) -> bool:
        """Return what `_is_done` does, with the doomed pages searched, too.

        The manifest, with its doomed pages, lists every ingested part until its ledger is deleted.
        Raises `InvalidRequestError` if it lists some of the parts, and another one with records was
        never ingested: these are not the parts of an ingest that is repeated.
        """
        if job is not None and await self._record.ask(manifest, lambda now: _knows(now, job)):
            return True
        there = await self._record.ask(manifest, lambda now: _listed(now, parts))
        there |= await _doomed(manifest, manifest.doomed_pages, frozenset(parts) - there)
        for ledger in (each for each in parts if there and each not in there):
            if await self._is_kept(ledger):
                raise InvalidRequestError(
                    f"log {self._record.name!r} has ledger {min(there)} already, and ledger "
                    f"{ledger} was never ingested: parts are ingested together, so give the new "
                    "ones alone"
                )
        return bool(there)

    async def _is_kept(self, ledger: LedgerId) -> bool:
        """Return whether a part has records. After its ingest it is deleted before its log's
        manifest forgets it, and an empty one is never listed.
        """
        with suppress(NoSuchLedgerError):
            return (await self._catalog.metadata(ledger)).last_entry != NO_ENTRY
        return False

    async def _end_of(self, ledger: LedgerId, password: bytes) -> SegmentEnd:
        """Return the end of a part, with offsets from 0."""
        async with await self._catalog.open_without_recovery(ledger, password=password) as reader:
            if not reader.is_closed:
                raise InvalidRequestError(
                    f"ledger {ledger} cannot become part of log {self._record.name!r}: close it"
                )
            last = await reader.last_confirmed()
            if last < 0:
                return EMPTY
            header = decode_header((await reader.read_entry(last)).payload, ledger, last)
            length = reader._metadata.length or 0
        if header.epoch != UNPLACED.epoch or header.first_offset < last:
            raise CorruptEntryError(
                ledger, last, f"epoch {header.epoch}, offset {header.first_offset} of no part"
            )
        return SegmentEnd(last, header.count, header.next_offset, length, 0)

    async def _sweep(self, job: str) -> list[LedgerId]:
        """Forget a job's parts, delete those that the log does not list, and return these.

        A part that cannot be deleted stays registered.
        """
        deleted: list[LedgerId] = []
        for ledger in await self._registered(job):
            with suppress(QuireError):
                if await self._forget(job, ledger):
                    deleted.append(ledger)
        return deleted

    async def _forget(self, job: str, ledger: LedgerId) -> bool:
        """Forget a part; delete its ledger unless the log lists it. Return whether it was deleted.

        The deletion checks the manifest's version in the same transaction, so it fails if another
        attempt has ingested the part.
        """
        deleted = False
        for _ in range(ATTEMPTS_MAX):
            manifest, version = await self._record.find()
            if manifest is not None and await lists(manifest, ledger):
                break
            with suppress(NoSuchLedgerError):
                try:
                    await self._catalog.delete(ledger, self._record.unchanged(manifest, version))
                    deleted = True
                except (ConflictError, NoSuchNodeError):
                    continue
            break
        else:
            return False
        with suppress(NoSuchNodeError):
            await self._store.delete(part_path(self._record.name, job, ledger))
        return deleted

    async def _registered(self, job: str) -> list[LedgerId]:
        names = await self._store.children(parts_path(self._record.name, job))
        return sorted(parse_ledger(name) for name in names)

    def _now_ms(self) -> int:
        return self._clocks.now_ms()


async def logs_with_parts(store: MetadataStore) -> list[str]:
    """Return the names of the logs that have, or had, registered parts; they need not exist."""
    return sorted(unquote_name(name) for name in await store.children(PARTS))


async def drop_silent_jobs(
    store: MetadataStore, ingest_of: Callable[[str], Ingest], seconds: float | None
) -> Mapping[str, Sequence[LedgerId]]:
    """Delete the parts of all logs' jobs that began none within so many seconds. Return them by
    log; nothing for None. Raises `InvalidRequestError` for a number that is no duration.
    """
    if seconds is None:
        return {}
    if not 0 <= seconds < math.inf:
        raise InvalidRequestError(f"jobs_older_than is {seconds}: give seconds, 0 or more")
    dropped = {
        name: await ingest_of(name).drop_silent(seconds) for name in await logs_with_parts(store)
    }
    return {name: ledgers for name, ledgers in dropped.items() if ledgers}


def _check_work(parts: Sequence[LedgerId], job: Job) -> None:
    """Raise `InvalidRequestError` for work that a manifest cannot hold: one with the sequence 1.0
    could not be read again.
    """
    if type(job.sequence) is not int or not 0 <= job.sequence < 2**63:
        raise InvalidRequestError(
            f"sequence {job.sequence!r} of job {job.name!r} is not a number in 0..2**63-1"
        )
    twice = [each for each, count in Counter(parts).items() if count > 1]
    if twice:
        raise InvalidRequestError(
            f"ledger {twice[0]} is given twice as a part of job {job.name!r}: name each part once"
        )


def _is_done(manifest: LogManifest, parts: Sequence[LedgerId], job: Job | None) -> bool:
    """Return whether the parts were ingested, also if they were offloaded or trimmed since.

    Raises `JobReusedError` if the job's sequence belongs to other records.
    """
    is_known = job is not None and _knows(manifest, job)
    return is_known or bool(_listed(manifest, parts))


def _knows(manifest: LogManifest, job: Job) -> bool:
    """Return whether a log remembers this work, or later work of the job. Raises as `_is_done`."""
    manifest.check_job(job)
    return manifest.has_done(job)


def _listed(manifest: LogManifest, parts: Sequence[LedgerId]) -> frozenset[LedgerId]:
    """Return the parts that a log has, or has yet to delete."""
    doomed = frozenset(manifest.doomed)
    return frozenset(each for each in parts if each in doomed or manifest.with_ledger(each))


async def _doomed(
    manifest: LogManifest, places: Sequence[Place], parts: frozenset[LedgerId]
) -> frozenset[LedgerId]:
    """Return the parts that pages list. The ledgers of a missing page are deleted."""
    found: frozenset[LedgerId] = frozenset()
    for place in places:
        of = place.reference.of
        if not any(of.min_ledger <= each <= of.max_ledger for each in parts):
            continue
        with suppress(MissingPageError):
            page = await manifest.pages.fetch(place, manifest.tiers)
            found |= parts.intersection(each.ledger for each in page.segments)
            found |= await _doomed(manifest, below(page), parts)
    return found


def _check_follows(manifest: LogManifest, job: Job, after: int | None) -> None:
    if after is None:
        return
    found = manifest.sequence_of(job.name)
    if found != after:
        raise OvertakenError(manifest.name, job.name, after, found)


def _check_space(manifest: LogManifest, job: Job | None, parts: int) -> None:
    """Raise `LogFullError` or `TooManyJobsError` before the log's leader is fenced."""
    noted = manifest.note_job(job, _limits(manifest))
    if parts or manifest_bytes(noted) > manifest_bytes(manifest):
        check_growth(noted, PART_BYTES * parts)


def _limits(manifest: LogManifest) -> Limits:
    """Return how many jobs a log remembers, by its stored options: there is no leader to ask."""
    options = of_log(manifest.settings)
    return Limits(options.jobs_max, options.jobs_seconds)


def _shape(manifest: LogManifest) -> tuple[object, ...]:
    """Return the fields that may not change between recovery and ingest. A trim may happen."""
    ledgers = tuple(each.ledger for each in manifest.open_segments)
    return manifest.log_id, manifest.epoch, manifest.next_segment, ledgers
