"""The health of a cluster, from facts: ok, warning or critical, with reasons and remedies.

Every reason has a code, which metrics and alerts may name, and a remedy. A wish that an operator
may have forgotten is a warning for as long as it holds. *Critical* means that entries can be lost,
or that appends stop, unless something is done.

Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Final, NamedTuple

from quire.entry import BookieId
from quire.healing.state import (
    LOST_SECONDS,
    BookieFacts,
    State,
    present_ms,
    silent_seconds,
    state_of,
)
from quire.healing.summary import Count, Summary
from quire.healing.summary import State as Auditing
from quire.healing.switch import Switch
from quire.labels import domain_name

ENSEMBLE: Final = 3
"""The ensemble of a log without options of its own."""

ROOM_SHARE_MIN: Final = 0.15
"""A directory with less free space than this share is nearly full."""

MISSING_SHARE_MAX: Final = 0.25
"""When more bookies than this share are missing at once, the network is a likelier cause."""

ABSENT: Final = (State.SILENT, State.LOST)


class Severity(IntEnum):
    """How bad a finding is; the worst one is the verdict."""

    OK = 0
    WARNING = 1
    CRITICAL = 2

    def __str__(self) -> str:
        return self.name.lower()


REPORT_SECONDS: Final = 300.0
"""An auditor at work reports ten times as often."""

COPIES: Final = {
    Count.NO_COPY: (
        Severity.CRITICAL,
        "have entries that no bookie has now",
        "bring the lost bookies back: `quire healing status` names the ledgers",
    ),
    Count.ONE_COPY: (
        Severity.CRITICAL,
        "have entries with one copy left",
        "bring a lost bookie back, and keep the others up: healing copies these first",
    ),
    Count.SHORT: (
        Severity.WARNING,
        "are short of a copy",
        "healing makes the copies: `quire healing status`",
    ),
    Count.UNREADABLE: (
        Severity.WARNING,
        "have a damaged record",
        "put the records back from a backup (docs/operations.md, Backup and restore)",
    ),
    Count.FEW_DOMAINS: (
        Severity.WARNING,
        "have copies in fewer domains than their placement requires",
        "start bookies in the missing domains: the copies move there, `quire healing status`",
    ),
}
"""The meanings of the auditor's counts."""


class Finding(NamedTuple):
    """One reason."""

    severity: Severity
    code: str
    text: str
    remedy: str
    bookie: BookieId | None = None


@dataclass(frozen=True)
class ClusterFacts:
    """The facts of a cluster.

    Attributes:
        bookies: the facts of every bookie that has a record, sorted by id.
        clock_ms: the clock of the process that looked.
        lost_seconds: the silence after which a bookie counts as lost.
        is_adopted: whether the store may be believed.
        servers: the servers of the metadata store, and whether each answers.
        ensemble: how many writable bookies a new ledger needs.
        summary: the auditor's last findings; None before the first.
        switch: an operator's pause of healing.
        damaged: records of healing that cannot be read, with the reason.
    """

    bookies: Sequence[BookieFacts]
    clock_ms: int
    lost_seconds: float = LOST_SECONDS
    is_adopted: bool = True
    servers: Sequence[tuple[str, bool]] = ()
    ensemble: int = ENSEMBLE
    summary: Summary | None = None
    switch: Switch = field(default_factory=Switch)
    damaged: Sequence[str] = ()

    @cached_property
    def now_ms(self) -> int:
        """The time now, in the terms of heartbeats."""
        return present_ms(self.clock_ms, self.bookies)

    def state(self, facts: BookieFacts) -> State:
        """Return the state of a bookie."""
        return state_of(facts, self.now_ms, self.lost_seconds)

    def states(self) -> Mapping[State, int]:
        """Return how many bookies are in each state."""
        return Counter(map(self.state, self.bookies))


@dataclass(frozen=True)
class Verdict:
    """The health of a cluster: the findings, the worst first. Of equal ones, the states of bookies
    come before troubles of bookies that are up, such as little room.
    """

    findings: Sequence[Finding] = field(default=())

    @property
    def severity(self) -> Severity:
        """The severity of the worst finding."""
        return max((each.severity for each in self.findings), default=Severity.OK)

    @property
    def summary(self) -> str:
        """The verdict in one line."""
        if not self.findings:
            return str(Severity.OK)
        more = len(self.findings) - 1
        rest = f" (and {more} more)" if more else ""
        return f"{self.severity}: {self.findings[0].text}{rest}"


