"""Findings about a cluster, and the four questions that an operator asks first. Pure.

    Do appends go through? Which bookie is slow? Which log grows fastest? Which reader lags?

The verdict has the findings of `quire cluster health`, and others that need a series of looks:
bookies that are slower than the others, readers that lag, a console that cannot look.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from quire.console import words
from quire.console.looks import ClusterLook, LogCursor, LogLook
from quire.entry import BookieId
from quire.healing.state import BookieFacts, State
from quire.healing.verdict import Finding, Severity, Verdict, duration, health
from quire.view.values import CursorView

JOURNAL_SLOW_SECONDS: Final = 0.1
"""A journal's write is mostly below 20 ms; the alert of the metrics has the same limit."""

ANSWER_SLOW_SECONDS: Final = 0.25

SLOWER_THAN_OTHERS: Final = 3.0
"""A slow bookie takes so many times the median of the others: a slow network slows all."""

LAG_MIN: Final = 1_000
"""Records that a reader may have before it."""

LAG_SECONDS: Final = 10.0
"""A reader of a busy log may have the records of so long before it."""

STILL_SECONDS: Final = 60.0
"""A reader that has records before it, and has not moved for so long, lags."""

STALE_SECONDS: Final = 60.0
"""An older look is a finding: looks come every five seconds."""

OK, WARNING, CRITICAL, UNKNOWN = "ok", "warning", "critical", "unknown"


@dataclass(frozen=True, slots=True)
class ReasonRow:
    """A finding and its remedy."""

    severity: str
    code: str
    text: str
    remedy: str
    bookie: str = ""


@dataclass(frozen=True, slots=True)
class AnswerTile:
    """The answer to one of the four questions.

    Attributes:
        question: the question.
        severity: `ok`, `warning`, `critical` or `unknown`.
        headline: the answer in a few words.
        detail: a sentence that says why.
        link: the page that shows more.
    """

    question: str
    severity: str
    headline: str
    detail: str
    link: str


@dataclass(frozen=True, slots=True)
class SlowBookie:
    """A bookie that takes longer than the others."""

    bookie: BookieId
    seconds: float
    why: str


def verdict_of(snapshot: ClusterLook) -> Verdict:
    """Return the findings of `quire cluster health` and the console's own, worst first."""
    found = [] if snapshot.facts is None else list(health(snapshot.facts).findings)
    found += _of_looks(snapshot)
    return Verdict(tuple(sorted(found, key=lambda each: -each.severity)))


def _of_looks(snapshot: ClusterLook) -> Iterator[Finding]:
    if snapshot.trouble:
        text = f"the console cannot look at the cluster: {snapshot.trouble}"
        remedy = "start the metadata store, or look at the network; the page shows the last look"
        yield Finding(Severity.CRITICAL, "no-look", text, remedy)
    elif snapshot.facts is not None and (age := _age(snapshot)) >= STALE_SECONDS:
        text = f"the last look at the cluster is {duration(age)} old"
        yield Finding(Severity.CRITICAL, "no-look", text, "start the console again")
    for slow in slow_bookies(snapshot):
        remedy = "look at its disk and at the load of its machine; `quire bookie drain` replaces it"
        yield Finding(Severity.WARNING, "slow", f"bookie {slow.bookie} is slow: {slow.why}", remedy)
    for lagging in lagging_readers(snapshot)[:1]:
        reader = lagging.cursor
        text = f"reader {reader.name} of log {lagging.log} lags: {_lag_text(reader)}"
        remedy = "see whether its program runs and keeps up; `quire log cursor delete` forgets it"
        yield Finding(Severity.WARNING, "lag", text, remedy)


def _age(snapshot: ClusterLook) -> float:
    return (snapshot.at_ms - snapshot.facts_ms) / 1000


def reasons(verdict: Verdict) -> tuple[ReasonRow, ...]:
    """Return findings as a page shows them."""
    return tuple(
        ReasonRow(str(each.severity), each.code, each.text, each.remedy, each.bookie or "")
        for each in verdict.findings
    )


