"""Our own checker of the anomalies that Jepsen's test of Kafka names. Pure.

Jepsen's checker itself is not here: it is Clojure, and its libraries are not in the registries that
the project's machines reach. These are its names and their meaning for one log, written anew from
the descriptions. Each says which operations prove it.

    lost write             an acknowledged record below a record that was read, which no reader met
    unseen                 an acknowledged record that no reader met though the log was read to its
                           end (Jepsen only counts these; after the last read it is a loss)
    duplicate              one value at two offsets
    inconsistent offsets   two values at one offset
    aborted read           a reader met a value whose append failed, or that no client appended
    torn batch             a batch is not at consecutive offsets, or a part of it was never there
    poll skip              a pass of a reader jumped over an offset that it was not told was trimmed
    nonmonotonic poll      a pass of a reader went back or repeated an offset
    nonmonotonic send      an append got a lower offset than one that had been acknowledged before
    conditional append     a conditional append that succeeded is at another offset
    stale end              a linearizable end is before a record that had been acknowledged, or
                           before an end that a client had been given earlier

A process of reads is one pass: a reader that was told of a trim, or began again, goes on under
another name. The last three need no reader; Jepsen finds them as cycles with real-time edges.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from tests.judges.history import History, Kind, Operation, Outcome


@dataclass(frozen=True, slots=True)
class Anomaly:
    """Something that a log must not show."""

    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"


@dataclass(slots=True)
class Evidence:
    """A history by what it says of offsets and values."""

    appends: list[Operation] = field(default_factory=list)
    reads: list[Operation] = field(default_factory=list)
    ends: list[Operation] = field(default_factory=list)
    met: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    """Offsets at which readers met each value."""
    shown: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Values that readers met, or writers were told of, at each offset."""
    highest: int = -1
    """The highest offset that a reader met."""
    trimmed_to: int = 0

    @classmethod
    def of(cls, history: History) -> Evidence:
        evidence = cls()
        lists = {
            Kind.APPEND: evidence.appends,
            Kind.READ: evidence.reads,
            Kind.END: evidence.ends,
        }
        for each in history:
            if each.kind is Kind.TRIM:
                evidence.trimmed_to = max(evidence.trimmed_to, each.offset or 0)
            elif each.kind is Kind.APPEND or (each.is_ok and each.offset is not None):
                lists[each.kind].append(each)
            evidence._show(each)
        return evidence

    def _show(self, operation: Operation) -> None:
        if not operation.is_ok or operation.offset is None:
            return
        for offset, value in enumerate(operation.values, operation.offset):
            self.shown[offset].add(value)
            if operation.kind is Kind.READ:
                self.met[value].add(offset)
                self.highest = max(self.highest, offset)


def _lost_writes(evidence: Evidence) -> Iterator[str]:
    for append in evidence.appends:
        for offset, value in _acknowledged(append):
            is_below = evidence.trimmed_to <= offset <= evidence.highest
            if value not in evidence.met and is_below:
                yield f"{value} was acknowledged at {offset}, and no reader met it"


def _acknowledged(append: Operation) -> Iterator[tuple[int, str]]:
    if append.is_ok and append.offset is not None:
        yield from enumerate(append.values, append.offset)


def _unseen(evidence: Evidence) -> Iterator[str]:
    for append in evidence.appends:
        for offset, value in _acknowledged(append):
            is_above = offset > evidence.highest and offset >= evidence.trimmed_to
            if value not in evidence.met and is_above:
                yield f"{value} was acknowledged at {offset}, readers came to {evidence.highest}"
        if append.is_ok and append.offset is None and not evidence.trimmed_to:
            for value in append.values:
                if value not in evidence.met:
                    yield f"{value} was acknowledged, and no reader met it"


def _duplicates(evidence: Evidence) -> Iterator[str]:
    places: dict[str, set[int]] = defaultdict(set)
    for offset, values in evidence.shown.items():
        for value in values:
            places[value].add(offset)
    for value, offsets in places.items():
        if len(offsets) > 1:
            yield f"{value} is at {sorted(offsets)}"


def _inconsistent_offsets(evidence: Evidence) -> Iterator[str]:
    for offset, values in evidence.shown.items():
        if len(values) > 1:
            yield f"offset {offset} has {sorted(values)}"


