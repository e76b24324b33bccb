"""Every simulated run is held against the specification of the ledger protocol.

`Conformance` stands where `BookieWatch` stands, before it, and writes one trace per ledger: what
bookies answered, how the record changed, what its writer confirmed. At the end of a run each trace
must be a behaviour of `spec/Ledger.tla` (tests/spec/trace.py judges). A refusal is a violation
although nothing was lost yet: checkers need the harm, the specification needs one wrong step.

Answers are seen later than the effects that they tell of, so some events move:

  * an add that was answered after a fence was accepted before the fence: it stands where it began
  * an add that was never answered may be held all the same: if a recovery saw the entry, an
    ordinary add stands where it began
  * an add of a recovery stands where its entry was first seen, if that was before its answer
  * a deferred add promises nothing (S1), so its answer counts as none; what a sync names is
    durable (S2)

Not here: what a trace must be like (tests/spec/trace.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from quire.bookie import LedgerTail
from quire.entry import NO_ENTRY, EntryId, LedgerId
from quire.errors import (
    LedgerFencedError,
    LedgerRetiredError,
    NoSuchEntryError,
    NoSuchLedgerError,
)
from quire.ledger.metadata import LedgerMetadata, LedgerState
from quire.metastore.layout import LEDGERS
from quire.run import scan_run
from tests.sim.history import Violation
from tests.sim.process import Incarnation
from tests.sim.watch import BookieWatch
from tests.spec.trace import Event, Kind, Shape, judge, ranges

RECORDS: Final = {
    LedgerState.OPEN: Kind.OPENED,
    LedgerState.IN_RECOVERY: Kind.RECOVERING,
    LedgerState.CLOSED: Kind.CLOSED,
}
OF_A_COPY: Final = frozenset({Kind.ADDED, Kind.WRITTEN_BACK, Kind.SHOWN, Kind.DENIED})
OF_A_FENCE: Final = frozenset({Kind.FENCED, Kind.SHOWN, Kind.DENIED})


@dataclass(slots=True)
class _Begun:
    """An add or a sync that arrived at a bookie, and what it turned out to have done."""

    bookie: str
    kind: Kind
    entries: list[EntryId]
    fences: int
    is_answered: bool = False
    effects: list[Event] = field(default_factory=list)


class _Token(NamedTuple):
    """What a request is remembered by: the inner watch's token, and ours."""

    inner: Any
    begun: _Begun | None
    bookie: str
    method: str
    args: dict[str, Any]


class _Trace:
    """The events of one ledger, with places kept for adds that are under way."""

    def __init__(self) -> None:
        self.shape: Shape | None = None
        self._items: list[Event | _Begun] = []
        self._fences: dict[str, int] = {}
        self._last_record: Event | None = None

    def add(self, event: Event) -> None:
        self._items.append(event)
        if event.kind in OF_A_FENCE:
            self._fences[event.bookie] = self._fences.get(event.bookie, 0) + 1

    def record(self, event: Event) -> None:
        """The record was written: again, perhaps, by a change that alters nothing here."""
        if event != self._last_record:
            self._last_record = event
            self.add(event)

    def begin(self, bookie: str, kind: Kind, entries: list[EntryId]) -> _Begun:
        begun = _Begun(bookie, kind, entries, self._fences.get(bookie, 0))
        self._items.append(begun)
        return begun

    def answered(self, begun: _Begun, kind: Kind, entries: list[EntryId]) -> None:
        """Place what an answer proves: now, or where it began when a fence came between."""
        begun.is_answered = True
        effects = [Event(kind, begun.bookie, *stretch) for stretch in ranges(entries)]
        if kind is Kind.ADDED and self._fences.get(begun.bookie, 0) > begun.fences:
            begun.effects = effects
        else:
            self._items += effects

    def events(self) -> list[Event]:
        """Return the trace, with a place for each add that was never answered."""
        found: list[Event] = []
        held: set[tuple[str, EntryId]] = set()
        loose: set[tuple[str, EntryId]] = set()
        fenced: set[str] = set()
        for number, item in enumerate(self._items):
            if isinstance(item, _Begun):
                events = item.effects or self._unanswered(number, item, held, loose, fenced)
            else:
                events = [*_appeared(item, held, loose), item]
            for event in events:
                if event.kind in (Kind.ADDED, Kind.WRITTEN_BACK):
                    held.update((event.bookie, e) for e in range(event.first, event.last + 1))
                if event.kind in OF_A_FENCE or event.kind is Kind.REFUSED:
                    fenced.add(event.bookie)
            found += events
        return found

    def _unanswered(
        self,
        number: int,
        begun: _Begun,
        held: set[tuple[str, EntryId]],
        loose: set[tuple[str, EntryId]],
        fenced: set[str],
    ) -> list[Event]:
        bookie = begun.bookie
        if begun.kind is Kind.WRITTEN_BACK:  # perhaps seen before it is answered
            loose.update((bookie, entry) for entry in begun.entries)
            return []
        if begun.is_answered or bookie in fenced:
            return []
        seen = [
            entry
            for entry in begun.entries
            if (bookie, entry) not in held and self._is_shown_first(number, bookie, entry)
        ]
        return [Event(Kind.ADDED, bookie, *stretch) for stretch in ranges(seen)]

    def _is_shown_first(self, number: int, bookie: str, entry: EntryId) -> bool:
        """Whether an entry is shown by a bookie before the bookie answers for it or denies it."""
        for item in self._items[number + 1 :]:
            if isinstance(item, _Begun):
                if item.bookie == bookie and any(e.first <= entry <= e.last for e in item.effects):
                    return False
            elif (
                item.kind in OF_A_COPY
                and item.bookie == bookie
                and item.first <= entry <= item.last
            ):
                return item.kind is Kind.SHOWN
        return False


