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

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise, takewhile
from typing import Final

from quire.entry import LedgerId
from quire.errors import ConfigurationError, CorruptRecordError, InvalidRequestError
from quire.fields import NOTHING, Unknown
from quire.log.manifest.ages import NO_AGES, Ages, Reading, ages_of_row
from quire.log.manifest.jobs import Forgotten, Limits, Memory, check_continues, job_from_row
from quire.log.manifest.jobs import Job as Job
from quire.log.manifest.schema import FIELDS, check_types
from quire.log.manifest.segment import EMPTY as EMPTY
from quire.log.manifest.segment import Segment as Segment
from quire.log.manifest.segment import SegmentEnd as SegmentEnd
from quire.log.manifest.segment import segment_from_row
from quire.log.manifest.times import begin_ms
from quire.log.records.position import BEGINNING, Position
from quire.log.records.txids import NO_TXID
from quire.metastore.record import RecordFormat

VERSION: Final = 1
COLD_VERSION: Final = 2
FORMAT: Final = RecordFormat("log", FIELDS, (VERSION, COLD_VERSION))
OPEN_SEGMENTS_MAX: Final = 2
FIRST_SEGMENT: Final = 1
DEFAULT_LIMITS: Final = Limits()


@dataclass(frozen=True, slots=True)
class LogManifest:
    """A log's shape at one version of its record."""

    name: str
    log_id: str
    created_ms: int
    epoch: int = 0
    segments: tuple[Segment, ...] = ()
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
    settings: Mapping[str, str] = field(default_factory=dict)
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
    unknown: Unknown = NOTHING

    # Questions of a reader or leader.

    @property
    def open_segments(self) -> tuple[Segment, ...]:
        """The segments without an end: their leader may still write them."""
        return tuple(each for each in self.segments if each.end is None)

    @property
    def tail(self) -> Segment | None:
        """The last segment, None if the log has no segment."""
        return self.segments[-1] if self.segments else None

    @property
    def end_offset(self) -> int | None:
        """Offset of the next record; None while an open segment hides it."""
        return self.segments[-1].end_offset if self.segments else self.first_offset

    @property
    def last_txid(self) -> int:
        """The last txid of the sealed segments, or `NO_TXID`."""
        ends = [each.end.last_txid for each in self.segments if each.end]
        return ends[-1] if ends else self.trimmed_transaction

    @property
    def last_timestamp_ms(self) -> int:
        """The time that the last record of the sealed segments bears, or 0."""
        times = [each.end.last_timestamp_ms for each in self.segments if each.end]
        return times[-1] if times else self.trimmed_timestamp_ms

    @property
    def first_position(self) -> Position:
        """The first position that can be read."""
        start = Position(self.segments[0].number if self.segments else self.next_segment, 0, 0)
        return max(self.trimmed_to, start)

    @property
    def offset_trimmed_to(self) -> int | None:
        """Offset of the first record after the trim point; None while it lies inside a segment."""
        inside = bool(self.segments) and self.trimmed_to > self.segments[0].start
        return None if inside else self.first_offset

    def segment_from(self, number: int) -> Segment | None:
        """The first segment with this number or a higher one."""
        return next((each for each in self.segments if each.number >= number), None)

    def lists(self, ledger: LedgerId) -> bool:
        """True when the ledger is one of the log's segments, and not given up for a file."""
        return any(each.ledger == ledger and each.is_hot for each in self.segments)

    # Edits.

    def take_over(
        self, ends: Mapping[int, SegmentEnd], ledger: LedgerId, now_ms: int
    ) -> LogManifest:
        """Begin the next epoch: seal the open segments (ends by number), append a ledger."""
        return self._next_epoch(ends).append_segment(ledger, now_ms)

    def retire(self, ends: Mapping[int, SegmentEnd]) -> LogManifest:
        """Begin an epoch that has no leader: everything is sealed and trimmed, before deletion."""
        manifest = self._next_epoch(ends)
        manifest = manifest.trim(Position(manifest.next_segment, 0, 0)).seal_log()
        return replace(manifest, retired=True)

    def _next_epoch(self, ends: Mapping[int, SegmentEnd]) -> LogManifest:
        manifest = replace(self, epoch=self.epoch + 1)
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
    ) -> LogManifest:
        """Begin an epoch that is over at once: seal the open segments, append closed ledgers.

        Their records all have the time of the ingest (times.py). `job`
        is remembered, so that the same work is not ingested a second time. Raises
        `TooManyJobsError`.
        """
        manifest = self._next_epoch(ends).note_job(job, limits)
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
            segments = (*manifest.segments, segment)
            manifest = replace(manifest, segments=segments, next_segment=segment.number + 1)
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
        return Memory(self.jobs, self.forgotten_jobs)

    def append_segment(self, ledger: LedgerId, now_ms: int) -> LogManifest:
        """Add an open segment at the end."""
        segment = Segment(self.next_segment, ledger, self.epoch, now_ms, self.end_offset)
        segments = (*self.segments, segment)
        return replace(self, segments=segments, next_segment=self.next_segment + 1)._checked()

    def seal_segment(self, number: int, end: SegmentEnd) -> LogManifest:
        """Seal the first open segment; the next one learns its first offset. Empty ones go."""
        segment, *rest = self.open_segments
        assert segment.number == number, f"segment {segment.number} must be sealed before {number}"
        sealed = replace(segment, end=end)
        if rest:
            rest[0] = replace(rest[0], first_offset=sealed.end_offset)
        head = tuple(each for each in self.segments if each.number < number)
        if end.records == 0:
            manifest = replace(self, segments=(*head, *rest), doomed=(*self.doomed, segment.ledger))
        else:
            manifest = replace(self, segments=(*head, sealed, *rest))
        return manifest._without_trimmed()._checked()

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
        gone = [
            each.end_position for each in takewhile(lambda each: each.ends_by(to), self.segments)
        ]
        left = self.segments[len(gone) :]
        inside = bool(left) and to > left[0].start
        point = to if inside else (gone[-1] if gone else None)
        return (
            replace(self, trimmed_to=max(self.trimmed_to, point or BEGINNING))
            ._without_trimmed()
            ._checked()
        )

    def _without_trimmed(self) -> LogManifest:
        gone = list(takewhile(lambda each: each.ends_by(self.trimmed_to), self.segments))
        if not gone:
            return self
        first_offset, end = gone[-1].end_offset, gone[-1].end_position
        assert first_offset is not None
        assert end is not None
        left = replace(self, segments=self.segments[len(gone) :], first_offset=first_offset)
        return replace(
            left,
            trimmed_to=self.trimmed_to if left.offset_trimmed_to is None else end,
            trimmed_transaction=gone[-1].end.last_txid if gone[-1].end else NO_TXID,
            trimmed_timestamp_ms=gone[-1].last_timestamp_ms or 0,
            doomed=(*self.doomed, *(each.ledger for each in gone if each.is_hot)),
            doomed_files=(*self.doomed_files, *(each.cold.uri for each in gone if each.cold)),
        )

    def aged(self, now: Reading) -> LogManifest:
        """Count the time until now, and mark sealed segments (ages.py). The change must be made by
        the log's leader, and `now` must be a reading made after everything in it.
        """
        open_ones = self.open_segments
        sealed = open_ones[0].number if open_ones else self.next_segment
        first = self.segments[0].number if self.segments else self.next_segment
        return replace(self, ages=self.ages.marked(now, first, sealed))

    def forget(self, ledgers: Iterable[LedgerId], files: Iterable[str] = ()) -> LogManifest:
        """Take deleted ledgers and files off the lists of those still to be deleted."""
        deleted, removed = frozenset(ledgers), frozenset(files)
        left = tuple(each for each in self.doomed_files if each not in removed)
        doomed = tuple(each for each in self.doomed if each not in deleted)
        return replace(self, doomed=doomed, doomed_files=left)

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
        pairs = list(pairwise(self.segments))
        ledgers = [*(each.ledger for each in self.segments if each.is_hot), *self.doomed]
        open_ones = self.open_segments
        starts = [self.first_offset, *(each.end_offset for each in self.segments)]
        ids = [each.end.last_txid for each in self.segments if each.end]
        holds = {
            "numbers": all(one.number < other.number for one, other in pairs)
            and all(FIRST_SEGMENT <= each.number < self.next_segment for each in self.segments),
            "epochs": all(one.epoch <= other.epoch for one, other in pairs)
            and all(each.epoch <= self.epoch for each in self.segments),
            "ledgers": len(set(ledgers)) == len(ledgers),
            "two-open": len(open_ones) <= OPEN_SEGMENTS_MAX
            and self.segments[len(self.segments) - len(open_ones) :] == open_ones,
            "offsets": [each.first_offset for each in self.segments] == starts[:-1],
            "transactions": [self.trimmed_transaction, *ids]
            == sorted([self.trimmed_transaction, *ids]),
            "sealed": not (self.sealed and open_ones),
            "trim": self.trimmed_to <= Position(self.next_segment, 0, 0),
            "cold": all(each.end for each in self.segments if each.cold),
            "ages": self.ages.check(),
        }
        return tuple(name for name, held in holds.items() if not held)

    def _checked(self) -> LogManifest:
        broken = self.check()
        assert not broken, f"edit of {self.name!r} breaks {', '.join(broken)}"
        return self

    def encode(self) -> bytes:
        """Return the metadata record."""
        body = {name: getattr(self, name) for name in FIELDS}
        body["segments"] = [each.row(self.tiers) for each in self.segments]
        body["jobs"] = [each.row() for each in self.jobs]
        body["trimmed_to"] = str(self.trimmed_to)
        body["settings"] = dict(self.settings)
        body["ages"] = self.ages.row()
        if self.ages == NO_AGES:
            del body["ages"]
        if not self.retired:
            del body["retired"]
        if not self.trimmed_timestamp_ms:
            del body["trimmed_timestamp_ms"]
        if not self.forgotten_jobs:
            del body["forgotten_jobs"]
        if self.tiers:
            return FORMAT.encode(body, self.unknown, COLD_VERSION)
        del body["tiers"], body["doomed_files"]
        return FORMAT.encode(body, self.unknown)

    @classmethod
    def decode(cls, path: str, data: bytes) -> LogManifest:
        """Return the manifest of a record. Raises `CorruptRecordError`, naming the path."""
        version, body, unknown = FORMAT.decode(path, data)
        try:
            check_types(body)
            body["tiers"] = tuple(body.get("tiers", ()))
            body["doomed_files"] = tuple(body.get("doomed_files", ()))
            if (version == COLD_VERSION) != bool(body["tiers"]):
                raise ValueError(f"version {version} with {len(body['tiers'])} tiers")
            rows = body["segments"]
            body["segments"] = tuple(segment_from_row(row, body["tiers"]) for row in rows)
            body["trimmed_to"] = Position.parse(body["trimmed_to"])
            body["doomed"] = tuple(body["doomed"])
            body["jobs"] = tuple(map(job_from_row, body.get("jobs", ())))
            forgotten = body.get("forgotten_jobs", ())
            body["forgotten_jobs"] = tuple(Forgotten(*row) for row in forgotten)
            if "ages" in body:
                body["ages"] = ages_of_row(body["ages"])
            manifest = cls(**body, unknown=unknown)
            broken = manifest.check()
        except (TypeError, ValueError, KeyError) as error:
            raise CorruptRecordError(path, f"not a log manifest: {error}") from error
        if broken:
            raise CorruptRecordError(path, f"log manifest breaks {', '.join(broken)}")
        return manifest
