"""The manifest: a log's one record, which says which ledgers it is made of.

Every change of a log's shape is one of the edits below, applied to the manifest just read and
written by compare-and-set. Edits are pure and refuse to break an invariant (`check`):

  numbers       segment numbers grow and are never used again, not even after an empty segment
  epochs        never decrease along the segments, nor pass the log's
  ledgers       no ledger is listed twice
  two-open      at most the last two segments are open: recovering both recovers all
  offsets       every segment starts where the one before ended; unknown only while that one is open
  txids  the last ids of sealed segments never decrease
  sealed        a sealed log has no open segment
  trim          the trim point is not beyond the end
  cold          no open segment is in a file
  ages          marks ascend, and none is later than the count of the log's time

A sealed segment's ledger is closed at the very entry that the segment names. Sealing a segment in
which nothing was written drops it. `doomed` are ledgers that left the log and are still to be
deleted.

The trim point is kept in its lowest form: after the last record removed, not before the first one
left. Any position from there on lost nothing, whichever way its owner wrote it down.

Pure: no clock and no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from quire.entry import LedgerId
from quire.errors import ConfigurationError, CorruptRecordError, InvalidRequestError
from quire.fields import NOTHING, Unknown
from quire.log.manifest.ages import NO_AGES, Ages, Reading
from quire.log.manifest.codec import broken_invariants, decode_manifest, encode_manifest
from quire.log.manifest.holder import Holder
from quire.log.manifest.jobs import Forgotten, Limits, Memory, check_continues
from quire.log.manifest.jobs import Job as Job
from quire.log.manifest.page import Page, Reference, Summary
from quire.log.manifest.page_tree import (
    NO_BORDER,
    NO_PAGES,
    Border,
    Levels,
    Pages,
    Place,
    all_rows,
    mapped,
    pack,
    places_of,
    row_before,
    row_from,
    rows_of_ledger,
    trim_below,
    trimmed_levels,
)
from quire.log.manifest.schema import NO_SETTINGS
from quire.log.manifest.segment import EMPTY as EMPTY
from quire.log.manifest.segment import Segment as Segment
from quire.log.manifest.segment import SegmentEnd as SegmentEnd
from quire.log.manifest.times import begin_ms
from quire.log.records.position import BEGINNING, Position
from quire.log.records.txids import NO_TXID

FIRST_SEGMENT: Final = 1
DEFAULT_LIMITS: Final = Limits()


class JobsNeededError(Exception):
    """A question needs the jobs of a log, which have a record of their own (jobs_record.py)."""


@dataclass(frozen=True, slots=True)
class LogManifest:
    """A log's shape at one version of its record."""

    name: str
    log_id: str
    created_ms: int
    epoch: int = 0
    rows: tuple[Segment, ...] = ()
    """The segments, but for those in pages (page_tree.py): the youngest and the open ones."""
    next_segment: int = FIRST_SEGMENT
    first_offset: int = 0
    """Offset of the first record of the first segment, or of the next record without a segment."""
    trimmed_to: Position = BEGINNING
    trimmed_transaction: int = NO_TXID
    """The last txid of the segments that have left the log."""
    trimmed_timestamp_ms: int = 0
    """The time that the last record of the segments that have left the log bears."""
    sealed: bool = False
    retired: bool = False
    """The log is being deleted: to readers it is gone."""
    doomed: tuple[LedgerId, ...] = ()
    settings: Mapping[str, str] = field(default_factory=lambda: NO_SETTINGS)
    """Options that hold for every leader of this log (options.py), by name."""
    jobs: tuple[Job, ...] = ()
    """The last work of every job with ingested ledgers, the latest last."""
    forgotten_jobs: tuple[Forgotten, ...] = ()
    """Fingerprints of the forgotten jobs, the oldest first."""
    tiers: tuple[str, ...] = ()
    """Where files of cold segments are, or may be: URIs, in the order in which they were named."""
    doomed_files: tuple[str, ...] = ()
    """URIs of files that are still to be deleted."""
    ages: Ages = NO_AGES
    """How much time the log has counted, and when segments were sealed by that."""
    holder: Holder | None = None
    """The process that took the log over, at the epoch that it names."""
    unknown: Unknown = NOTHING
    is_paged: bool = False
    """Whether the record is of the version that may have pages, and has its jobs elsewhere."""
    levels: Levels = ()
    border: Border = NO_BORDER
    doomed_pages: tuple[Place, ...] = ()
    """Pages with ledgers and files that are still to be deleted."""
    has_jobs: bool = field(default=True, compare=False)
    """Whether `jobs` and `forgotten_jobs` are at hand."""
    will_page: bool = field(default=False, compare=False)
    """Whether the next change moves old rows into pages, so that the record gets small."""
    pages: Pages = field(default=NO_PAGES, compare=False, repr=False)
    """The pages at hand: questions and edits that need others raise `PagesNeededError`."""

    # Questions of a reader or leader.

    @property
    def open_segments(self) -> tuple[Segment, ...]:
        """The segments without an end: their leader may still write them."""
        return tuple(each for each in self.rows if each.end is None)

    @property
    def places(self) -> list[Place]:
        """The pages with segments that the head names, the oldest first."""
        return places_of(self.levels)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """All segments. Raises `PagesNeededError` unless all pages are at hand."""
        if not self.levels:
            return self.rows
        return (*all_rows(self.places, self.border.first, self.pages), *self.rows)

    @property
    def segment_count(self) -> int:
        """How many segments the log has."""
        paged = sum(each.reference.of.segments for each in self.places)
        return paged - self.border.segments + len(self.rows)

    @property
    def live_bytes(self) -> int:
        """Payload bytes of the sealed segments."""
        paged = sum(each.reference.of.bytes for each in self.places)
        return paged - self.border.bytes + sum(each.bytes or 0 for each in self.rows)

    @property
    def first_number(self) -> int:
        """The number of the first segment, or of the next one in an empty log."""
        if self.levels:
            return self.border.first
        return self.rows[0].number if self.rows else self.next_segment

    @property
    def tail(self) -> Segment | None:
        """The last segment, None if the log has no segment."""
        return self.rows[-1] if self.rows else None

    @property
    def end_offset(self) -> int | None:
        """Offset of the next record; None while an open segment hides it."""
        return self.rows[-1].end_offset if self.rows else self.first_offset

    @property
    def last_txid(self) -> int:
        """The last txid of the sealed segments, or `NO_TXID`."""
        ends = [each.end.last_txid for each in self.rows if each.end]
        return ends[-1] if ends else self.trimmed_transaction

    @property
    def last_timestamp_ms(self) -> int:
        """The time that the last record of the sealed segments bears, or 0."""
        times = [each.end.last_timestamp_ms for each in self.rows if each.end]
        return times[-1] if times else self.trimmed_timestamp_ms

    @property
    def first_position(self) -> Position:
        """The first position that can be read."""
        return max(self.trimmed_to, Position(self.first_number, 0, 0))

    @property
    def offset_trimmed_to(self) -> int | None:
        """Offset of the first record after the trim point; None while it lies inside a segment."""
        inside = bool(self.rows) and self.trimmed_to > Position(self.first_number, 0, 0)
        return None if inside else self.first_offset

    def segment_from(self, number: int) -> Segment | None:
        """The first segment with this number or a higher one. Raises `PagesNeededError`."""
        if self.levels and number < self.rows[0].number:
            found = row_from(self.places, max(number, self.border.first), self.pages)
            return found or self.rows[0]
        return next((each for each in self.rows if each.number >= number), None)

    def segment_before(self, number: int) -> Segment | None:
        """The last segment with a lower number. Raises `PagesNeededError`."""
        inside = [each for each in self.rows if each.number < number]
        if inside or number <= self.first_number:
            return inside[-1] if inside else None
        return row_before(self.places, number, self.pages)

    def with_ledger(self, ledger: LedgerId) -> list[Segment]:
        """The segments that have a ledger, or had it: one at most. Raises `PagesNeededError`."""
        paged = rows_of_ledger(self.places, ledger, self.border.first, self.pages)
        return [each for each in self.rows if each.ledger == ledger] or list(paged)

    def lists(self, ledger: LedgerId) -> bool:
        """True when the ledger is one of the log's segments, and not given up for a file.

        Raises `PagesNeededError`, but not for a ledger that was created later than any in a page.
        """
        return any(each.is_hot for each in self.with_ledger(ledger))

    # Edits.

    def epoch_after(self, floor: int) -> int:
        """Return the next epoch: above every one of this log, and a floor (cluster.py)."""
        return max(self.epoch, floor) + 1

    def take_over(
        self, ends: Mapping[int, SegmentEnd], ledger: LedgerId, now_ms: int, floor: int = 0
    ) -> LogManifest:
        """Begin the next epoch: seal the open segments (ends by number), append a ledger."""
        return self._next_epoch(ends, floor).append_segment(ledger, now_ms)

    def retire(self, ends: Mapping[int, SegmentEnd], floor: int = 0) -> LogManifest:
        """Begin an epoch that has no leader: everything is sealed and trimmed, before deletion."""
        manifest = self._next_epoch(ends, floor)
        manifest = manifest.trim(Position(manifest.next_segment, 0, 0)).seal_log()
        return replace(manifest, retired=True)

    def _next_epoch(self, ends: Mapping[int, SegmentEnd], floor: int) -> LogManifest:
        manifest = replace(self, epoch=self.epoch_after(floor))
        for segment in self.open_segments:
            manifest = manifest.seal_segment(segment.number, ends[segment.number])
        return manifest

    def ingest(
        self,
        ends: Mapping[int, SegmentEnd],
        parts: Iterable[tuple[LedgerId, SegmentEnd]],
        job: Job | None,
        now_ms: int,
        limits: Limits = DEFAULT_LIMITS,
        floor: int = 0,
    ) -> LogManifest:
        """Begin an epoch that is over at once: seal the open segments, append closed ledgers.

        Their records all have the time of the ingest (times.py). `job` is remembered, so that the
        same work is not ingested a second time. Raises `TooManyJobsError`.
        """
        manifest = self._next_epoch(ends, floor).note_job(job, limits)
        now_ms = begin_ms(manifest.last_timestamp_ms, now_ms)
        for ledger, end in parts:
            segment = Segment(
                manifest.next_segment,
                ledger,
                manifest.epoch,
                now_ms,
                manifest.end_offset,
                end._replace(last_timestamp_ms=now_ms, last_txid=manifest.last_txid),
                ingested=True,
            )
            rows = (*manifest.rows, segment)
            manifest = replace(manifest, rows=rows, next_segment=segment.number + 1)
        return manifest._checked()

    def has_done(self, job: Job) -> bool:
        """True when this work of a job, or later work of it, was ingested.

        Raises `ForgottenJobError`.
        """
        found = self._memory.find(self.name, job.name)
        return found is not None and found.sequence >= job.sequence

    def sequence_of(self, job: str) -> int:
        """How far a job has come; 0 when it is new. Raises `ForgottenJobError`."""
        found = self._memory.find(self.name, job)
        return found.sequence if found else 0

    def check_job(self, job: Job) -> None:
        """Raise `JobReusedError` when a stream cannot go on under this job (jobs.py), and
        `ForgottenJobError`.
        """
        check_continues(self.name, self._memory.find(self.name, job.name), job)

    def note_job(self, job: Job | None, limits: Limits = DEFAULT_LIMITS) -> LogManifest:
        """Remember how far a job has come (jobs.py). Raises `TooManyJobsError`."""
        if job is None:
            return self
        memory = self._memory.remember(self.name, job, limits, self.ages.counted_ms)
        return replace(self, jobs=memory.jobs, forgotten_jobs=memory.forgotten)

    @property
    def _memory(self) -> Memory:
        if not self.has_jobs:
            raise JobsNeededError
        return Memory(self.jobs, self.forgotten_jobs)

    def append_segment(self, ledger: LedgerId, now_ms: int) -> LogManifest:
        """Add an open segment at the end."""
        segment = Segment(self.next_segment, ledger, self.epoch, now_ms, self.end_offset)
        rows = (*self.rows, segment)
        return replace(self, rows=rows, next_segment=self.next_segment + 1)._checked()

    def seal_segment(self, number: int, end: SegmentEnd) -> LogManifest:
        """Seal the first open segment; the next one learns its first offset. Empty ones go."""
        segment, *rest = self.open_segments
        assert segment.number == number, f"segment {segment.number} must be sealed before {number}"
        sealed = replace(segment, end=end)
        if rest:
            rest[0] = replace(rest[0], first_offset=sealed.end_offset)
        head = tuple(each for each in self.rows if each.number < number)
        if end.records == 0:
            manifest = replace(self, rows=(*head, *rest), doomed=(*self.doomed, segment.ledger))
        else:
            manifest = replace(self, rows=(*head, sealed, *rest))
        if not manifest.levels:  # else the first segment is in a page, and was left by the trim
            manifest = manifest._without_trimmed()
        return manifest._checked()

    def trim(self, to: Position) -> LogManifest:
        """Remove every record before a position; never brings a record back.

        Segments wholly before it leave the log, the one it lies in stays whole. Once the last
        removed record is known, the point is the position directly after it: readers that have
        come so far lost nothing. Equal to `self` when there is nothing to do. Raises
        `InvalidRequestError` when it is beyond the end.
        """
        if to > Position(self.next_segment, 0, 0):
            raise InvalidRequestError(
                f"log {self.name!r} cannot be trimmed to {to}: it has no segment {to.segment} yet"
            )
        last = self._last_ended_by(to)
        left = self.segment_from(last.number + 1 if last else 0)
        point = last.end_position if last else None
        if left is not None and to > left.start:
            point = to
        return (
            replace(self, trimmed_to=max(self.trimmed_to, point or BEGINNING))
            ._without_trimmed()
            ._checked()
        )

    def _last_ended_by(self, position: Position) -> Segment | None:
        """The last segment that lies wholly before a position."""
        found = self.segment_from(position.segment)
        if found is None or not found.ends_by(position):
            found = self.segment_before(found.number if found else self.next_segment)
        while found is not None and found.end is None:
            found = self.segment_before(found.number)
        return found

    def _without_trimmed(self) -> LogManifest:
        last = self._last_ended_by(self.trimmed_to)
        if last is None or last.end is None or last.number < self.first_number:
            return self
        first_offset, end = last.end_offset, last.end_position
        assert first_offset is not None
        assert end is not None
        left, gone = self._without_pages(last)
        gone += [each for each in self.rows if each.number <= last.number]
        rows = tuple(each for each in self.rows if each.number > last.number)
        left = replace(left, rows=rows, first_offset=first_offset)
        return replace(
            left,
            trimmed_to=self.trimmed_to if left.offset_trimmed_to is None else end,
            trimmed_transaction=last.end.last_txid,
            trimmed_timestamp_ms=last.end.last_timestamp_ms,
            doomed=(*self.doomed, *(each.ledger for each in gone if each.is_hot)),
            doomed_files=(*self.doomed_files, *(each.cold.uri for each in gone if each.cold)),
        )

    def _without_pages(self, last: Segment) -> tuple[LogManifest, list[Segment]]:
        """Doom the pages that end with a segment or before; return the trimmed rows of another."""
        if not self.levels:
            return self, []
        if last.number >= self.rows[0].number:
            doomed = (*self.doomed_pages, *self.places)
            return replace(self, levels=(), border=NO_BORDER, doomed_pages=doomed), []
        first = self.segment_from(last.number + 1)
        assert first is not None, "rows follow the pages"
        if first.number >= self.rows[0].number:
            doomed = (*self.doomed_pages, *self.places)
            return replace(self, levels=(), border=NO_BORDER, doomed_pages=doomed), []
        gone = [each for each in self.places if each.reference.of.last < first.number]
        oldest = self.places[len(gone)]
        inner = trim_below([oldest], self.border.first, first.number, self.pages)
        left = trimmed_levels(
            [[each for each in level if each.of.last >= first.number] for level in self.levels]
        )
        border = Border(first.number, inner.bytes, inner.segments)
        doomed = (*self.doomed_pages, *gone, *inner.doomed)
        manifest = replace(self, levels=left, border=border, doomed_pages=doomed)
        return manifest, list(inner.rows)

    # Pages.

    def paged(self) -> LogManifest:
        """Return the manifest in its version with pages, and with old rows in pages."""
        rows, levels = pack(self.rows, self.levels, self._add)
        border = self.border
        if levels and not self.levels:
            border = Border(places_of(levels)[0].reference.of.first)
        return replace(self, is_paged=True, rows=rows, levels=levels, border=border)

    def with_segments(
        self, change: Callable[[Segment], Segment], is_wanted: Callable[[Summary], bool]
    ) -> LogManifest:
        """Return the manifest with segments changed: rows, and those in wanted pages.

        Raises `PagesNeededError`.
        """

        def change_left(segment: Segment) -> Segment:
            return change(segment) if segment.number >= self.border.first else segment

        def is_left(reference: Reference) -> bool:
            return reference.of.last >= self.border.first and is_wanted(reference.of)

        levels = tuple(
            mapped(level, each, change_left, is_left, self.pages, self._add)
            for level, each in enumerate(self.levels)
        )
        return replace(self, rows=tuple(map(change, self.rows)), levels=levels)

    def _add(self, page: Page) -> Reference:
        return self.pages.add(page, self.log_id, self.tiers)

    def aged(self, now: Reading) -> LogManifest:
        """Count the time until now, and mark sealed segments (ages.py). The change must be made by
        the log's leader, and `now` must be a reading made after everything in it.
        """
        open_ones = self.open_segments
        sealed = open_ones[0].number if open_ones else self.next_segment
        return replace(self, ages=self.ages.marked(now, self.first_number, sealed))

    def forget(
        self,
        ledgers: Iterable[LedgerId],
        files: Iterable[str] = (),
        pages: Iterable[str] = (),
    ) -> LogManifest:
        """Take deleted ledgers, files and pages off the lists of those still to be deleted."""
        deleted, removed, emptied = frozenset(ledgers), frozenset(files), frozenset(pages)
        left = tuple(each for each in self.doomed_files if each not in removed)
        doomed = tuple(each for each in self.doomed if each not in deleted)
        kept = tuple(each for each in self.doomed_pages if each.reference.name not in emptied)
        return replace(self, doomed=doomed, doomed_files=left, doomed_pages=kept)

    def seal_log(self) -> LogManifest:
        """Let the log take no more records, ever. Every segment must be sealed."""
        return replace(self, sealed=True)._checked()

    def set_options(self, settings: Mapping[str, str]) -> LogManifest:
        """Lay options that hold for every leader over those set before; "" takes one back.

        Raises `ConfigurationError` for a value that is not text: a manifest cannot hold it.
        """
        for name, value in settings.items():
            if not isinstance(value, str):
                raise ConfigurationError(f"option {name} is text, not {value!r}: quote its value")
        laid = {**self.settings, **settings}
        return replace(self, settings={name: value for name, value in laid.items() if value})

    # The record.

    def check(self) -> tuple[str, ...]:
        """Return the names of the invariants that do not hold; empty when all is well."""
        return broken_invariants(self)

    def _checked(self) -> LogManifest:
        broken = self.check()
        assert not broken, f"edit of {self.name!r} breaks {', '.join(broken)}"
        return self

    def encode(self) -> bytes:
        """Return the metadata record."""
        return encode_manifest(self)

    @classmethod
    def decode(cls, path: str, data: bytes) -> LogManifest:
        """Return the manifest of a record. Raises `CorruptRecordError`, naming the path."""
        fields = decode_manifest(path, data)
        try:
            manifest = cls(**fields)
            broken = manifest.check()
        except (TypeError, ValueError, KeyError) as error:
            raise CorruptRecordError(path, f"not a log manifest: {error}") from error
        if broken:
            raise CorruptRecordError(path, f"log manifest breaks {', '.join(broken)}")
        return manifest
