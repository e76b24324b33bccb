"""Audit: reads every entry of whole logs, and checks it in all respects.

A worker reads a range of entries; the reader checks each one's digest, that it names its ledger
and entry, that its batch adds up and lies in its segment. The worker checks that offsets have no
gap and time does not run backwards. The driver puts the ranges together: they must meet, and a
sealed segment must end, in its ledger's metadata and by its records, where the manifest says. What
is trimmed meanwhile is left out; unreachable entries are reported apart from defects.

One copy of every entry is read, not all of them: comparing copies is the bookies' own business.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Final

from pyspark.sql import SparkSession

import quire.sync
from quire.errors import (
    ConfigurationError,
    IntegrityError,
    LogReplacedError,
    MissingKeyError,
    NoSuchLedgerError,
    NoSuchLogError,
    PositionTrimmedError,
    QuireError,
    RetryError,
)
from quire.log.manifest.manifest import LogManifest, Segment
from quire.log.reading.bounds import Bounds
from quire.log.reading.span import Span
from quire.spark.clients import worker_client, worker_keyring
from quire.spark.jobs.surviving import surviving_spans
from quire.spark.jobs.workers import cores_of, run_in_workers
from quire.spark.options import ReadOptions
from quire.sync import SyncClient

PIECES_PER_CORE: Final = 4
"""Pieces handed to Spark at a time, per core: progress is reported between two such rounds."""


@dataclass(frozen=True, slots=True)
class PieceAudit:
    """A worker's findings in a range of entries."""

    log: str
    segment: int
    entries: int
    records: int
    bytes: int
    checksum: int
    """CRC-32 of all payloads, concatenated."""
    first_offset: int
    next_offset: int
    last_ms: int
    problem: str | None
    unread: str | None
    """Why it could not be read to its end now."""
    is_gone: bool
    """Whether it was trimmed before it was read."""

    @property
    def is_whole(self) -> bool:
        """Whether everything was read, without a defect."""
        return not (self.problem or self.unread or self.is_gone)


@dataclass(frozen=True, slots=True)
class SegmentAudit:
    """The findings in one segment; times in Unix milliseconds."""

    number: int
    ledger: int
    sealed: bool
    entries: int
    records: int
    bytes: int
    checksums: tuple[int, ...]
    problems: tuple[str, ...]
    unread: tuple[str, ...] = ()
    """Why some of it could not be read now."""


@dataclass(frozen=True, slots=True)
class LogAudit:
    """The findings in one log."""

    log: str
    segments: tuple[SegmentAudit, ...]
    problems: tuple[str, ...]

    @property
    def records(self) -> int:
        return sum(each.records for each in self.segments)

    @property
    def all_problems(self) -> tuple[str, ...]:
        """The defects of the log and of its segments."""
        inside = [(each.number, problem) for each in self.segments for problem in each.problems]
        return (*self.problems, *(f"segment {number}: {problem}" for number, problem in inside))

    @property
    def all_unread(self) -> tuple[str, ...]:
        """Why some of its segments could not be read now."""
        inside = [(each.number, reason) for each in self.segments for reason in each.unread]
        return tuple(f"segment {number}: {reason}" for number, reason in inside)


