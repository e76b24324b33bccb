"""One log: its segments, leader, options and readers. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from quire.console import words
from quire.console.looks import LogLook
from quire.console.ring import Point, growth
from quire.console.views.logs import LogRow, kind_of_segment, records_of, row
from quire.console.views.paging import ROWS_MAX
from quire.console.views.troubles import OK, WARNING, lags
from quire.log.manifest.info import SegmentInfo
from quire.view.values import CursorView


@dataclass(frozen=True, slots=True)
class SegmentRow:
    """One segment."""

    number: int
    kind: str
    ledger: int
    epoch: int
    first_offset: int | None
    records: int | None
    bytes: int | None
    created: str
    file: str
    is_on_bookies: bool


@dataclass(frozen=True, slots=True)
class CursorRow:
    """A reader's place. `behind` is its lag as time, at the pace of the log."""

    name: str
    position: str
    lag: int | None
    behind: str
    moved: str
    severity: str


@dataclass(frozen=True, slots=True)
class LogPage:
    """One log: its youngest segments, the newest first, and its readers, the slowest first; at most
    100 of each.
    """

    row: LogRow
    log_id: str
    created: str
    bytes: int
    options: Mapping[str, str]
    segments: Sequence[SegmentRow]
    earlier: int
    """Segments before those."""
    cursors: Sequence[CursorRow]
    cursors_total: int
    per_second: Sequence[Point]
    at_ms: int


def one_log(look: LogLook, day: Sequence[Point], now_ms: int) -> LogPage:
    """Return the page of a log that was looked at; `day` is its ends over a day."""
    view = look.view
    shown = view.youngest[::-1][:ROWS_MAX]
    cursors = sorted(view.cursors, key=lambda each: (-(each.lag or 0), each.name))
    return LogPage(
        row(look, now_ms),
        view.log_id,
        words.moment(view.created_ms) if view.created_ms else words.NONE,
        view.bytes,
        dict(sorted(view.options.items())),
        [_segment(each, view.end_offset) for each in shown],
        view.segments - len(shown),
        [_cursor(each, look.per_second, now_ms) for each in cursors[:ROWS_MAX]],
        len(cursors),
        growth(day),
        now_ms,
    )


def _segment(segment: SegmentInfo, end: int | None) -> SegmentRow:
    return SegmentRow(
        segment.number,
        kind_of_segment(segment),
        segment.ledger,
        segment.epoch,
        segment.first_offset,
        records_of(segment, end),
        segment.bytes,
        words.moment(segment.created_ms),
        segment.file or "",
        segment.is_on_bookies,
    )


def _cursor(cursor: CursorView, per_second: float | None, now_ms: int) -> CursorRow:
    behind = words.seconds(cursor.lag / per_second) if cursor.lag and per_second else ""
    return CursorRow(
        cursor.name,
        cursor.position,
        cursor.lag,
        behind,
        words.ago(cursor.updated_ms, now_ms),
        WARNING if lags(cursor, per_second, now_ms) else OK,
    )