def health(facts: ClusterFacts) -> Verdict:
    """Return the health of a cluster."""
    found = [*_of_store(facts), *_of_healing(facts)]
    for each in facts.bookies:
        found += _of_state(facts, each)
    for each in facts.bookies:
        found += _of_present(facts, each)
    found += _of_bookies(facts)  # last: mostly the consequence of the others
    return Verdict(tuple(sorted(found, key=lambda each: -each.severity)))


def _of_store(facts: ClusterFacts) -> Iterator[Finding]:
    if not facts.is_adopted:
        yield Finding(
            Severity.CRITICAL,
            "not-adopted",
            "the metadata store was put back from a backup and is not adopted",
            "`quire metadata adopt` (docs/operations.md, Backup and restore)",
        )
    for server, answers in facts.servers:
        if not answers:
            yield Finding(
                Severity.WARNING,
                "store-server",
                f"ZooKeeper server {server} does not answer",
                "start it: with one server less the store survives one loss less",
            )


def _of_healing(facts: ClusterFacts) -> Iterator[Finding]:
    for trouble in facts.damaged:
        text = f"nothing is healed: {trouble}"
        yield Finding(Severity.WARNING, "damaged-switch", text, "`quire healing resume` writes it")
    pause = facts.switch.pause
    if pause is not None and (left := pause.seconds_left(facts.clock_ms)):
        text = f"healing is paused for {duration(left)} more, by {pause.by}: {pause.reason}"
        yield Finding(Severity.WARNING, "healing-paused", text, "`quire healing resume` ends it")
    summary = facts.summary
    if summary is None:
        return
    age = summary.age_seconds(facts.clock_ms)
    if age > REPORT_SECONDS:
        text = f"no auditor has reported for {duration(age)}: nothing is healed"
        remedy = "start bookies without --no-auditor, or `quire autorecovery`"
        if summary.at_ms > facts.clock_ms:
            text = f"the auditor's last report is dated {duration(age)} ahead: it may have ended"
            remedy = f"correct the clocks here and of {summary.by}; the next report tells"
        yield Finding(Severity.WARNING, "no-auditor", text, remedy)
    if summary.state is Auditing.MASS_LOSS:
        remedy = "look at the network first; `quire healing go` heals all the same"
        yield Finding(Severity.CRITICAL, "mass-loss", f"nothing is healed: {summary.why}", remedy)
    yield from _of_copies(summary)


def _of_copies(summary: Summary) -> Iterator[Finding]:
    for kind, (severity, words, remedy) in COPIES.items():
        if count := summary.count(kind):
            yield Finding(severity, str(kind), f"{count} ledgers {words}", remedy)
    if count := summary.count(Count.UNPLACED):
        code = "no-domain" if summary.why.startswith("no domain") else "no-room"
        text = f"{count} ledgers find no bookie for a copy: {summary.why}"
        yield Finding(Severity.WARNING, code, text, "add bookies there, or free space on disks")


def _of_bookies(facts: ClusterFacts) -> Iterator[Finding]:
    members = [each for each in facts.bookies if facts.state(each) is not State.GONE]
    writable = sum(facts.state(each) is State.UP for each in members)
    if not members:
        yield Finding(
            Severity.CRITICAL,
            "no-bookies",
            "the cluster has no bookies",
            "`quire bookie format` and `quire bookie serve` make one",
        )
        return
    remedy = "start bookies, free disk space, or end an away with `quire bookie back`"
    if writable < facts.ensemble:
        text = f"{writable} bookies are writable, an ensemble needs {facts.ensemble}"
        yield Finding(Severity.CRITICAL, "too-few-writable", text, remedy)
    elif writable == facts.ensemble and len(members) > facts.ensemble:
        text = f"{writable} bookies are writable: an ensemble has no spare"
        yield Finding(Severity.WARNING, "no-spare", text, remedy)
    absent = [each for each in members if facts.state(each) in ABSENT]
    domains = {each.labels.path for each in absent}
    if len(domains) > 1 or len(absent) > max(1, MISSING_SHARE_MAX * len(members)):
        yield Finding(
            Severity.CRITICAL,
            "many-missing",
            f"{len(absent)} of {len(members)} bookies are missing at once",
            "look at the network and the metadata store first; then at the bookies, one by one",
        )
    versions = sorted({each.version for each in members if each.registered and each.version})
    if len(versions) > 1:
        yield Finding(
            Severity.WARNING,
            "versions",
            f"programs of several versions serve: {', '.join(versions)}",
            "finish the upgrade (docs/operations.md, Upgrade)",
        )


