"""The first page: is all well, and if not, why? Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from quire.console import words
from quire.console.looks import RECORDS, USED, ClusterLook
from quire.console.ring import Point, growth
from quire.console.views.troubles import (
    CRITICAL,
    OK,
    UNKNOWN,
    WARNING,
    AnswerTile,
    ReasonRow,
    answers,
    reasons,
    severity_of,
    slow_bookies,
    verdict_of,
)
from quire.healing.state import State

REASONS_MAX: Final = 100

HEADLINES: Final = {
    OK: "All is well",
    WARNING: "Look at this",
    CRITICAL: "Act now",
    UNKNOWN: "Looking…",
}


@dataclass(frozen=True, slots=True)
class BookieDot:
    """One bookie in the strip of all bookies."""

    bookie: str
    state: str
    severity: str


@dataclass(frozen=True, slots=True)
class OverviewPage:
    """The first page.

    Attributes:
        severity: `ok`, `warning`, `critical`, or `unknown` before the first look.
        headline: the same for people.
        why: the worst reason; empty when all is well.
        summary: the state of the bookies in one line.
        answers: the answers to the four questions.
        reasons: the findings, the worst first, at most 100.
        reasons_total: how many there are.
        bookies: the first 100 bookies.
        bookies_total: how many there are.
        records: the records a second of all logs, over a day.
        used: the bytes used on disks, over a day.
        looked: how old the last look is.
    """

    severity: str
    headline: str
    why: str
    summary: str
    answers: Sequence[AnswerTile]
    reasons: Sequence[ReasonRow]
    reasons_total: int
    bookies: Sequence[BookieDot]
    bookies_total: int
    logs_total: int
    ledgers_total: int | None
    records: Sequence[Point]
    used: Sequence[Point]
    at_ms: int
    looked: str
    store: str


def overview(snapshot: ClusterLook) -> OverviewPage:
    """Return the first page."""
    verdict = verdict_of(snapshot)
    severity = severity_of(snapshot, verdict)
    found = reasons(verdict)
    dots = bookie_dots(snapshot)
    facts = snapshot.facts
    healing = facts.summary if facts else None
    return OverviewPage(
        severity,
        HEADLINES[severity],
        _why(found),
        _summary(snapshot),
        answers(snapshot),
        found[:REASONS_MAX],
        len(found),
        dots[:REASONS_MAX],
        len(dots),
        len(snapshot.log_names),
        healing.ledgers if healing else None,
        growth(snapshot.figures.get(RECORDS, ())),
        snapshot.figures.get(USED, ()),
        snapshot.at_ms,
        words.ago(snapshot.facts_ms, snapshot.at_ms) if facts else words.NONE,
        snapshot.store,
    )


def _why(found: Sequence[ReasonRow]) -> str:
    if not found:
        return ""
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return f"{found[0].text[0].upper()}{found[0].text[1:]}{more}"


def _summary(snapshot: ClusterLook) -> str:
    facts = snapshot.facts
    if facts is None:
        return snapshot.trouble or "The first look at the cluster is under way."
    states = facts.states()
    named = [f"{states[state]} {state}" for state in State if states.get(state)]
    logs = words.plural(len(snapshot.log_names), "log")
    return f"{words.plural(len(facts.bookies), 'bookie')} ({', '.join(named) or 'none'}) · {logs}"


STATE_SEVERITY: Final = {
    State.UP: OK,
    State.READ_ONLY: WARNING,
    State.AWAY: WARNING,
    State.SILENT: WARNING,
    State.LOST: CRITICAL,
    State.DRAINING: WARNING,
    State.GONE: UNKNOWN,
}


def bookie_dots(snapshot: ClusterLook) -> list[BookieDot]:
    """Return all bookies, those in trouble first."""
    facts = snapshot.facts
    if facts is None:
        return []
    order = (CRITICAL, WARNING, OK, UNKNOWN)
    slow = {each.bookie for each in slow_bookies(snapshot)}
    dots = []
    for each in facts.bookies:
        state = facts.state(each)
        severity, shown = STATE_SEVERITY[state], str(state)
        if severity == OK and (each.silence or each.bookie in slow):
            severity, shown = WARNING, "no answer" if each.silence else "slow"
        dots.append(BookieDot(each.bookie, shown, severity))
    return sorted(dots, key=lambda dot: (order.index(dot.severity), dot.bookie))
