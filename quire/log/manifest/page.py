"""Pages: immutable records with sealed segments that the log's head no longer has as rows.

A page of level 0 holds rows of segments, a page of a higher level holds references to pages of the
level below. A *reference* names a page and sums it up, so that most questions need no page at all:
the numbers, offsets, times and ledgers in it, its bytes, and the checksum of its record.

A page is written once, under a random name, and never changed. So a page that was decoded once is
right as long as a program remembers it.

Pure: no clock and no I/O. Source: docs/formats.md, "Pages of a manifest".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, NamedTuple

from quire.errors import CorruptRecordError
from quire.fields import NOTHING, Unknown, joined_row, split_row
from quire.log.manifest.schema import PAGE_FIELDS, check_page_types
from quire.log.manifest.segment import Segment, segment_from_row
from quire.metastore.record import RecordFormat

FORMAT: Final = RecordFormat("log-page", PAGE_FIELDS)

NAME_BITS: Final = 64
"""Random bits in the name of a page: 16 hexadecimal digits."""


class Summary(NamedTuple):
    """The facts about all segments below a page. All of them are sealed."""

    first: int
    """Number of the first segment."""
    last: int
    segments: int
    first_offset: int
    end_offset: int
    bytes: int
    min_ms: int
    """The lowest of the times that the last records of the segments bear; `max_ms` the highest."""
    max_ms: int
    drop_ms: int
    """The largest fall from the time of a segment to the time of a later one."""
    last_txid: int
    min_ledger: int
    max_ledger: int
    ingested: int
    """How many segments were ingested; `cold` of them lie in files, `alone` in files only."""
    cold: int
    alone: int

    def spans(self, number: int) -> bool:
        """Whether a segment of this number can be in it."""
        return self.first <= number <= self.last


class Reference(NamedTuple):
    """A page, as the head or a page of the next level names it."""

    name: str
    checksum: int
    """CRC32C of the page's record."""
    of: Summary
    unknown: Unknown = NOTHING

    def row(self) -> list[Any]:
        """The reference as a record holds it."""
        return joined_row([self.name, self.checksum, *self.of], self.unknown)


def reference_from_row(row: Sequence[Any]) -> Reference:
    """Return the reference of a row that `check_types` let pass."""
    (name, checksum, *rest), unknown = split_row(row)
    return Reference(name, checksum, Summary(*rest), unknown)


@dataclass(frozen=True, slots=True)
class Page:
    """The content of a page: segments at level 0, references above."""

    level: int
    segments: tuple[Segment, ...] = ()
    references: tuple[Reference, ...] = ()
    unknown: Unknown = NOTHING

    def summary(self) -> Summary:
        """Return the summary that a reference to this page has."""
        if self.level:
            return joined_summary([each.of for each in self.references])
        return joined_summary([summary_of(each) for each in self.segments])

    def encode(self, log_id: str, tiers: Sequence[str]) -> bytes:
        """Return the page's record."""
        rows = [each.row() for each in self.references]
        if not self.level:
            rows = [each.row(tiers) for each in self.segments]
        body = {"log_id": log_id, "level": self.level, "rows": rows}
        return FORMAT.encode(body, self.unknown)


def summary_of(segment: Segment) -> Summary:
    """Return the summary of one sealed segment."""
    end, offset = segment.end, segment.first_offset
    assert end is not None, f"segment {segment.number} is open: no page takes it"
    assert offset is not None
    cold, time = segment.cold, end.last_timestamp_ms
    return Summary(
        segment.number,
        segment.number,
        1,
        offset,
        offset + end.records,
        end.bytes,
        time,
        time,
        0,
        end.last_txid,
        segment.ledger,
        segment.ledger,
        int(segment.ingested),
        int(cold is not None),
        int(cold is not None and cold.alone),
    )


def joined_summary(parts: Sequence[Summary]) -> Summary:
    """Return the summary of consecutive parts of a log. There must be one at least."""
    highest = drop = 0
    for each in parts:
        drop = max(drop, each.drop_ms, highest - each.min_ms)
        highest = max(highest, each.max_ms)
    return Summary(
        parts[0].first,
        parts[-1].last,
        sum(each.segments for each in parts),
        parts[0].first_offset,
        parts[-1].end_offset,
        sum(each.bytes for each in parts),
        min(each.min_ms for each in parts),
        highest,
        drop,
        parts[-1].last_txid,
        min(each.min_ledger for each in parts),
        max(each.max_ledger for each in parts),
        sum(each.ingested for each in parts),
        sum(each.cold for each in parts),
        sum(each.alone for each in parts),
    )


def follow_each_other(parts: Iterable[Summary]) -> bool:
    """Whether parts of a log continue each other: in numbers, offsets and txids."""
    return all(
        one.last < other.first
        and one.end_offset == other.first_offset
        and one.last_txid <= other.last_txid
        for one, other in pairwise(parts)
    )


def reference_to(page: Page, name: str, record: bytes) -> Reference:
    """Return the reference to a page, given its record."""
    return Reference(name, FORMAT.checksum(record), page.summary())


def decode_page(
    path: str, data: bytes, log_id: str, level: int, reference: Reference, tiers: Sequence[str]
) -> Page:
    """Return the page of a record that a reference names.

    Raises `CorruptRecordError`, naming the path, for everything else than that very page.
    """
    if FORMAT.checksum(data) != reference.checksum:
        raise CorruptRecordError(path, "it is not the page that the log names: checksums differ")
    _, body, unknown = FORMAT.decode(path, data)
    try:
        check_page_types(body)
        rows = body["rows"]
        if body["level"]:
            references = tuple(map(reference_from_row, rows))
            page = Page(body["level"], (), references, unknown)
            parts = [each.of for each in references]
        else:
            segments = tuple(segment_from_row(row, tiers) for row in rows)
            page = Page(0, segments, (), unknown)
            parts = [summary_of(each) for each in segments]
        if (body["log_id"], body["level"]) != (log_id, level):
            raise ValueError(f"level {body['level']} of log {body['log_id']}, not level {level}")
        if not rows or joined_summary(parts) != reference.of or not follow_each_other(parts):
            raise ValueError("its rows are not what the log says of them")
    except (AssertionError, TypeError, ValueError, KeyError) as error:
        raise CorruptRecordError(path, f"not a page of log {log_id}: {error}") from error
    return page
