"""Every simulated run is held against the specification of the ledger protocol.

Production tells an observer what takes effect (quire/observer.py): bookies after the sync of their
journals, writers when LAC moves, each recovery what it counts. Here all observers of a run write
one trace per ledger; the records stand in it where the tree of the metadata store changes. At the
end each trace must be a behaviour of `spec/Ledger.tla` (tests/spec/trace.py judges). A refusal is a
violation although nothing was lost yet: checkers need the harm, the specification needs one wrong
step.

Not here: what a trace must be like (tests/spec/trace.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

from quire.entry import NO_ENTRY, BookieId, Entry, EntryId, LedgerId
from quire.event_log import ranges
from quire.ledger.metadata import LedgerMetadata
from quire.metastore.layout import LEDGERS
from quire.observer import Observer, RecoveryObserver, Source
from tests.sim.history import Violation
from tests.sim.watch import decoded
from tests.spec.events import RECORDS, SOURCES, Event, Kind, Shape
from tests.spec.trace import judge


def _unheard(ledger: LedgerId, event: Event) -> None:
    return None


class Conformance:
    """The traces of all ledgers of a run."""

    def __init__(self) -> None:
        self._shapes: dict[LedgerId, Shape] = {}
        self._traces: dict[LedgerId, list[Event]] = {}
        self._older: set[LedgerId] = set()
        self._tokens = count(1)
        self.heard: Callable[[LedgerId, Event], None] = _unheard
        """Told of every event when it was written down."""
        self.heard_of_older: Callable[[LedgerId, Event], None] = _unheard
        """Told of the events of ledgers whose traces have ended."""

    def put_back(self) -> None:
        """The store is an older copy of itself. The specification has this step (`Revive`,
        `Forget`), and a trace does not: the traces of the ledgers of before end here.
        """
        self._older.update(self._shapes)

    def observer(self, name: str) -> Observer:
        """Return the observer of a process. For a bookie `name` is its id."""
        return _Process(self, name)

    def token(self, name: str) -> str:
        """Return what to call another recovery of a process."""
        return f"{name}:{next(self._tokens)}"

    def add(self, ledger: LedgerId, event: Event) -> None:
        """Write an event down where it happened."""
        if ledger in self._older:
            self.heard_of_older(ledger, event)
        else:
            self._traces.setdefault(ledger, []).append(event)
            self.heard(ledger, event)

    def changed(self, path: str, value: bytes | None, version: int) -> None:
        """Listener of the tree of the metadata store."""
        if not path.startswith(LEDGERS + "/") or path.count("/") < 4:
            return
        if value is None:
            ledger = int(path.rpartition("/")[2])
            if ledger in self._shapes:
                self.add(ledger, Event(Kind.DELETED))
        elif value:
            self._recorded(decoded(path, value), version)

    def _recorded(self, metadata: LedgerMetadata, version: int) -> None:
        quorums = metadata.replication
        shape = Shape(quorums.ensemble, quorums.write_quorum, quorums.ack_quorum)
        self._shapes[metadata.ledger] = shape
        last = NO_ENTRY if metadata.last_entry is None else metadata.last_entry
        fragments = tuple((each.first, tuple(each.bookies)) for each in metadata.fragments)
        event = Event(RECORDS[metadata.state], "", 0, last, fragments, version=version)
        self.add(metadata.ledger, event)

    def traces(self) -> dict[LedgerId, tuple[Shape, list[Event]]]:
        """Return the trace of every ledger that has a record, or had one."""
        return {
            ledger: (shape, self._traces[ledger]) for ledger, shape in sorted(self._shapes.items())
        }

    def refusal(self) -> Violation | None:
        """Return the first refusal of the specification, as the violation of a run."""
        for ledger, (shape, events) in self.traces().items():
            found = judge(shape, events)
            if found is not None:
                text = f"ledger {ledger}: {found}"
                return Violation("a trace is a behaviour of the specification", text)
        return None


class _Process(Observer):
    """The observer of one process: a bookie or a client."""

    def __init__(self, conformance: Conformance, name: str) -> None:
        self._conformance = conformance
        self._name = name

    def _add(
        self, ledger: LedgerId, kind: Kind, first: EntryId = 0, last: EntryId = NO_ENTRY
    ) -> None:
        self._conformance.add(ledger, Event(kind, self._name, first, last))

    def held(self, ledger: LedgerId, entries: Sequence[EntryId], source: Source) -> None:
        for first, last in ranges(entries):
            self._add(ledger, SOURCES[source], first, last)

    def fenced(self, ledger: LedgerId) -> None:
        self._add(ledger, Kind.FENCED)

    def denied(self, ledger: LedgerId, first: EntryId, last: EntryId) -> None:
        self._add(ledger, Kind.DENIED, first, last)

    def refused(self, ledger: LedgerId) -> None:
        self._add(ledger, Kind.REFUSED)

    def retired(self, ledger: LedgerId) -> None:
        self._add(ledger, Kind.RETIRED)

    def disowned(self, ledger: LedgerId) -> None:
        self._add(ledger, Kind.DISOWNED)

    def salvaged(self, ledger: LedgerId) -> None:
        self._add(ledger, Kind.SALVAGED)

    def confirmed(self, ledger: LedgerId, lac: EntryId) -> None:
        self._add(ledger, Kind.CONFIRMED, lac, lac)

    def frozen(self, ledger: LedgerId, first: EntryId) -> None:
        self._add(ledger, Kind.FROZEN, first)

    def thawed(self, ledger: LedgerId, first: EntryId, bookies: Sequence[BookieId]) -> None:
        event = Event(Kind.THAWED, fragments=((first, tuple(bookies)),))
        self._conformance.add(ledger, event)

    def recovering(self, ledger: LedgerId) -> RecoveryObserver:
        token = self._conformance.token(self._name)
        self._conformance.add(ledger, Event(Kind.BEGAN, token=token))
        return _Recovery(self._conformance, ledger, token)


class _Recovery(RecoveryObserver):
    """The observer of one recovery."""

    def __init__(self, conformance: Conformance, ledger: LedgerId, token: str) -> None:
        self._conformance = conformance
        self._ledger = ledger
        self._token = token

    def _add(self, kind: Kind, bookie: str, first: EntryId, last: EntryId) -> None:
        event = Event(kind, bookie, first, last, token=self._token)
        self._conformance.add(self._ledger, event)

    def started(self, lac: EntryId, everyone: Sequence[BookieId] = ()) -> None:
        asked = ((0, tuple(everyone)),) if everyone else ()
        event = Event(Kind.STARTED, "", 0, lac, asked, token=self._token)
        self._conformance.add(self._ledger, event)

    def shown(self, bookie: BookieId, entries: Sequence[Entry]) -> None:
        for first, last in ranges(each.entry for each in entries):
            self._add(Kind.SHOWN, bookie, first, last)

    def counted(self, bookie: BookieId, first: EntryId, last: EntryId) -> None:
        self._add(Kind.COUNTED, bookie, first, last)

    def closing(self, last: EntryId) -> None:
        self._add(Kind.CLOSING, "", 0, last)