def severity_of(snapshot: ClusterLook, verdict: Verdict) -> str:
    """Return the severity of a cluster; `unknown` before the first look."""
    if snapshot.facts is None and not snapshot.trouble:
        return UNKNOWN
    return str(verdict.severity)


def slow_bookies(snapshot: ClusterLook) -> list[SlowBookie]:
    """Return the bookies that are slow, the slowest first."""
    if snapshot.facts is None:
        return []
    members = [each for each in snapshot.facts.bookies if each.registered is not None]
    journals = [snapshot.pace(each.bookie).journal_seconds for each in members]
    answers = [snapshot.pace(each.bookie).answer_seconds for each in members]
    found = []
    for index, each in enumerate(members):
        journal, answer = journals[index], answers[index]
        if _is_slow(journal, _others(journals, index), JOURNAL_SLOW_SECONDS):
            assert journal is not None
            why = f"a write to its journal takes {words.seconds(journal)}{_beside(journals, index)}"
            found.append(SlowBookie(each.bookie, journal, why))
        elif _is_slow(answer, _others(answers, index), ANSWER_SLOW_SECONDS):
            assert answer is not None
            why = f"it answers in {words.seconds(answer)}{_beside(answers, index)}"
            found.append(SlowBookie(each.bookie, answer, why))
    return sorted(found, key=lambda each: (-each.seconds, each.bookie))


def _others(values: Sequence[float | None], index: int) -> float | None:
    others = [each for at, each in enumerate(values) if at != index and each is not None]
    return median(others) if others else None


def _is_slow(value: float | None, others: float | None, limit: float) -> bool:
    if value is None or value < limit:
        return False
    return others is None or value >= SLOWER_THAN_OTHERS * others or value >= 10 * limit


def _beside(values: Sequence[float | None], index: int) -> str:
    others = _others(values, index)
    return "" if others is None else f", the others take {words.seconds(others)}"


def lagging_readers(snapshot: ClusterLook) -> list[LogCursor]:
    """Return the cursors that lag, the largest lag first."""
    lagging = [
        LogCursor(name, cursor)
        for name, log in snapshot.logs.items()
        for cursor in log.view.cursors
        if lags(cursor, log.per_second, snapshot.at_ms)
    ]
    return sorted(lagging, key=lambda each: (-(each.cursor.lag or 0), each.log, each.cursor.name))


def lags(cursor: CursorView, per_second: float | None, now_ms: int) -> bool:
    """Return whether a reader lags in its log, which grows by `per_second` records."""
    if not cursor.lag:
        return False
    if (now_ms - cursor.updated_ms) / 1000 >= STILL_SECONDS:
        return True
    return cursor.lag >= max(LAG_MIN, LAG_SECONDS * (per_second or 0.0))


def _lag_text(cursor: CursorView) -> str:
    return f"{words.plural(cursor.lag or 0, 'record')} to read"


def quickest_logs(snapshot: ClusterLook) -> list[LogLook]:
    """Return the logs that grow, the quickest first."""
    growing = [each for each in snapshot.logs.values() if each.per_second]
    return sorted(growing, key=lambda each: (-(each.per_second or 0.0), each.view.name))


def answers(snapshot: ClusterLook) -> tuple[AnswerTile, AnswerTile, AnswerTile, AnswerTile]:
    """Return the answers to the four questions."""
    return (_appends(snapshot), _slowness(snapshot), _growth(snapshot), _lag(snapshot))


