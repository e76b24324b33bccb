"""Ingest: ledgers that many processes wrote become a log's next segments, all of them or none.

    every process   creates a part: a ledger that is registered under its job, in one transaction;
                    writes it, numbering from 0 as it cannot know better; closes it
    one process     recovers what is open in the log → in one compare-and-set: epoch + 1, seal what
                    was recovered, append the parts in order, remember the job → gc

The compare-and-set is a takeover (takeover.py) whose leader is gone at once: the present leader is
deposed, and the next one continues after the parts. Readers place the headers of the parts in the
log by the segment's base (batch.py). A job that is remembered is not ingested again, so a driver
that does not know the outcome repeats all of it.

A gc deletes the ledgers of a job that the log does not list: those of tasks that failed, ran
twice, or belong to an attempt that died. An attempt that is still under way then fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Final

from quire.aio.retry import BACKOFF
from quire.entry import LedgerId
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
from quire.log.manifest.capacity import PART_BYTES, check_growth, manifest_bytes
from quire.log.manifest.clocks import Clocks
from quire.log.manifest.jobs import Limits
from quire.log.manifest.manifest import EMPTY, Job, LogManifest, SegmentEnd
from quire.log.manifest.options import LogOptions
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
from quire.metastore.layout import jobs_path, parse_ledger, part_path, parts_path, unquote_name
from quire.metastore.record import RecordFormat
from quire.metastore.store import MetadataStore

FORMAT: Final = RecordFormat("part", frozenset())


class _RaceLostError(Exception):
    """Another client took the log over since its segments were recovered. Never leaves here."""


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

    async def create_part(self, job: str, options: LogOptions) -> LedgerWriter:
        """Create a ledger for a job. Its entries are batches whose headers count from `UNPLACED`.

        Ledger and registration are one change of the store: no part is ever left behind of which
        the next gc would not know. The log's settings win over the options. Raises
        `NotEnoughBookiesError` and the store's errors, and `UnsupportedError` where the segments of
        logs are no ledgers.
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
        """Append closed parts to the log, in this order, creating it when it does not exist.

        With `remember` nothing is done when this job has done this or later work before. Either way
        the call may be repeated after any error. `after` is the sequence, 0 for none, that the job
        must have come to so far. Returns the manifest as it then is.

        Raises `OvertakenError` when it came to another one; `JobReusedError` when a stream goes on
        under the job of another one, or repeats a number with other records; `ForgottenJobError`
        when the log cannot tell any more what the job did; `TooManyJobsError` for a new job when
        the log must forget none yet; `LogFullError`; `LogSealedError`;
        `LogBeingDeletedError`; `NoSuchLedgerError` when another attempt of the job deleted a part,
        or, unless the log remembers the job, when a part was ingested and trimmed away since;
        `InvalidRequestError` for one that is not closed, and for a sequence that a manifest cannot
        hold; `UnauthorizedError` for a password that is not the log's; `UnsupportedError` where the
        segments of logs are no ledgers; the errors of recovery and of the store.
        """
        self._check_parts()
        if not 0 <= job.sequence < 2**63:
            raise InvalidRequestError(
                f"sequence {job.sequence} of job {job.name!r} is not in 0..2**63-1"
            )
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
        """Whether the log remembers this work of a job, or later work.

        Raises `ForgottenJobError` when the log has forgotten the job.
        """
        manifest, _ = await self._record.find()
        if manifest is None:
            return False
        return await self._record.ask(manifest, lambda now: now.has_done(job))

    async def jobs(self) -> list[str]:
        """Return the names of jobs that have parts which were neither ingested nor deleted."""
        names = await self._store.children(jobs_path(self._record.name))
        jobs = [unquote_name(name) for name in names]
        return sorted([job for job in jobs if await self._registered(job)])

    async def drop(self, job: str) -> None:
        """Delete the ledgers of a job that the log did not ingest."""
        await self._sweep(job)

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
        # After the manifest, because a deletion of a log deletes the parts before it.
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
                raise _RaceLostError  # deleted: what it listed must not be listed again
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

        # If it was deleted meanwhile, the parts went with it: look at them again.
        return await self._record.edit(once(edit, _RaceLostError()))

    async def _find_done(
        self, manifest: LogManifest, parts: Sequence[LedgerId], job: Job | None
    ) -> bool:
        """As `_is_done`. It also looks into doomed pages: whatever was ingested before this
        manifest was read is in it, until its ledger is deleted.
        """
        if await self._record.ask(manifest, lambda now: _is_done(now, parts, job)):
            return True
        return await _are_doomed(manifest, manifest.doomed_pages, parts)

    async def _end_of(self, ledger: LedgerId, password: bytes) -> SegmentEnd:
        """How a part ends, numbered as it numbers itself."""
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

    async def _sweep(self, job: str) -> None:
        """Forget a job's parts, deleting those the log does not list. What fails stays known."""
        for ledger in await self._registered(job):
            with suppress(QuireError):
                await self._forget(job, ledger)

    async def _forget(self, job: str, ledger: LedgerId) -> None:
        """Forget a part. It is deleted together with a change of the manifest that changes nothing,
        so not after another attempt has had it ingested.
        """
        for _ in range(ATTEMPTS_MAX):
            manifest, version = await self._record.find()
            if manifest is not None and await lists(manifest, ledger):
                break
            with suppress(NoSuchLedgerError):
                try:
                    await self._catalog.delete(ledger, self._record.unchanged(manifest, version))
                except (ConflictError, NoSuchNodeError):
                    continue
            break
        else:
            return
        with suppress(NoSuchNodeError):
            await self._store.delete(part_path(self._record.name, job, ledger))

    async def _registered(self, job: str) -> list[LedgerId]:
        names = await self._store.children(parts_path(self._record.name, job))
        return sorted(parse_ledger(name) for name in names)

    def _now_ms(self) -> int:
        return self._clocks.now_ms()


def _is_done(manifest: LogManifest, parts: Sequence[LedgerId], job: Job | None) -> bool:
    """Whether parts were ingested. Their ledgers may be given up since, for files or for good.

    Raises `JobReusedError` when the number of the job stands for something else.
    """
    if job is not None:
        manifest.check_job(job)
        if manifest.has_done(job):
            return True
    doomed = frozenset(manifest.doomed)
    return any(each in doomed or manifest.with_ledger(each) for each in parts)


async def _are_doomed(
    manifest: LogManifest, places: Sequence[Place], parts: Sequence[LedgerId]
) -> bool:
    """Whether pages name a part. A missing page had its ledgers deleted."""
    for place in places:
        of = place.reference.of
        if not any(of.min_ledger <= each <= of.max_ledger for each in parts):
            continue
        with suppress(MissingPageError):
            page = await manifest.pages.fetch(place, manifest.tiers)
            found = {each.ledger for each in page.segments}
            if not found.isdisjoint(parts) or await _are_doomed(manifest, below(page), parts):
                return True
    return False


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
    """How many jobs a log remembers; it has no leader to ask."""
    options = LogOptions().with_stored(manifest.settings)
    return Limits(options.jobs_max, options.jobs_seconds)


def _shape(manifest: LogManifest) -> tuple[object, ...]:
    """What may not change between recovery and ingest. A trim may come in between."""
    ledgers = tuple(each.ledger for each in manifest.open_segments)
    return manifest.log_id, manifest.epoch, manifest.next_segment, ledgers