def _appeared(
    event: Event, held: set[tuple[str, EntryId]], loose: set[tuple[str, EntryId]]
) -> list[Event]:
    """What a recovery wrote back without hearing of it, placed before it is first seen."""
    if event.kind is not Kind.SHOWN:
        return []
    entries = [
        entry
        for entry in range(event.first, event.last + 1)
        if (event.bookie, entry) not in held and (event.bookie, entry) in loose
    ]
    return [Event(Kind.WRITTEN_BACK, event.bookie, *stretch) for stretch in ranges(entries)]


class Conformance:
    """See the module. Implements the network's `Watch`, in front of another one."""

    def __init__(self, inner: BookieWatch) -> None:
        self._inner = inner
        self._traces: dict[LedgerId, _Trace] = {}

    # -- what bookies answer -----------------------------------------------------------------------

    def begin(self, bookie: str, life: Incarnation, method: str, args: dict[str, Any]) -> _Token:
        inner = self._inner.begin(bookie, life, method, args)
        return _Token(inner, self._begun(bookie, method, args), bookie, method, args)

    def _begun(self, bookie: str, method: str, args: dict[str, Any]) -> _Begun | None:
        trace = self._traces.get(args.get("ledger", -1))
        if trace is None or method not in ("add", "sync"):
            return None
        if method == "sync":
            return trace.begin(bookie, Kind.ADDED, [])
        kind = Kind.WRITTEN_BACK if args["recovery"] else Kind.ADDED
        try:
            return trace.begin(bookie, kind, list(scan_run(args["run"]).entries))
        except Exception:  # a run that no bookie takes
            return None

    def end(self, token: Any, outcome: Any) -> None:
        trace = self._traces.get(token.args.get("ledger", -1))
        if trace is not None:
            self._ended(trace, token, outcome)
        self._inner.end(token.inner, outcome)

    def _ended(self, trace: _Trace, token: _Token, outcome: Any) -> None:
        if token.begun is not None:
            self._wrote(trace, token, token.begun, outcome)
        elif token.args.get("fence_key") is None:
            return
        elif token.method == "read":
            _read(trace, token, outcome)
        elif isinstance(outcome, LedgerTail) and outcome.fenced:
            trace.add(Event(Kind.FENCED, token.bookie))

    def _wrote(self, trace: _Trace, token: _Token, begun: _Begun, outcome: Any) -> None:
        if token.method == "sync":
            if isinstance(outcome, list):
                named = [entry for first, last in outcome for entry in range(first, last + 1)]
                trace.answered(begun, Kind.ADDED, named)
        elif isinstance(outcome, LedgerFencedError):
            trace.answered(begun, Kind.REFUSED, begun.entries)
        elif outcome is None and not token.args.get("deferred"):
            trace.answered(begun, begun.kind, begun.entries)

    # -- what the record says ----------------------------------------------------------------------

    def changed(self, path: str, value: bytes | None, version: int) -> None:
        """Listener of the tree of the metadata store."""
        if not path.startswith(LEDGERS + "/") or path.count("/") < 4:
            return
        if value is None:
            ledger = int(path.rpartition("/")[2])
            if ledger in self._traces:
                self._traces[ledger].record(Event(Kind.DELETED))
        elif value:
            self._recorded(LedgerMetadata.decode(path, value))

    def _recorded(self, metadata: LedgerMetadata) -> None:
        trace = self._traces.setdefault(metadata.ledger, _Trace())
        quorums = metadata.replication
        trace.shape = Shape(quorums.ensemble, quorums.write_quorum, quorums.ack_quorum)
        last = NO_ENTRY if metadata.last_entry is None else metadata.last_entry
        fragments = tuple((each.first, tuple(each.bookies)) for each in metadata.fragments)
        trace.record(Event(RECORDS[metadata.state], "", 0, last, fragments))

    def confirmed(self, ledger: LedgerId, entry: EntryId) -> None:
        """The writer of a ledger holds an entry confirmed."""
        if ledger in self._traces:
            self._traces[ledger].add(Event(Kind.CONFIRMED, "", entry, entry))

    # -- the verdict -------------------------------------------------------------------------------

    def traces(self) -> dict[LedgerId, tuple[Shape, list[Event]]]:
        """Return the trace of every ledger."""
        return {
            ledger: (trace.shape, trace.events())
            for ledger, trace in sorted(self._traces.items())
            if trace.shape is not None
        }

    def refusal(self) -> Violation | None:
        """Return the first refusal of the specification, as the violation of a run."""
        for ledger, (shape, events) in self.traces().items():
            found = judge(shape, events)
            if found is not None:
                text = f"ledger {ledger}: {found}"
                return Violation("a trace is a behaviour of the specification", text)
        return None


def _read(trace: _Trace, token: _Token, outcome: Any) -> None:
    first, last = token.args["first"], token.args["last"]
    if isinstance(outcome, LedgerRetiredError):
        return  # it denies no entry (B11)
    if isinstance(outcome, NoSuchEntryError | NoSuchLedgerError):
        trace.add(Event(Kind.DENIED, token.bookie, first, last))
    elif isinstance(outcome, bytes):
        for stretch in ranges(scan_run(outcome).entries):
            trace.add(Event(Kind.SHOWN, token.bookie, *stretch))