def _appends(snapshot: ClusterLook) -> AnswerTile:
    question, link = "Do appends go through?", "/bookies"
    facts = snapshot.facts
    if facts is None:
        return AnswerTile(question, UNKNOWN, "not known yet", "The first look is under way.", link)
    up = [each.bookie for each in snapshot.members_of(State.UP)]
    silent = [each for each in snapshot.members_of(State.UP, State.READ_ONLY) if each.silence]
    ready = len(up) - sum(each.bookie in up for each in silent)
    if ready < facts.ensemble:
        detail = (
            f"An ensemble needs {facts.ensemble} writable bookies that answer, and there "
            f"{'is' if ready == 1 else 'are'} {ready}{_missing(facts.bookies, snapshot)}."
        )
        return AnswerTile(question, CRITICAL, "Appends wait", detail, link)
    if snapshot.trouble:
        detail = "The metadata store does not answer: appends go on until a segment must change."
        return AnswerTile(question, WARNING, "Appends may wait", detail, link)
    if not facts.is_adopted:
        detail = "The metadata store was put back from a backup: `quire metadata adopt`."
        return AnswerTile(question, CRITICAL, "Appends wait", detail, link)
    if silent:
        named = ", ".join(words.short(each.bookie) for each in silent[:3])
        detail = f"Writers replace {named}, which is registered and does not answer."
        return AnswerTile(question, WARNING, "Some appends wait", detail, link)
    if slow := slow_bookies(snapshot):
        name = words.short(slow[0].bookie)
        detail = f"Appends that need its copy wait for {name}: {slow[0].why}."
        return AnswerTile(question, WARNING, "Some appends are slow", detail, link)
    spare = ready - facts.ensemble
    detail = f"{words.plural(ready, 'writable bookie')}: {spare} more than an ensemble needs."
    return AnswerTile(question, OK, "Appends go through", detail, link)


def _missing(bookies: Sequence[BookieFacts], snapshot: ClusterLook) -> str:
    facts = snapshot.facts
    assert facts is not None
    away = [
        f"{words.short(each.bookie)} "
        f"{'does not answer' if each.silence else f'is {facts.state(each)}'}"
        for each in bookies
        if each.silence or facts.state(each) not in (State.UP, State.GONE)
    ]
    more = f" and {len(away) - 3} more" if len(away) > 3 else ""
    return f": {', '.join(away[:3])}{more}" if away else ""


def _slowness(snapshot: ClusterLook) -> AnswerTile:
    question, link = "Which bookie is slow?", "/bookies?order=pace"
    slow = slow_bookies(snapshot)
    if slow:
        more = f" {len(slow) - 1} more are slow." if len(slow) > 1 else ""
        detail = f"{slow[0].why[0].upper()}{slow[0].why[1:]}.{more}"
        return AnswerTile(question, WARNING, words.short(slow[0].bookie), detail, link)
    known = [each for each in snapshot.paces.values() if each.answer_seconds is not None]
    if not known:
        return AnswerTile(question, UNKNOWN, "not known yet", "No bookie has answered yet.", link)
    worst = max(each.answer_seconds or 0.0 for each in known)
    journal = max((each.journal_seconds or 0.0 for each in known), default=0.0)
    wrote = f", writes to journals take up to {words.seconds(journal)}" if journal else ""
    return AnswerTile(
        question, OK, "None", f"All answer within {words.seconds(worst)}{wrote}.", link
    )


def _growth(snapshot: ClusterLook) -> AnswerTile:
    question, link = "Which log grows fastest?", "/logs?order=growth"
    if snapshot.facts is None:
        return AnswerTile(question, UNKNOWN, "not known yet", "The first look is under way.", link)
    quick = quickest_logs(snapshot)
    if not quick:
        seen = words.plural(len(snapshot.logs), "log")
        return AnswerTile(question, OK, "None grows", f"{seen} seen in the last looks.", link)
    all_of_them = sum(each.per_second or 0.0 for each in quick)
    part = words.share((quick[0].per_second or 0.0) / all_of_them)
    detail = f"{words.rate(quick[0].per_second)} records, {part} of what all logs take."
    return AnswerTile(question, OK, quick[0].view.name, detail, link)


def _lag(snapshot: ClusterLook) -> AnswerTile:
    question, link = "Which reader lags?", "/logs?order=lag"
    if snapshot.facts is None:
        return AnswerTile(question, UNKNOWN, "not known yet", "The first look is under way.", link)
    lagging = lagging_readers(snapshot)
    if lagging:
        log, worst = lagging[0]
        moved = words.ago(worst.updated_ms, snapshot.at_ms)
        detail = f"{_lag_text(worst)} of log {log}; it moved {moved}."
        return AnswerTile(question, WARNING, worst.name, detail, link)
    count = sum(len(log.view.cursors) for log in snapshot.logs.values())
    return AnswerTile(
        question, OK, "None", f"{words.plural(count, 'cursor')} in all logs seen.", link
    )
