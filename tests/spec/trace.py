"""Is a trace of one ledger a behaviour of the specification?

A trace is a list of events, each placed where its effect happened. Every event is one action of
`spec/Ledger.tla` whose guard must hold. Two actions have no event: the writer may have sent
anything at any time, and it confirms an entry no sooner than an event demands it. That is complete,
because a fragment begins at LAC + 1, and makes the check linear in the length of the trace.

The evidence of all recoverers is merged: an event does not say which of them asked.

Not here: how events are gathered (tests/sim/conformance.py), what is not in the specification
(bytes, digests, LAC in frames).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

Fragments = tuple[tuple[int, tuple[str, ...]], ...]

NOTHING: Final = -1


class Kind(StrEnum):
    """What happened. The comment names the action of the specification."""

    OPENED = "opened"  # Create, Change: the record is OPEN with these fragments
    RECOVERING = "recovering"  # Begin
    CLOSED = "closed"  # WriterCloses, RecovererCloses
    DELETED = "deleted"  # Delete
    ADDED = "added"  # Add: a bookie holds entries of the writer durably
    WRITTEN_BACK = "written back"  # WriteBack
    REFUSED = "refused"  # a bookie refused the writer because of a fence
    FENCED = "fenced"  # Fence
    SHOWN = "shown"  # ReadYes: a fencing read was answered with entries
    DENIED = "denied"  # ReadNo: "no such entry" of the whole range that was asked for
    CONFIRMED = "confirmed"  # Ack


class Event(NamedTuple):
    """One event. Entries are first..last, `last` the end of the ledger where it is CLOSED."""

    kind: Kind
    bookie: str = ""
    first: int = 0
    last: int = NOTHING
    fragments: Fragments = ()


class Shape(NamedTuple):
    """The replication of the ledger: ensemble, write quorum, ack quorum."""

    ensemble: int
    write_quorum: int
    ack_quorum: int


class Refusal(NamedTuple):
    """The first event that no action of the specification explains."""

    number: int
    event: Event
    reason: str

    def __str__(self) -> str:
        return f"event {self.number}, {self.event.kind} {self.event[1:4]}: {self.reason}"


class RefusedError(Exception):
    """The guard of an action does not hold."""


def judge(shape: Shape, events: Sequence[Event]) -> Refusal | None:
    """Return the first step that the specification does not explain, or None."""
    state = _State(shape, max((_highest(event) for event in events), default=NOTHING))
    for number, event in enumerate(events):
        try:
            state.take(event)
        except RefusedError as error:
            return Refusal(number, event, str(error))
    return None


def _highest(event: Event) -> int:
    """The highest entry that an event proves to exist. A denial reaches as far as it was asked."""
    return NOTHING if event.kind is Kind.DENIED else event.last


def _need(condition: bool, reason: str) -> None:
    if not condition:
        raise RefusedError(reason)


class _State:
    """The variables of the specification, for one ledger."""

    def __init__(self, shape: Shape, last: int) -> None:
        self._shape = shape
        self._cover = shape.write_quorum - shape.ack_quorum + 1
        self._last = last
        self._record = "NONE"
        self._fragments: Fragments = ()
        self._written: Fragments = ()
        """The fragments that the writer knows; a recovery's own are never the writer's."""
        self._lac = NOTHING
        self._end: int | None = None
        self._sent: set[tuple[str, int]] = set()
        self._added: set[tuple[str, int]] = set()
        self._held: set[tuple[str, int]] = set()
        self._known: set[int] = set()
        self._denied: dict[str, list[tuple[int, int]]] = {}
        self._fenced: set[str] = set()
        self._asked: tuple[str, ...] = ()
        """The ensemble that recoveries ask: the closing record may name others in its place."""
        self._actions = {
            Kind.OPENED: self._opened,
            Kind.RECOVERING: self._recovering,
            Kind.CLOSED: self._closed,
            Kind.DELETED: self._deleted,
            Kind.ADDED: self._add,
            Kind.WRITTEN_BACK: self._write_back,
            Kind.REFUSED: self._refuse,
            Kind.FENCED: self._fence,
            Kind.SHOWN: self._show,
            Kind.DENIED: self._deny,
            Kind.CONFIRMED: self._confirmed,
        }

    def take(self, event: Event) -> None:
        """Carry out the action of an event. Raises `RefusedError` when its guard fails."""
        self._actions[event.kind](event)

    def _fence(self, event: Event) -> None:
        self._fenced.add(event.bookie)

    def _confirmed(self, event: Event) -> None:
        self._confirm(event.last)

    def _write_set(self, fragments: Fragments, entry: int) -> list[str]:
        ensemble = next(each for first, each in reversed(fragments) if first <= entry)
        size = self._shape.ensemble
        return [ensemble[(entry + i) % size] for i in range(self._shape.write_quorum)]

    def _send(self, first: int) -> None:
        for entry in range(first, self._last + 1):
            self._sent.update((b, entry) for b in self._write_set(self._written, entry))

    def _confirm(self, entry: int) -> None:
        while self._lac < entry:
            following = self._lac + 1
            write_set = self._write_set(self._written, following)
            copies = sum((bookie, following) in self._added for bookie in write_set)
            _need(copies >= self._shape.ack_quorum, f"W2: {following} has {copies} answers")
            self._lac = following
            at_end = self._end is None or self._lac <= self._end
            _need(at_end, f"L1: {following} is acknowledged, the ledger ended at {self._end}")

    # -- the record --------------------------------------------------------------------------------

    def _opened(self, event: Event) -> None:
        if self._record == "NONE":
            self._record, self._fragments = "OPEN", event.fragments
            self._written = event.fragments
            self._send(0)
        elif event.fragments != self._fragments:
            self._change(event.fragments)

    def _change(self, after: Fragments) -> None:
        before = self._fragments
        _need(self._record == "OPEN", f"W5: an ensemble change while {self._record}")
        self._confirm(after[-1][0] - 1)
        first = self._lac + 1
        _need(after[-1][0] == first, f"W4: a fragment begins at {after[-1][0]}, LAC is {self._lac}")
        kept = before[:-1] if before[-1][0] == first else before
        _need(after[:-1] == kept, "L5: an earlier fragment changed")
        self._fragments = self._written = after
        self._send(first)

    def _recovering(self, event: Event) -> None:
        _need(self._record in ("OPEN", "IN_RECOVERY"), f"M1: recovery of a {self._record} ledger")
        _need(event.fragments == self._fragments, "W5: fragments change while a recovery begins")
        self._record = "IN_RECOVERY"
        self._asked = event.fragments[-1][1]

    def _closed(self, event: Event) -> None:
        end = event.last
        if self._record == "CLOSED":
            _need(end == self._end, f"M1: closed at {self._end}, then at {end}")
            self._fragments = event.fragments
            return
        if self._record == "OPEN":
            self._confirm(end)
            _need(self._lac == end, f"the writer closes at {end}, LAC is {self._lac}")
        else:
            _need(self._record == "IN_RECOVERY", f"M1: a {self._record} ledger is closed")
            self._check_recovery(event.fragments, end)
        _need(self._lac <= end, f"L1: closed at {end}, {self._lac} was acknowledged")
        self._record, self._end, self._fragments = "CLOSED", end, event.fragments

    def _check_recovery(self, after: Fragments, end: int) -> None:
        first, ensemble = self._fragments[-1]
        for residue in range(self._shape.ensemble):
            places = [(residue + i) % len(ensemble) for i in range(self._shape.write_quorum)]
            fenced = sum(ensemble[place] in self._fenced for place in places)
            _need(fenced >= self._cover, f"recovery 2: {fenced} of a write set are fenced")
        denials = self._denials(end + 1)
        _need(denials >= self._cover, f"recovery 4: {end + 1} was denied by {denials}")
        for entry in range(first, end + 1):
            copies = sum((b, entry) in self._held for b in self._write_set(after, entry))
            _need(copies >= self._shape.ack_quorum, f"L3: {entry} has {copies} copies")

    def _denials(self, entry: int) -> int:
        write_set = self._write_set(self._fragments, entry)
        return sum(
            any(first <= entry <= last for first, last in self._denied.get(bookie, ()))
            for bookie in write_set
        )

    def _deleted(self, event: Event) -> None:
        self._record = "DELETED"

    # -- bookies -----------------------------------------------------------------------------------

    def _add(self, event: Event) -> None:
        bookie = event.bookie
        for entry in range(event.first, event.last + 1):
            _need((bookie, entry) in self._sent, f"W4: {entry} was sent where no record points")
            if (bookie, entry) not in self._added:
                _need(bookie not in self._fenced, f"B6: {entry} was accepted after a fence")
                self._added.add((bookie, entry))
        self._hold(event)

    def _hold(self, event: Event) -> None:
        entries = range(event.first, event.last + 1)
        self._held.update((event.bookie, entry) for entry in entries)
        self._known.update(entries)

    def _write_back(self, event: Event) -> None:
        unknown = [e for e in range(event.first, event.last + 1) if e not in self._known]
        _need(not unknown, f"L4: {unknown} are written back, and no bookie held them")
        self._hold(event)

    def _refuse(self, event: Event) -> None:
        """A refusal may be seen before the answer to the fence that caused it, or without one: a
        fence reaches a bookie late that the recovery has replaced meanwhile.
        """
        is_ending = self._record != "OPEN" and bool(self._fragments)
        is_named = is_ending and event.bookie in (*self._fragments[-1][1], *self._asked)
        is_known = event.bookie in self._fenced or is_named or self._record == "DELETED"
        _need(is_known, "a bookie refuses the writer, and no recovery fences it")
        self._fenced.add(event.bookie)

    def _show(self, event: Event) -> None:
        self._fenced.add(event.bookie)
        for entry in range(event.first, event.last + 1):
            _need((event.bookie, entry) in self._held, f"L4: {entry} is shown, and was never held")

    def _deny(self, event: Event) -> None:
        """An answer to a range denies all of it (section 4 of the protocol)."""
        reach = range(event.first, min(event.last, self._last) + 1)
        wrong = [
            e for e in reach if (event.bookie, e) in self._held and self._owes(event.bookie, e)
        ]
        _need(not wrong, f"B3: {wrong} are denied, and were acknowledged")
        self._fenced.add(event.bookie)
        self._denied.setdefault(event.bookie, []).append((event.first, event.last))

    def _owes(self, bookie: str, entry: int) -> bool:
        """A bookie that the final record does not name owes nothing (B9)."""
        if self._record == "DELETED":
            return False
        if self._record != "CLOSED" or self._end is None:
            return True
        return entry <= self._end and bookie in self._write_set(self._fragments, entry)


def ranges(entries: Iterable[int]) -> list[tuple[int, int]]:
    """Return ascending entries as (first, last) of their consecutive stretches."""
    found: list[tuple[int, int]] = []
    for entry in entries:
        if found and found[-1][1] == entry - 1:
            found[-1] = (found[-1][0], entry)
        else:
            found.append((entry, entry))
    return found