def _aborted_reads(evidence: Evidence) -> Iterator[str]:
    offered = {value: append for append in evidence.appends for value in append.values}
    for value in evidence.met:
        append = offered.get(value)
        if append is None:
            yield f"{value} was read, and no client appended it"
        elif append.outcome is Outcome.FAILED:
            yield f"{value} was read, and {append.process} was told that it was not written"


def _torn_batches(evidence: Evidence) -> Iterator[str]:
    for append in evidence.appends:
        known = [evidence.met.get(value, set()) for value in append.values]
        starts = {offset - at for at, offsets in enumerate(known) for offset in offsets}
        if len(starts) > 1:
            yield f"{append.values} are at {[sorted(offsets) for offsets in known]}"
        for at, start in ((at, start) for start in starts for at in range(len(known))):
            offset = start + at
            is_there = not evidence.trimmed_to <= offset <= evidence.highest
            if not (is_there or known[at]):
                yield f"{append.values[at]} is not at {offset}, where the others of its batch say"


def _passes(evidence: Evidence) -> Iterator[tuple[Operation, Operation]]:
    last: dict[str, Operation] = {}
    for read in sorted(evidence.reads, key=lambda each: (each.process, each.number)):
        if read.process in last:
            yield last[read.process], read
        last[read.process] = read


def _poll_skips(evidence: Evidence) -> Iterator[str]:
    for one, other in _passes(evidence):
        assert other.offset is not None
        if other.offset > one.after:
            yield f"{other.process} read offset {other.offset} after {one.after - 1}"


def _nonmonotonic_polls(evidence: Evidence) -> Iterator[str]:
    for one, other in _passes(evidence):
        assert other.offset is not None
        if other.offset < one.after:
            yield f"{other.process} read offset {other.offset} after {one.after - 1}"


def _running_maximum(
    operations: Iterable[Operation], reached: Callable[[Operation], int]
) -> Callable[[int], Operation | None]:
    """Return what tells which operation that returned before a time reached furthest."""
    returned = sorted((each for each in operations if each.returned), key=lambda e: e.returned or 0)
    state: list[Operation | None] = [None]
    at = 0

    def before(time: int) -> Operation | None:
        nonlocal at
        while at < len(returned) and (returned[at].returned or 0) < time:
            best = state[0]
            if best is None or reached(returned[at]) > reached(best):
                state[0] = returned[at]
            at += 1
        return state[0]

    return before


def _acked(evidence: Evidence) -> list[Operation]:
    return [each for each in evidence.appends if each.is_ok and each.offset is not None]


def _nonmonotonic_sends(evidence: Evidence) -> Iterator[str]:
    acked = _acked(evidence)
    before = _running_maximum(acked, lambda each: each.offset or 0)
    for append in sorted(acked, key=lambda each: each.called):
        earlier = before(append.called)
        if earlier is not None and (append.offset or 0) < earlier.after:
            yield f"{append} was called after {earlier} was acknowledged"


def _conditional_appends(evidence: Evidence) -> Iterator[str]:
    for append in evidence.appends:
        places = {append.offset} if append.is_ok else set()
        places |= evidence.met.get(append.values[0], set()) if append.values else set()
        wrong = places - {append.expected, None}
        if append.expected is not None and wrong:
            yield f"{append} asked for offset {append.expected}, and is at {sorted(wrong, key=str)}"


def _stale_ends(evidence: Evidence) -> Iterator[str]:
    sources = [*_acked(evidence), *evidence.ends]
    before = _running_maximum(sources, lambda each: each.after)
    for end in sorted(evidence.ends, key=lambda each: each.called):
        earlier = before(end.called)
        if earlier is not None and (end.offset or 0) < earlier.after:
            yield f"{end} was called after {earlier} had returned"


Check: TypeAlias = Callable[[Evidence], Iterator[str]]

CHECKS: Final[dict[str, Check]] = {
    "lost write": _lost_writes,
    "unseen": _unseen,
    "duplicate": _duplicates,
    "inconsistent offsets": _inconsistent_offsets,
    "aborted read": _aborted_reads,
    "torn batch": _torn_batches,
    "poll skip": _poll_skips,
    "nonmonotonic poll": _nonmonotonic_polls,
    "nonmonotonic send": _nonmonotonic_sends,
    "conditional append": _conditional_appends,
    "stale end": _stale_ends,
}


def find_anomalies(history: History) -> list[Anomaly]:
    """Return every anomaly of a history, in the order of `CHECKS`."""
    evidence = Evidence.of(history)
    return [Anomaly(name, text) for name, check in CHECKS.items() for text in check(evidence)]