def audit_logs(
    spark: SparkSession,
    options: ReadOptions,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[LogAudit]:
    """Audit the logs that the options name, as they are now.

    `on_progress` is told ranges of entries done, and how many there are. Raises `NoSuchLogError`,
    also for patterns that no log matches, `LogReplacedError`, `MissingKeyError` for an encrypted
    log without its key, and `ConfigurationError` for a key file that a worker cannot use. Defects
    and unreachable entries are in the result; the audit goes on after them, in this log and in the
    others.
    """
    with quire.sync.connect(options.cluster) as client:
        logs = options.select(client.list_logs())
        if not logs:  # a misspelt pattern must not look like a clean audit
            raise NoSuchLogError(", ".join(options.logs))
        looks = [look for log in logs if (look := _look_at(client, log, options)) is not None]
    pieces = [
        piece
        for look in looks
        for span in look.spans
        for piece in span.split(options.limits.split_bytes)
    ]
    found = _read(spark, options, pieces, on_progress)
    return [_audited(look, [each for each in found if each.log == look.log]) for look in looks]


@dataclass(frozen=True, slots=True)
class _Look:
    """A log as the driver sees it, before its entries are read."""

    log: str
    manifest: LogManifest | None
    problem: str = ""
    """Why there is no manifest."""
    spans: Sequence[Span] = ()
    failed: Mapping[int, QuireError] = field(default_factory=dict)
    """Why a segment has no spans."""
    ends: Mapping[int, str] = field(default_factory=dict)
    """Defects of the ledgers of segments."""


def _look_at(client: SyncClient, log: str, options: ReadOptions) -> _Look | None:
    """Look at a log; None if only a pattern named it, and it was deleted meanwhile."""

    def take(bounds: Bounds) -> list[Span]:
        return client.snapshot_log(log, password=options.password, bounds=bounds)

    try:
        manifest = client._logs.describe(log)
        spans, failed = surviving_spans(manifest, take)
    except NoSuchLogError:
        if log in options.logs:
            raise
        return None
    except IntegrityError as error:
        return _Look(log, None, str(error))
    return _Look(log, manifest, "", spans, failed, _check_ledgers(client, manifest))


def _audited(look: _Look, pieces: Sequence[PieceAudit]) -> LogAudit:
    if look.manifest is None:
        return LogAudit(look.log, (), (look.problem,))
    return audit_log(look.manifest, look.spans, pieces, look.ends, look.failed)


def _read(
    spark: SparkSession,
    options: ReadOptions,
    pieces: Sequence[Span],
    on_progress: Callable[[int, int], None],
) -> list[PieceAudit]:
    work = partial(audit_piece, options.cluster, options.password, options.key_file)
    step = PIECES_PER_CORE * cores_of(spark)
    found: list[PieceAudit] = []
    for start in range(0, len(pieces), step):
        chunk = pieces[start : start + step]
        for piece in run_in_workers(spark, work, chunk):
            if isinstance(piece, QuireError):
                raise piece
            found.append(piece)
        on_progress(len(found), len(pieces))
    return found


def audit_piece(
    cluster: str, password: bytes, key_file: str | None, span: Span
) -> PieceAudit | QuireError:
    """Read a range of entries, in a worker. Defects are returned, not raised; an error says that
    the audit itself lacks a key or a file.
    """
    records = payload_bytes = checksum = last_ms = 0
    first_offset = next_offset = -1
    entry = span.first - 1
    problem: str | None = None
    unread: str | None = None
    is_gone = False
    try:
        keyring = worker_keyring(key_file)
        for piece in worker_client(cluster).read_span(span, password=password, keyring=keyring):
            header = piece.batch.header
            offset = header.first_offset + piece.slots.start
            if first_offset < 0:
                first_offset = next_offset = offset
            if offset != next_offset or piece.entry != entry + 1:
                problem = problem or (
                    f"entry {piece.entry} has offset {offset} after entry {entry}, "
                    f"where {next_offset} was due"
                )
            if header.timestamp_ms < last_ms:
                problem = problem or f"time runs backwards at entry {piece.entry}"
            entry, next_offset, last_ms = piece.entry, header.next_offset, header.timestamp_ms
            for payload in piece.payloads():
                checksum = zlib.crc32(payload, checksum)
                payload_bytes += len(payload)
            records += len(piece.slots)
    except (ConfigurationError, MissingKeyError, NoSuchLogError, LogReplacedError) as error:
        return error
    except PositionTrimmedError:
        is_gone = True
    except RetryError as error:
        unread = str(error)
    except QuireError as error:
        problem = str(error)
    if not (problem or unread or is_gone) and entry != span.last:
        problem = f"entries after {entry} are missing: expected {span.last} as the last"
    return PieceAudit(
        span.log,
        span.segment,
        entry - span.first + 1,
        records,
        payload_bytes,
        checksum,
        first_offset,
        next_offset,
        last_ms,
        problem,
        unread,
        is_gone,
    )


def _check_ledgers(client: SyncClient, manifest: LogManifest) -> dict[int, str]:
    """Compare where the manifest says that segments end with their ledgers' own metadata."""
    problems: dict[int, str] = {}
    for segment in manifest.segments:
        if not segment.is_hot:
            continue
        try:
            info = client.ledger_info(segment.ledger)
        except NoSuchLedgerError as error:
            if client._logs.describe(manifest.name).lists(segment.ledger):
                problems[segment.number] = str(error)
            continue  # else it was trimmed or offloaded meanwhile
        except IntegrityError as error:
            problems[segment.number] = str(error)
            continue
        if segment.end is not None and info.last_entry != segment.end.last_entry:
            problems[segment.number] = (
                f"the manifest ends it at entry {segment.end.last_entry}, "
                f"its ledger at {info.last_entry}"
            )
    return problems


def audit_log(
    manifest: LogManifest,
    spans: Iterable[Span],
    pieces: Sequence[PieceAudit],
    ledger_problems: Mapping[int, str],
    failed: Mapping[int, QuireError],
) -> LogAudit:
    """Put together the workers' findings in one log; segments that failed have no pieces."""
    spanned = {span.segment: span for span in spans}
    segments = []
    for segment in manifest.segments:
        inside = [each for each in pieces if each.segment == segment.number]
        if any(each.is_gone for each in inside):
            continue
        problems = [each.problem for each in inside if each.problem]
        unread = [each.unread for each in inside if each.unread]
        error = failed.get(segment.number)
        if isinstance(error, RetryError):
            unread.append(str(error))
        elif segment.number in ledger_problems:
            problems.append(ledger_problems[segment.number])
        elif error is not None:
            problems.append(str(error))
        if not (problems or unread):
            problems = _check_segment(segment, spanned.get(segment.number), inside)
        segments.append(
            SegmentAudit(
                segment.number,
                segment.ledger,
                segment.end is not None,
                sum(each.entries for each in inside),
                sum(each.records for each in inside),
                sum(each.bytes for each in inside),
                tuple(each.checksum for each in inside),
                tuple(problems),
                tuple(unread),
            )
        )
    return LogAudit(manifest.name, tuple(segments), tuple(_check_order(pieces, failed)))


def _check_segment(segment: Segment, span: Span | None, pieces: Sequence[PieceAudit]) -> list[str]:
    if segment.end is None or span is None:
        return []
    problems = []
    whole = span.first == 0 and span.bounds.first <= segment.start
    records = sum(each.records for each in pieces)
    if whole and records != segment.end.records:
        problems.append(f"{records} records were read, the manifest has {segment.end.records}")
    if pieces and pieces[-1].next_offset != segment.end_offset:
        problems.append(
            f"it ends before offset {pieces[-1].next_offset}, the manifest at {segment.end_offset}"
        )
    if pieces and pieces[-1].last_ms != segment.end.last_timestamp_ms:
        problems.append(
            f"its last record is of {pieces[-1].last_ms} ms, "
            f"the manifest says {segment.end.last_timestamp_ms}"
        )
    return problems


def _check_order(pieces: Sequence[PieceAudit], failed: Collection[int]) -> list[str]:
    """Ranges that were read whole must meet, unless a segment between them failed."""
    problems = []
    for one, other in pairwise(pieces):
        if not (one.is_whole and other.is_whole):
            continue
        if any(one.segment < number < other.segment for number in failed):
            continue
        if one.next_offset != other.first_offset:
            problems.append(
                f"offset {other.first_offset} in segment {other.segment} comes after "
                f"{one.next_offset - 1} in segment {one.segment}"
            )
    return problems
