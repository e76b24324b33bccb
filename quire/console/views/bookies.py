"""The bookies by domain: standing, version, disks, pace. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from quire.console import words
from quire.console.looks import BookiePace, ClusterLook
from quire.console.views.overview import STATE_SEVERITY
from quire.console.views.paging import Paging, page_of
from quire.console.views.troubles import OK, WARNING, slow_bookies
from quire.healing.state import BookieFacts, silent_seconds
from quire.healing.verdict import ROOM_SHARE_MIN, ClusterFacts, duration
from quire.labels import domain_name
from quire.view.followers import OPEN, WITHOUT_CREDIT
from quire.view.values import view_bookie


@dataclass(frozen=True, slots=True)
class DiskBar:
    """A directory of a bookie, and its space in bytes."""

    path: str
    holds: str
    used_bytes: int
    total_bytes: int
    used_share: float
    severity: str


@dataclass(frozen=True, slots=True)
class BookieRow:
    """One bookie. Its domain is its region, zone and rack; `note` says more of its state.

    `subscriptions` is None for a bookie that does not count them; subscriptions
    `without_credit` wait until their follower takes the news.
    """

    bookie: str
    domain: str
    host: str
    address: str
    state: str
    severity: str
    note: str
    version: str
    ledgers: int | None
    in_limbo: int
    disks: Sequence[DiskBar]
    answer_seconds: float | None
    journal_seconds: float | None
    batches_per_second: float | None
    entries_per_second: float | None
    journal_p99: float | None
    waiting: int | None
    is_slow: bool
    subscriptions: int | None = None
    without_credit: int = 0
    pushed_per_second: float | None = None


@dataclass(frozen=True, slots=True)
class BookiesPage:
    """A page of bookies."""

    order: str
    paging: Paging
    rows: Sequence[BookieRow]
    versions: Sequence[str]
    domains: int
    at_ms: int


def _slowest(row: BookieRow) -> tuple[Any, ...]:
    pace = max(row.journal_seconds or 0.0, row.answer_seconds or 0.0)
    return (not row.is_slow, -pace, row.bookie)


def _fullest(row: BookieRow) -> tuple[Any, ...]:
    return (-max((disk.used_share for disk in row.disks), default=0.0), row.bookie)


ORDERS: Final[Mapping[str, Callable[[BookieRow], tuple[Any, ...]]]] = {
    "domain": lambda row: (row.domain, row.host, row.bookie),
    "pace": _slowest,
    "disk": _fullest,
    "name": lambda row: (row.bookie,),
}


def bookies(snapshot: ClusterLook, order: str = "domain", page: int = 1) -> BookiesPage:
    """Return a page of bookies. An order that is not known is that by domain."""
    chosen = order if order in ORDERS else "domain"
    facts = snapshot.facts
    slow = {each.bookie for each in slow_bookies(snapshot)}
    rows: list[BookieRow] = []
    if facts is not None:
        rows = [
            _row(facts, each, snapshot.pace(each.bookie), each.bookie in slow)
            for each in facts.bookies
        ]
    paging, shown = page_of(sorted(rows, key=ORDERS[chosen]), page)
    versions = sorted({row.version for row in rows if row.version})
    domains = len({(row.domain, row.host) for row in rows})
    return BookiesPage(chosen, paging, shown, versions, domains, snapshot.at_ms)


def _row(facts: ClusterFacts, each: BookieFacts, pace: BookiePace, is_slow: bool) -> BookieRow:
    state = facts.state(each)
    severity = STATE_SEVERITY[state]
    if severity == OK and (each.silence or is_slow or each.in_limbo or each.damaged):
        severity = WARNING
    shown, counters = view_bookie(facts, each), each.info.counters if each.info else {}
    return BookieRow(
        each.bookie,
        domain_name(each.labels.domain("rack")),
        each.labels.host,
        each.address,
        str(state),
        severity,
        _note(facts, each, is_slow),
        each.version,
        shown.ledgers,
        each.in_limbo,
        _disks(each),
        pace.answer_seconds,
        pace.journal_seconds,
        *(pace.batches_per_second, pace.entries_per_second, pace.journal_p99, pace.waiting),
        is_slow,
        *(counters.get(OPEN), counters.get(WITHOUT_CREDIT, 0), pace.pushed_per_second),
    )


def _note(facts: ClusterFacts, each: BookieFacts, is_slow: bool) -> str:
    said = []
    standing = each.standing
    if (left := standing.seconds_left(facts.now_ms)) is not None:
        said.append(f"for {duration(left)} more")
    if (silent := silent_seconds(each, facts.now_ms)) is not None:
        said.append(f"silent for {duration(silent)}")
    if standing.by or standing.reason:
        said.append(": ".join(filter(None, (standing.by, standing.reason))))
    if each.silence:
        said.append("does not answer")
    if is_slow:
        said.append("slow")
    if each.in_limbo:
        said.append(f"may have lost something of {words.plural(each.in_limbo, 'ledger')}")
    said += each.damaged
    return ", ".join(said)


def _disks(each: BookieFacts) -> tuple[DiskBar, ...]:
    if each.disks:
        return tuple(
            _disk(disk.path, disk.holds, disk.free_bytes, disk.total_bytes) for disk in each.disks
        )
    if each.info is not None:
        return (_disk("", "main", each.info.disk_free_bytes, each.info.disk_total_bytes),)
    return ()


def _disk(path: str, holds: str, free: int, total: int) -> DiskBar:
    share = 1 - free / total if total else 0.0
    severity = WARNING if total and free < ROOM_SHARE_MIN * total else OK
    return DiskBar(path, holds, total - free, total, share, severity)
