"""Is a trace of one ledger a behaviour of the specification?

A trace is a list of events (events.py), each placed where its effect happened. Every event is one
action of `spec/Ledger.tla` whose guard must hold. One action has no event: the writer may have sent
anything at any time. That is complete, and makes the check linear in the length of the trace.

Each recovery is followed by itself: what it counts must have been said, and it must have counted
enough when it decides.

A guard either concerns one process alone, whose events are in order, or asks whether another one
did something already. What was done stays done. So an event whose guard holds may be taken at once,
and a guard that holds goes on to hold; merge.py rests on that. An event is taken whole or not at
all.

Not here: how events are gathered (tests/sim/conformance.py, tests/spec/files.py), what is not in
the specification (bytes, digests, LAC in frames).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.spec.events import NOTHING, SAID_ONLY, Event, Fragments, Kind, Shape


class Refusal(NamedTuple):
    """The first event that no action of the specification explains."""

    number: int
    event: Event
    reason: str

    def __str__(self) -> str:
        return f"event {self.number}, {self.event}: {self.reason}"


class RefusedError(Exception):
    """The guard of an action does not hold."""


def judge(shape: Shape, events: Sequence[Event]) -> Refusal | None:
    """Return the first step that the specification does not explain, or None."""
    state = Behaviour(shape, highest(events))
    for number, event in enumerate(events):
        try:
            state.take(event)
        except RefusedError as error:
            return Refusal(number, event, str(error))
    return None


def highest(events: Iterable[Event]) -> int:
    """The highest entry that events prove to exist. A denial reaches as far as it was asked."""
    return max((each.last for each in events if each.kind not in SAID_ONLY), default=NOTHING)


def _need(condition: bool, reason: str) -> None:
    if not condition:
        raise RefusedError(reason)


@dataclass(slots=True)
class _Recovery:
    """What one attempt at a recovery has counted."""

    start: int | None = None
    everyone: tuple[str, ...] = ()
    """The bookies of the cluster, if the record is of an older incarnation."""
    shown: set[int] = field(default_factory=set)
    denied: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def denies(self, bookie: str, entry: int) -> bool:
        return any(first <= entry <= last for first, last in self.denied.get(bookie, ()))


class Behaviour:
    """The variables of the specification, for one ledger, and its actions."""

    def __init__(self, shape: Shape, last: int) -> None:
        """`last` is the highest entry that any event proves."""
        self._shape = shape
        self._cover = shape.write_quorum - shape.ack_quorum + 1
        self._last = last
        self._write_sets: dict[tuple[tuple[str, ...], int], list[str]] = {}
        self._record = "NONE"
        self._version = NOTHING
        self._may_be_gone = False
        self._fragments: Fragments = ()
        self._written: Fragments = ()
        """The fragments that the writer knows; a recovery's own are never the writer's."""
        self._named: set[tuple[int, tuple[str, ...]]] = set()
        """Every fragment that the record named while the writer wrote it."""
        self._asked: Fragments = ()
        """The fragments that recoveries ask: the closing record may name others in their place."""
        self._lac = NOTHING
        self._told = NOTHING
        """The LAC that the writer told last, which may be below one that another event proves."""
        self._is_frozen = False
        self._end: int | None = None
        self._is_abandoned = False
        """The record was deleted while it was OPEN: nothing is promised then."""
        self._is_answered = False
        """The writer did something: it knows that the ledger was created."""
        self._late: set[str] = set()
        """Bookies that may have seen the record gone, before it was made again."""
        self._sent: set[tuple[str, int]] = set()
        self._added: set[tuple[str, int]] = set()
        self._held: set[tuple[str, int]] = set()
        self._written_back: set[tuple[str, int]] = set()
        """What a recovery, or a bookie that makes copies, wrote."""
        self._found: set[tuple[str, int]] = set()
        """What bookies may hold: a life that found it may have ended before it was durable anew, or
        before it could tell."""
        self._known: set[int] = set()
        self._denied: set[tuple[str, int, int]] = set()
        self._fenced: set[str] = set()
        self._retired: set[str] = set()
        self._salvaged: set[str] = set()
        self._recoveries: dict[str, _Recovery] = {}
        self._decided: dict[int, int] = {}
        """The ends that recoveries decided on, each with the last LAC that one of them began at."""
        self._actions = {
            Kind.OPENED: self._opened,
            Kind.RECOVERING: self._recovering,
            Kind.CLOSED: self._closed,
            Kind.RECORDED: self._recorded,
            Kind.DELETING: self._deleting,
            Kind.DELETED: self._deleted,
            Kind.ADDED: self._add,
            Kind.WRITTEN_BACK: self._write_back,
            Kind.FOUND: self._find,
            Kind.REPLAYED: self._replay,
            Kind.REFUSED: self._refuse,
            Kind.FENCED: self._fence,
            Kind.DENIED: self._deny,
            Kind.RETIRED: self._retire,
            Kind.DISOWNED: self._disown,
            Kind.SALVAGED: self._salvage,
            Kind.CONFIRMED: self._confirmed,
            Kind.FROZEN: self._freeze,
            Kind.THAWED: self._thaw,
            Kind.BEGAN: self._begin,
            Kind.STARTED: self._start,
            Kind.SHOWN: self._show,
            Kind.COUNTED: self._count,
            Kind.CLOSING: self._decide,
        }

    def take(self, event: Event) -> None:
        """Carry out the action of an event. Raises `RefusedError` when its guard fails: then it
        was not carried out.
        """
        self._actions[event.kind](event)

    def _write_set(self, fragments: Fragments, entry: int) -> list[str]:
        ensemble = next(each for first, each in reversed(fragments) if first <= entry)
        size = self._shape.ensemble
        place = (ensemble, entry % size)
        found = self._write_sets.get(place)
        if found is None:
            found = [ensemble[(entry + i) % size] for i in range(self._shape.write_quorum)]
            self._write_sets[place] = found
        return found

    # -- the record --------------------------------------------------------------------------------

    def _opened(self, event: Event) -> None:
        if self._record == "NONE":
            self._record = "OPEN"
            self._name(0, event.fragments)
        elif self._record == "DELETED":
            self._resend(event)
        elif event.fragments != self._fragments:
            self._change(event.fragments)
        self._version = event.version

    def _resend(self, event: Event) -> None:
        """The answer to the creation was lost, and the record was deleted before it was sent again.
        What bookies said stays said. No record named the ledger, so its end is no end of it.
        """
        _need(not self._is_answered, "I1: a creation is sent again, and its writer was told of it")
        self._record, self._end = "OPEN", None
        self._is_abandoned = self._may_be_gone = False
        self._late |= self._fenced
        self._sent.clear()
        self._named.clear()
        self._name(0, event.fragments)

    def _change(self, after: Fragments) -> None:
        before = self._fragments
        _need(self._record == "OPEN", f"W5: an ensemble change while {self._record}")
        first = max(self._lac + 1, after[-1][0])
        _need(after[-1][0] == first, f"W4: a fragment begins at {after[-1][0]}, LAC is {self._lac}")
        kept = before[:-1] if before[-1][0] == first else before
        _need(after[:-1] == kept, "L5: an earlier fragment changed")
        self._confirm(first - 1)
        self._is_answered = True
        self._name(first, after)

    def _name(self, first: int, after: Fragments) -> None:
        """The writer may send entries from `first` on where the record points now."""
        self._fragments = self._written = after
        self._named.update(after)
        for entry in range(first, self._last + 1):
            self._sent.update((b, entry) for b in self._write_set(self._written, entry))

    def _recovering(self, event: Event) -> None:
        _need(self._record in ("OPEN", "IN_RECOVERY"), f"M1: recovery of a {self._record} ledger")
        _need(event.fragments == self._fragments, "W5: fragments change while a recovery begins")
        self._record, self._version = "IN_RECOVERY", event.version
        self._asked = event.fragments

    def _closed(self, event: Event) -> None:
        end, after = event.last, event.fragments
        if self._record == "CLOSED":
            _need(end == self._end, f"M1: closed at {self._end}, then at {end}")
        elif self._record == "OPEN":
            _need(self._lac <= end, f"L1: the writer closes at {end}, LAC is {self._lac}")
            self._confirm(end)
            self._is_answered = True
        else:
            _need(self._record == "IN_RECOVERY", f"M1: a {self._record} ledger is closed")
            _need(end in self._decided, f"recovery 7: no recovery decided to end it at {end}")
            self._check_copies(after, end)
        _need(self._lac <= end, f"L1: closed at {end}, {self._lac} was acknowledged")
        self._record, self._end, self._fragments = "CLOSED", end, after
        self._version = event.version

    def _check_copies(self, after: Fragments, end: int) -> None:
        """A recovery counts the bookies that took an entry from it, above the LAC it began at. The
        completion may give their places to bookies that hold the entry already.
        """
        start = self._decided[end]
        for entry in range(self._fragments[-1][0], end + 1):
            if entry > start:
                taken = sum(each == entry for _, each in self._written_back)
                if taken < self._shape.ack_quorum:
                    raise RefusedError(f"L3: {entry} has {taken} copies that were written back")
            copies = sum((b, entry) in self._held for b in self._write_set(after, entry))
            if copies < self._shape.ack_quorum:
                raise RefusedError(f"L3: {entry} has {copies} copies")

    def _recorded(self, event: Event) -> None:
        """A process knows the record at a version: it was written by then."""
        _need(self._version >= event.version, f"the record is at {self._version}, not further")

    def _deleting(self, event: Event) -> None:
        _need(self._record != "NONE", "a ledger without a record is deleted")
        self._may_be_gone = True

    def _deleted(self, event: Event) -> None:
        _need(self._record != "NONE", "a ledger without a record is deleted")
        _need(self._version >= event.version, f"M1: the record is not at {event.version} yet")
        self._is_abandoned |= self._record == "OPEN"
        self._record = "DELETED"

    # -- bookies -----------------------------------------------------------------------------------

    def _add(self, event: Event) -> None:
        bookie, entries = event.bookie, event.entries
        copies = {(bookie, entry) for entry in entries}
        if not copies <= self._sent:
            raise RefusedError(f"W4: {event} was sent where no record points")
        if bookie in self._fenced and not copies <= self._added:
            raise RefusedError(f"B6: {event} was accepted after a fence")
        _need(bookie not in self._retired, "B11: entries of a retired ledger were accepted")
        self._is_answered = True
        self._added |= copies
        self._held |= copies
        self._known.update(entries)

    def _hold(self, event: Event) -> None:
        self._held.update((event.bookie, entry) for entry in event.entries)
        self._known.update(event.entries)

    def _write_back(self, event: Event) -> None:
        unknown = [entry for entry in event.entries if entry not in self._known]
        _need(not unknown, f"L4: {unknown} are written back, and no bookie held them")
        self._written_back.update((event.bookie, entry) for entry in event.entries)
        self._hold(event)

    def _find(self, event: Event) -> None:
        """What a process had written when it ended before it could tell. It may have told. Else no
        answer left: it may be lost again (docs/formats.md: a failed sync), and be denied then.
        """
        bookie = event.bookie
        fresh = [(bookie, e) for e in event.entries if (bookie, e) not in self._held]
        unknown = [each for each in fresh if each not in self._sent and each[1] not in self._known]
        _need(not unknown, f"L4: {unknown} are in a journal, and no writer sent them")
        if bookie not in self._fenced:
            self._added.update(fresh)
            self._is_answered |= bool(fresh)
        self._found.update(fresh)
        self._known.update(event.entries)

    def _replay(self, event: Event) -> None:
        """What was found is durable: no answer denies it from now on."""
        self._find(event)
        self._hold(event)

    def _fence(self, event: Event) -> None:
        is_begun = self._record not in ("NONE", "OPEN")
        _need(is_begun, f"recovery 1: fenced while the record is {self._record}")
        self._fenced.add(event.bookie)

    def _is_over(self) -> bool:
        return self._record in ("CLOSED", "DELETED")

    def _refuse(self, event: Event) -> None:
        is_known = event.bookie in self._fenced or self._is_over()
        _need(is_known, "a bookie refuses the writer, and no recovery fenced it")

    def _deny(self, event: Event) -> None:
        """An answer to a range denies all of it (section 4 of the protocol). A bookie that was
        repaired denies only what cannot matter any more, and its fence may not have been told.
        """
        bookie = event.bookie
        _need(
            bookie not in self._retired, "B11: a retired ledger is denied, and not called retired"
        )
        is_fenced = bookie in self._fenced or self._is_over()
        _need(is_fenced, "B6: a fencing read is answered before the fence is durable")
        reach = range(event.first, min(event.last, self._last) + 1)
        owed = [e for e in reach if self._owes(bookie, e)]
        wrong = [e for e in owed if (bookie, e) in self._held]
        _need(not wrong, f"B3: {wrong} are denied, and were acknowledged")
        lost = self._found.intersection((bookie, e) for e in owed) - self._held
        self._found -= lost
        self._added -= lost
        self._denied.add((bookie, event.first, event.last))

    def _owes(self, bookie: str, entry: int) -> bool:
        """A bookie that the final record does not name owes nothing (B9)."""
        if self._record == "DELETED":
            return False
        if self._record != "CLOSED" or self._end is None:
            return True
        return entry <= self._end and bookie in self._write_set(self._fragments, entry)

    def _retire(self, event: Event) -> None:
        bookie = event.bookie
        if bookie in self._late:
            self._late.remove(bookie)
        else:
            is_gone = self._record == "DELETED" or self._may_be_gone
            _need(is_gone, f"deletion: dropped while the record is {self._record}")
            self._is_abandoned |= self._record == "OPEN"
            self._record = "DELETED"
        self._retired.add(bookie)

    def _disown(self, event: Event) -> None:
        is_decided = self._record in ("CLOSED", "DELETED")
        _need(is_decided, f"H7: given up while the record is {self._record}")

    def _salvage(self, event: Event) -> None:
        self._salvaged.add(event.bookie)

    # -- the writer --------------------------------------------------------------------------------

    def _confirmed(self, event: Event) -> None:
        entry = event.last
        _need(not self._is_frozen or entry <= self._told, f"W4: {entry} during a change")
        self._confirm(entry)
        self._told = max(self._told, entry)

    def _confirm(self, entry: int) -> None:
        """Entries up to one are acknowledged, no later than here."""
        if entry <= self._lac:
            return
        _need(bool(self._written), "M1: the ledger has no record yet")
        at_end = self._end is None or entry <= self._end
        _need(at_end, f"L1: {entry} is acknowledged, the ledger ended at {self._end}")
        for following in range(self._lac + 1, entry + 1):
            write_set = self._write_set(self._written, following)
            copies = sum((bookie, following) in self._added for bookie in write_set)
            if copies < self._shape.ack_quorum and not self._is_abandoned:
                raise RefusedError(f"W2: {following} has {copies} answers")
        self._lac = entry

    def _freeze(self, event: Event) -> None:
        before = event.first - 1
        _need(before >= self._told, f"W4: frozen at {before}, below {self._told}")
        self._confirm(before)
        self._told, self._is_frozen, self._is_answered = before, True, True

    def _thaw(self, event: Event) -> None:
        _need(self._is_frozen, "W4: thawed, and was not frozen")
        (fragment,) = event.fragments
        _need(fragment in self._named, f"W4: no record names the fragment {fragment}")
        self._is_frozen = False

    # -- recoveries --------------------------------------------------------------------------------

    def _recovery(self, event: Event) -> _Recovery:
        _need(event.token in self._recoveries, f"recovery 1: {event.token} has not begun")
        return self._recoveries[event.token]

    def _begin(self, event: Event) -> None:
        _need(bool(self._asked), "recovery 1: the record is not in recovery")
        self._recoveries[event.token] = _Recovery()

    def _start(self, event: Event) -> None:
        recovery = self._recovery(event)
        if event.fragments:
            ((_, recovery.everyone),) = event.fragments
        else:
            self._check_fences()
        _need(event.last >= self._asked[-1][0] - 1, f"recovery 3: it starts at {event.last}")
        self._confirm(event.last)
        recovery.start = event.last

    def _check_fences(self) -> None:
        ensemble = self._asked[-1][1]
        for residue in range(self._shape.ensemble):
            places = [(residue + i) % len(ensemble) for i in range(self._shape.write_quorum)]
            fenced = sum(ensemble[place] in self._fenced for place in places)
            _need(fenced >= self._cover, f"recovery 2: {fenced} of a write set are fenced")

    def _show(self, event: Event) -> None:
        recovery, bookie = self._recovery(event), event.bookie
        lacking = [e for e in event.entries if (bookie, e) not in self._held]
        lacking = [e for e in lacking if (bookie, e) not in self._found]
        if bookie in self._salvaged:
            lacking = [e for e in lacking if (bookie, e) not in self._sent]
        _need(not lacking, f"L4: {lacking} are shown, and were never held")
        recovery.shown.update(event.entries)
        self._hold(event)

    def _count(self, event: Event) -> None:
        recovery, bookie = self._recovery(event), event.bookie
        is_said = (bookie, event.first, event.last) in self._denied
        text = f"recovery 4: {bookie} did not deny {event.first} to {event.last}"
        _need(is_said, f"{text} in answer to a fencing read")
        recovery.denied.setdefault(bookie, []).append((event.first, event.last))

    def _decide(self, event: Event) -> None:
        recovery, end = self._recovery(event), event.last
        start = recovery.start
        if start is None:
            raise RefusedError("recovery 2: it ends, and has not started")
        _need(end >= start, f"recovery 3: it ends at {end}, and started at {start}")
        asked = recovery.everyone or self._write_set(self._asked, end + 1)
        denials = sum(recovery.denies(bookie, end + 1) for bookie in asked)
        enough = denials >= len(asked) - self._shape.ack_quorum + 1
        _need(enough, f"recovery 4: {end + 1} was denied by {denials}")
        unseen = [e for e in range(start + 1, end + 1) if e not in recovery.shown]
        _need(not unseen, f"recovery 4: {unseen} were never shown")
        self._decided[end] = max(start, self._decided.get(end, start))
