"""The list of logs, and the segments of a log as a row. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from quire.console import words
from quire.console.looks import ClusterLook, LogLook
from quire.console.views.paging import Paging, page_of
from quire.console.views.troubles import OK, UNKNOWN, WARNING, lags
from quire.log.manifest.info import SegmentInfo
from quire.view.values import LogView

STRIP_MAX: Final = 24
"""Segments of a strip; the ones before are one piece."""


@dataclass(frozen=True, slots=True)
class SegmentPiece:
    """A segment in a strip. `share` is its width; `kind` is open, closed, offloaded or earlier."""

    number: int
    kind: str
    epoch: int
    records: int | None
    share: float
    text: str


@dataclass(frozen=True, slots=True)
class LogRow:
    """One log. None stands for a figure that is not known yet."""

    name: str
    severity: str
    note: str
    epoch: int | None
    leader: str
    leader_since_ms: int | None
    segments: int | None
    records: int | None
    end: int | None
    per_second: float | None
    cursors: int
    slowest: str
    """The reader with most records before it."""
    lag: int | None
    lags: bool
    strip: Sequence[SegmentPiece]
    looked: str


@dataclass(frozen=True, slots=True)
class LogsPage:
    """A page of logs."""

    order: str
    find: str
    paging: Paging
    rows: Sequence[LogRow]
    seen: int
    """The logs that were looked at so far."""
    total: int
    at_ms: int


def _quickest(row: LogRow) -> tuple[Any, ...]:
    return (-(row.per_second or 0.0), row.name)


def _most_lag(row: LogRow) -> tuple[Any, ...]:
    return (not row.lags, -(row.lag or 0), row.name)


ORDERS: Final[Mapping[str, Callable[[LogRow], tuple[Any, ...]]]] = {
    "name": lambda row: (row.name,),
    "growth": _quickest,
    "lag": _most_lag,
    "records": lambda row: (-(row.records or 0), row.name),
}


def logs(snapshot: ClusterLook, order: str = "name", page: int = 1, find: str = "") -> LogsPage:
    """Return a page of logs, those with `find` in their name. Another order is that by name."""
    chosen = order if order in ORDERS else "name"
    names = [name for name in snapshot.log_names if find.casefold() in name.casefold()]
    if chosen != "name":  # rows of other pages are compared, and not drawn
        names = [each.name for each in sorted(_compared(snapshot, names), key=ORDERS[chosen])]
    paging, shown = page_of(names, page)
    rows = [row(_look_at(snapshot, name), snapshot.at_ms) for name in shown]
    total = len(snapshot.log_names)
    return LogsPage(chosen, find, paging, rows, len(snapshot.logs), total, snapshot.at_ms)


def _compared(snapshot: ClusterLook, names: Sequence[str]) -> list[LogRow]:
    now = snapshot.at_ms
    return [row(_look_at(snapshot, name), now, is_drawn=False) for name in names]


def _look_at(snapshot: ClusterLook, name: str) -> LogLook:
    return snapshot.logs.get(name) or LogLook(LogView(name), 0)


def row(look: LogLook, now_ms: int, *, is_drawn: bool = True) -> LogRow:
    """Return the row of a log; without its segments if it is not drawn."""
    view, is_known = look.view, bool(look.view.log_id)
    slowest = view.slowest
    is_lagging = any(lags(each, look.per_second, now_ms) for each in view.cursors)
    severity = WARNING if is_lagging or view.trouble else OK if is_known else UNKNOWN
    return LogRow(
        view.name,
        severity,
        view.trouble or _note(view),
        view.epoch if is_known else None,
        view.leader.name if view.leader else "",
        view.leader.since_ms if view.leader else None,
        view.segments if is_known else None,
        view.records,
        view.end_offset,
        look.per_second,
        len(view.cursors),
        "" if slowest is None else slowest.name,
        None if slowest is None else slowest.lag,
        is_lagging,
        strip(view) if is_drawn else (),
        words.ago(look.at_ms, now_ms) if look.at_ms else "not looked at yet",
    )


def _note(view: LogView) -> str:
    return "being deleted" if view.is_being_deleted else "sealed" if view.is_sealed else ""


def strip(view: LogView) -> tuple[SegmentPiece, ...]:
    """Return the segments as pieces, wide by their records; old ones are one piece."""
    shown = view.youngest[-STRIP_MAX:]
    earlier = view.segments - len(shown)
    pieces: list[tuple[float, SegmentPiece]] = []
    if earlier > 0:
        text = f"{words.plural(earlier, 'segment')} before"
        pieces.append((1.0, SegmentPiece(0, "earlier", 0, None, 0.0, text)))
    counts = [records_of(each, view.end_offset) for each in shown]
    known = sum(each or 0 for each in counts) or 1
    for each, count in zip(shown, counts, strict=True):
        weight = 1.0 + 12.0 * (count or 0) / known  # a small one can still be seen
        pieces.append((weight, _piece(each, count)))
    whole = sum(weight for weight, _ in pieces) or 1.0
    return tuple(replace(piece, share=weight / whole) for weight, piece in pieces)


def records_of(segment: SegmentInfo, end: int | None) -> int | None:
    """Return the records of a segment; an open one ends with the log."""
    if segment.records is not None:
        return segment.records
    if end is None or segment.first_offset is None:
        return None
    return max(0, end - segment.first_offset)


def kind_of_segment(segment: SegmentInfo) -> str:
    """Return `open`, `closed` or `offloaded`."""
    return "open" if segment.is_open else "offloaded" if segment.file else "closed"


def _piece(segment: SegmentInfo, count: int | None) -> SegmentPiece:
    kind = kind_of_segment(segment)
    held = "records unknown" if count is None else words.plural(count, "record")
    text = f"segment {segment.number}, {kind}, ledger {segment.ledger}, epoch {segment.epoch}, "
    return SegmentPiece(segment.number, kind, segment.epoch, count, 0.0, text + held)
