"""Healing: ledgers that lack copies, the reasons, and the moves under way. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from quire.console import words
from quire.console.looks import ClusterLook
from quire.console.views.paging import Paging, page_of
from quire.console.views.troubles import (
    CRITICAL,
    OK,
    UNKNOWN,
    WARNING,
    ReasonRow,
    reasons,
    verdict_of,
)
from quire.healing.summary import Count, State
from quire.healing.verdict import duration
from quire.repair.assignments import Assignment

MEANINGS: Final[Mapping[Count, tuple[str, str]]] = {
    Count.NO_COPY: (CRITICAL, "have entries that no bookie has now"),
    Count.ONE_COPY: (CRITICAL, "have entries with one copy left"),
    Count.SHORT: (WARNING, "are short of a copy"),
    Count.DRAIN: (WARNING, "are on a bookie that drains"),
    Count.HOLES: (WARNING, "lack entries on a bookie that is up"),
    Count.UNPLACED: (WARNING, "find no bookie for a copy"),
    Count.UNREADABLE: (WARNING, "have a damaged record"),
    Count.FEW_DOMAINS: (WARNING, "have copies in fewer domains than required"),
    Count.SPREAD: (UNKNOWN, "may be in more domains, and move when nothing else is to be healed"),
    Count.WAITING: (UNKNOWN, "are open, and wait for their writer or the next leader"),
    Count.ASKED: (UNKNOWN, "requests that bookies work on"),
}


@dataclass(frozen=True, slots=True)
class HealingCount:
    """How many ledgers there are of a kind."""

    kind: str
    severity: str
    count: int
    meaning: str


@dataclass(frozen=True, slots=True)
class MoveRow:
    """A copy that a bookie makes."""

    to: str
    ledger: int
    reason: str
    instead_of: str
    fragments: str


@dataclass(frozen=True, slots=True)
class HealingPage:
    """The page of healing. `state` is the auditor's; empty before the first report."""

    severity: str
    headline: str
    state: str
    why: str
    auditor: str
    reported: str
    indexed: int
    ledgers: int
    to_heal: int
    counts: Sequence[HealingCount]
    lost: Sequence[str]
    worst: Sequence[int]
    paging: Paging
    moves: Sequence[MoveRow]
    pause: str
    reasons: Sequence[ReasonRow]
    at_ms: int


CODES: Final = frozenset(
    {"healing-paused", "damaged-switch", "no-auditor", "mass-loss", "no-domain", "no-room"}
    | {"many-missing", "lost", "draining"}
    | {str(each) for each in Count}
)
"""The findings that concern healing."""


def healing(snapshot: ClusterLook, page: int = 1) -> HealingPage:
    """Return the page of healing."""
    facts = snapshot.facts
    summary = facts.summary if facts else None
    paging, moves = page_of(_moves(snapshot), page)
    found = tuple(each for each in reasons(verdict_of(snapshot)) if each.code in CODES)
    pause = _pause(snapshot)
    if summary is None:
        headline = "No auditor has looked yet" if facts else "Looking…"
        nothing = (UNKNOWN, headline, "", "", "", words.NONE, 0, 0, 0, (), (), ())
        return HealingPage(*nothing, paging, moves, pause, found, snapshot.at_ms)
    order = (CRITICAL, WARNING, OK, UNKNOWN)
    severity = min((each.severity for each in found), key=order.index, default=OK)
    return HealingPage(
        severity,
        _headline(str(summary.state), summary.open, bool(pause)),
        str(summary.state),
        summary.why,
        summary.by,
        words.ago(summary.at_ms, snapshot.at_ms),
        summary.indexed,
        summary.ledgers,
        summary.open,
        _counts(summary.counts),
        summary.lost,
        summary.worst,
        paging,
        moves,
        pause,
        found,
        snapshot.at_ms,
    )


def _headline(state: str, left: int, is_paused: bool) -> str:
    if is_paused or state == State.PAUSED:
        return f"Paused, {words.plural(left, 'ledger')} to heal"
    if state == State.BUILDING:
        return "The auditor builds its index"
    if state == State.MASS_LOSS:
        return "Nothing is healed: many bookies are missing at once"
    return f"{words.plural(left, 'ledger')} to heal" if left else "Every ledger has its copies"


def _counts(counts: Mapping[str, int]) -> tuple[HealingCount, ...]:
    known = [
        HealingCount(str(kind), severity if counts.get(kind) else OK, counts.get(kind, 0), meaning)
        for kind, (severity, meaning) in MEANINGS.items()
    ]
    later = sorted(counts.keys() - {str(kind) for kind in MEANINGS})
    return (*known, *(HealingCount(kind, UNKNOWN, counts[kind], "") for kind in later))


def _pause(snapshot: ClusterLook) -> str:
    facts = snapshot.facts
    pause = facts.switch.pause if facts else None
    if facts is None or pause is None or not (left := pause.seconds_left(facts.clock_ms)):
        return ""
    return f"paused for {duration(left)} more, by {pause.by}: {pause.reason}"


def _moves(snapshot: ClusterLook) -> list[MoveRow]:
    return [
        _move(bookie, each)
        for bookie, asked in sorted(snapshot.moves.items())
        for each in asked.open
    ]


def _move(bookie: str, asked: Assignment) -> MoveRow:
    if not asked.replicas:
        return MoveRow(bookie, asked.ledger, "holes", "", "entries that it lacks")
    old = sorted({each.old for each in asked.replicas})
    firsts = ", ".join(str(each.first) for each in asked.replicas[:5])
    more = f" and {len(asked.replicas) - 5} more" if len(asked.replicas) > 5 else ""
    return MoveRow(bookie, asked.ledger, "copy", ", ".join(old), f"from entry {firsts}{more}")