def _of_state(facts: ClusterFacts, each: BookieFacts) -> Iterator[Finding]:
    state, name = facts.state(each), _name(each)
    if state in ABSENT:
        yield _missing(facts, each, state)
    elif state is State.READ_ONLY:
        text = f"{name} takes no new entries: its disk is nearly full or does not answer"
        yield _warning("read-only", each, text, "free space on its disks, or trim logs")
    elif state is State.AWAY:
        left = each.standing.seconds_left(facts.now_ms) or 0.0
        text = f"{name} is away for {duration(left)} more{_why(each)}"
        yield _warning("away", each, text, f"`quire bookie back {each.bookie}` ends it")
    elif state is State.DRAINING:
        remedy = f"`quire bookie recommission {each.bookie}` ends it, `forget` completes it"
        yield _warning("draining", each, f"{name} is draining{_why(each)}", remedy)
    elif state is State.GONE and each.registered:
        remedy = "stop its process: its identity was given up"
        yield _warning("gone-serves", each, f"{name} is gone, and still registered", remedy)


def _of_present(facts: ClusterFacts, each: BookieFacts) -> Iterator[Finding]:
    if facts.state(each) is State.GONE:
        return
    name = _name(each)
    for trouble in each.damaged:
        remedy = "set its standing anew, or start it again: both write the record"
        yield _warning("damaged-record", each, f"a record of {name} is damaged: {trouble}", remedy)
    if each.in_limbo:
        text = f"{name} may have lost something of {each.in_limbo} ledgers"
        yield _warning("limbo", each, text, "docs/operations.md, Damage: bring the others back")
    if each.registered is None:
        return
    if each.silence:
        text = f"{name} is registered and does not answer: {each.silence}"
        yield _warning("no-answer", each, text, "look at its process and at the network")
    if not each.obeys:
        text = f"{name} has no heartbeat: a program of an earlier release serves it"
        yield _warning("no-heartbeat", each, text, "upgrade it: until then it obeys no wish")
    for disk in each.disks:
        if disk.total_bytes and disk.free_bytes < ROOM_SHARE_MIN * disk.total_bytes:
            share = f"{100 * disk.free_bytes / disk.total_bytes:.0f} %"
            text = f"{disk.path} ({disk.holds}) of {name} has {share} free space"
            yield _warning("room", each, text, "trim logs, or add directories or bookies")


def _missing(facts: ClusterFacts, each: BookieFacts, state: State) -> Finding:
    silent = silent_seconds(each, facts.now_ms)
    since = "" if silent is None else f" for {duration(silent)}"
    if state is State.LOST:
        text = f"{_name(each)} is lost, silent{since}: its copies are missing"
        remedy = f"start it; if its disk is lost, `quire bookie forget {each.bookie}` in the end"
        return Finding(Severity.CRITICAL, "lost", text, remedy, each.bookie)
    text = f"{_name(each)} is silent{since}"
    remedy = "start it; for a planned stop say `quire bookie away` first"
    return Finding(Severity.WARNING, "silent", text, remedy, each.bookie)


def _warning(code: str, each: BookieFacts, text: str, remedy: str) -> Finding:
    return Finding(Severity.WARNING, code, text, remedy, each.bookie)


def _name(each: BookieFacts) -> str:
    where = domain_name(each.labels.path) if any(each.labels.path) else each.address
    return f"bookie {each.bookie}" + (f" ({where})" if where else "")


def _why(each: BookieFacts) -> str:
    standing = each.standing
    said = f", by {standing.by}" if standing.by else ""
    return said + (f": {standing.reason}" if standing.reason else "")


def duration(seconds: float) -> str:
    """Return a duration as people read it: its two largest units."""
    parts: list[tuple[int, str]] = []
    left = round(seconds)
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count or parts:
            parts.append((count, unit))
    return " ".join(f"{count} {unit}" for count, unit in parts[:2] if count) or "0 s"
