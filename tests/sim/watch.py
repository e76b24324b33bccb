"""Watching the servers while they work: bookies at their doors, the metadata store at its tree.

`BookieWatch` stands where requests reach a bookie and answers leave it, outlives the bookie's
processes, and checks what the port promises:

  B1  a fence is for ever, through restarts        B2, B3  an acknowledged entry is never denied
  B4  a bookie's LAC never falls in one life       B5  a ledger's first key is its key
  B6  no ordinary add that begins after a fence was answered is accepted

`MetadataWatch` checks every change of a ledger's record: M1 (forward only, CLOSED never changes),
L5 (fragments stay in order, only the last one changes), W5 (in recovery not even that one), L3 for
what writers hold confirmed: each such entry is on Qa bookies of the ensemble that metadata names,
at every moment; H6: and in enough domains, where acks count them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from quire.bookie import LedgerTail, read_denial
from quire.entry import HEADER, NO_ENTRY, BookieId, EntryId, LedgerId
from quire.errors import NoSuchEntryError, NoSuchLedgerError, ReadOnlyBookieError
from quire.labels import Domain
from quire.ledger.metadata import LedgerMetadata, LedgerState
from quire.metastore.layout import LEDGERS
from quire.run import scan_run
from quire.testing.sim.process import Incarnation
from tests.sim.history import Violation, require

Report = Callable[[Violation], None]


@lru_cache(maxsize=16)
def decoded(path: str, value: bytes) -> LedgerMetadata:
    """Return the record of a ledger, decoded once for all listeners of the tree."""
    return LedgerMetadata.decode(path, value)


class _LedgerAtBookie:
    """What one bookie has promised about one ledger."""

    def __init__(self) -> None:
        self.acked: set[EntryId] = set()
        self.acked_max = NO_ENTRY
        self.fenced = False
        self.key: bytes | None = None
        self.hint: dict[Incarnation, EntryId] = {}


@dataclass(slots=True)
class _Request:
    bookie: str
    life: Incarnation
    method: str
    args: dict[str, Any]
    state: _LedgerAtBookie | None
    fenced: bool
    acked_max: EntryId
    missing: frozenset[EntryId]
    hint: EntryId
    in_limbo: bool = False
    barred: bool = False
    left: bool = False


def _nobody(bookie: BookieId, ledger: LedgerId, entry: EntryId) -> bool:
    return False


def _never(bookie: BookieId, ledger: LedgerId) -> bool:
    return False


def _unheard_add(ledger: LedgerId) -> None:
    return None


class BookieWatch:
    """See the module. Implements the network's `Watch`."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._states: dict[tuple[str, LedgerId], _LedgerAtBookie] = defaultdict(_LedgerAtBookie)
        self._deleted: set[LedgerId] = set()
        self._barred: set[tuple[str, LedgerId]] = set()
        """Bookies that fenced a ledger before it was deleted."""
        self.is_excused: Callable[[BookieId, LedgerId, EntryId], bool] = _nobody
        """Whether a bookie need not hold an entry any more that it vouched for."""
        self.is_in_limbo: Callable[[BookieId, LedgerId], bool] = _never
        self.has_left: Callable[[BookieId, LedgerId], bool] = _never
        """Whether a bookie takes no entries of a ledger because an operator wishes so."""
        self.on_add: Callable[[LedgerId], None] = _unheard_add
        """Told that an ordinary add has come to a bookie."""
        """Whether a bookie may have lost something of a ledger, and says so."""

    def acked(self, bookie: BookieId, ledger: LedgerId) -> set[EntryId]:
        """The entries a bookie has acknowledged."""
        return self._states[bookie, ledger].acked

    def forget(self, ledger: LedgerId) -> None:
        """The ledger was deleted: bookies may drop it whenever they like, entries, LAC and key. The
        fence stays.
        """
        self._deleted.add(ledger)
        for key in [each for each in self._states if each[1] == ledger]:
            if self._states.pop(key).fenced:
                self._barred.add(key)

    def remember(self, ledger: LedgerId) -> None:
        """The ledger has a record. If it was forgotten with the store's, its writer has created it
        again, and what bookies acknowledge from now on counts.
        """
        self._deleted.discard(ledger)

    def disowned(self, bookie: BookieId, ledger: LedgerId) -> None:
        """A bookie gave a ledger up: it may answer that it did. The fence stays, and the key."""
        state = self._states[bookie, ledger]
        state.acked.clear()
        state.acked_max = NO_ENTRY
        state.hint.clear()
        # Answers under way tell of the time before, and are put down there.
        after = self._states[bookie, ledger] = _LedgerAtBookie()
        after.fenced, after.key = state.fenced, state.key

    def begin(self, bookie: str, life: Incarnation, method: str, args: dict[str, Any]) -> _Request:
        ledger = args.get("ledger")
        state = None if ledger is None else self._states[bookie, ledger]
        if method == "add" and not args["recovery"]:
            self.on_add(args["ledger"])
        if state is None:
            return _Request(bookie, life, method, args, None, False, -1, frozenset(), -1)
        expected: frozenset[EntryId] = frozenset()
        if method == "read":
            first, last = args["first"], args["last"]
            expected = frozenset(entry for entry in state.acked if first <= entry <= last)
        hint = state.hint.get(life, NO_ENTRY)
        in_limbo = self.is_in_limbo(bookie, args["ledger"])
        barred = (bookie, args["ledger"]) in self._barred
        return _Request(
            *(bookie, life, method, args, state, state.fenced, state.acked_max, expected, hint),
            *(in_limbo, barred, self.has_left(bookie, args["ledger"])),
        )

    def end(self, token: Any, outcome: Any) -> None:
        request: _Request = token
        try:
            self._obeyed(request, outcome)
            if request.args.get("ledger") in self._deleted:
                self._outlived(request, outcome)
            elif request.method == "add":
                self._added(request, outcome)
            elif request.method == "sync":
                self._synced(request, outcome)
            elif request.method == "list_entries":
                self._listed(request, outcome)
            elif request.method == "read":
                self._read(request, outcome)
            elif isinstance(outcome, LedgerTail):
                self._tail(request, outcome)
        except Violation as violation:
            self._report(violation)

    def _obeyed(self, request: _Request, outcome: Any) -> None:
        """A wish of an operator keeps ordinary entries away, and nothing else."""
        is_ordinary = request.method == "add" and not request.args["recovery"]
        require(
            not (is_ordinary and request.left and outcome is None),
            "B15 a bookie off duty takes no entries",
            f"{request.life} accepted an ordinary add to ledger {request.args.get('ledger')}",
        )
        require(
            is_ordinary
            or request.method in ("write_lac", "sync")  # refused by a ledger in limbo
            or not isinstance(outcome, ReadOnlyBookieError),
            "B15 a bookie off duty denies nothing",
            f"{request.life} answers {request.method}: {outcome}",
        )

    def _outlived(self, request: _Request, outcome: Any) -> None:
        """What a bookie answered about a ledger that was deleted."""
        ledger = request.args["ledger"]
        is_ack = request.method == "add" and outcome is None and not request.args["recovery"]
        require(
            not is_ack or not request.barred,
            "H8 a fence outlives its ledger",
            f"{request.life} accepted an ordinary add to ledger {ledger}, which was deleted, after "
            "it had answered a fence",
        )

    def _added(self, request: _Request, outcome: Any) -> None:
        state = request.state
        assert state is not None
        if outcome is not None:
            return
        where = f"{request.life} ledger {request.args['ledger']}"
        require(
            request.args["recovery"] or not request.fenced,
            "B6 no add after a fence",
            f"{where} accepted an ordinary add that began after it had answered a fence",
        )
        self._check_key(request, request.args["key"])
        if not request.args.get("deferred"):
            self._vouched(state, scan_run(request.args["run"]).entries)

    def _synced(self, request: _Request, outcome: Any) -> None:
        """What a sync names is as good as acknowledged; deferred adds alone promise nothing."""
        state = request.state
        if state is None or isinstance(outcome, BaseException) or not isinstance(outcome, list):
            return
        require(
            not request.fenced,
            "B6 no add after a fence",
            f"{request.life} vouched for ledger {request.args['ledger']} after a fence",
        )
        for first, last in outcome:
            self._vouched(state, range(first, last + 1))

    def _listed(self, request: _Request, outcome: Any) -> None:
        """What a bookie lists it holds: completing a ledger counts on such copies."""
        if request.state is not None and isinstance(outcome, list):
            for first, last in outcome:
                self._vouched(request.state, range(first, last + 1))

    def _vouched(self, state: _LedgerAtBookie, entries: Sequence[EntryId]) -> None:
        state.acked.update(entries)
        state.acked_max = max(state.acked_max, entries[-1])

    def _read(self, request: _Request, outcome: Any) -> None:
        state, args = request.state, request.args
        assert state is not None
        where = f"{request.life} ledger {args['ledger']}"
        if isinstance(outcome, NoSuchEntryError | NoSuchLedgerError):
            reach = read_denial(outcome, args["first"], args["last"])
            reached = {e for e in request.missing & state.acked if e <= reach.through}
            denied = self._demanded(request, reached)
            require(
                not denied,
                "B3 acknowledged entries are not denied",
                f"{where} says {type(outcome).__name__} but had acknowledged {sorted(denied)}",
            )
        elif isinstance(outcome, bytes):
            held = set(scan_run(outcome).entries)
            skipped = {e for e in request.missing & state.acked if e < max(held)} - held
            # A gap denies nothing in limbo: who wants to know asks for one entry alone.
            skipped = set() if request.in_limbo else self._demanded(request, skipped)
            require(
                not skipped,
                "B3 acknowledged entries are not denied",
                f"{where} answered {sorted(held)} and left out {sorted(skipped)}",
            )
        else:
            return
        if args["fence_key"] is not None:
            self._fenced(request)

    def _tail(self, request: _Request, tail: LedgerTail) -> None:
        state = request.state
        assert state is not None
        where = f"{request.life} ledger {request.args['ledger']}"
        require(
            tail.fenced or not request.fenced,
            "B1 a fence is for ever",
            f"{where} had answered a fence and is not fenced",
        )
        highest = NO_ENTRY if tail.frame is None else int(HEADER.unpack_from(tail.frame)[1])
        vouched = min(request.acked_max, state.acked_max)
        above = {entry for entry in state.acked if highest < entry <= vouched}
        require(
            highest >= vouched or not self._demanded(request, above),
            "B3 acknowledged entries are not denied",
            f"{where} shows {highest} as its highest entry, had acknowledged {request.acked_max}",
        )
        # Both are as high as they were unless the bookie gave the ledger up meanwhile.
        hint = min(request.hint, state.hint.get(request.life, NO_ENTRY))
        require(
            tail.hint >= hint,
            "B4 LAC never falls",
            f"{where} hints {tail.hint} after {hint}",
        )
        state.hint[request.life] = max(tail.hint, state.hint.get(request.life, NO_ENTRY))
        if request.args.get("fence_key") is not None:
            self._fenced(request)

    def vouch(self, bookie: BookieId, ledger: LedgerId, entries: Collection[EntryId]) -> None:
        """A record names a bookie for entries of a closed ledger: it holds them and is fenced."""
        state = self._states[bookie, ledger]
        state.fenced = True
        if entries:
            self._vouched(state, sorted(entries))

    def check_fence(self, bookie: BookieId, ledger: LedgerId, tail: LedgerTail) -> None:
        """B1 at the end of a run, of a bookie that was asked itself. Raises `Violation`."""
        require(
            tail.fenced or not self._states[bookie, ledger].fenced,
            "B1 a fence is for ever",
            f"{bookie} had answered a fence of ledger {ledger} and is not fenced",
        )

    def _demanded(self, request: _Request, entries: Iterable[EntryId]) -> set[EntryId]:
        """Return those of some entries that a bookie must still have."""
        ledger = request.args["ledger"]
        return {e for e in entries if not self.is_excused(request.bookie, ledger, e)}

    def _fenced(self, request: _Request) -> None:
        assert request.state is not None
        self._check_key(request, request.args["fence_key"])
        request.state.fenced = True

    def _check_key(self, request: _Request, key: bytes) -> None:
        state = request.state
        assert state is not None
        require(
            state.key is None or state.key == key,
            "B5 the first key is the key",
            f"{request.life} took another key for ledger {request.args['ledger']}",
        )
        state.key = key


class MetadataWatch:
    """See the module."""

    def __init__(self, bookies: BookieWatch, report: Report) -> None:
        self._bookies = bookies
        self._report = report
        self.current: dict[LedgerId, LedgerMetadata] = {}
        self._older: set[LedgerId] = set()
        """Ledgers whose record may be older than they are."""
        self._gone: dict[LedgerId, LedgerMetadata] = {}
        """Ledgers that were deleted, as they were last."""
        self.confirmed: dict[LedgerId, list[EntryId]] = defaultdict(list)
        self.counters: Counter[str] = Counter()
        self.has_repairs = False
        """Somebody re-replicates: then the record of a closed ledger may change its bookies."""

    def put_back(self, records: Iterable[LedgerMetadata]) -> None:
        """The store holds these records of a former day, and no others.

        What was acknowledged stays promised. Until such a ledger is closed, its record need not
        name the bookies that hold it (docs/protocol.md, I2).
        """
        self.current = {each.ledger: each for each in records}
        self._older = {ledger for ledger, each in self.current.items() if not each.is_closed}
        for ledger in set(self.confirmed) - set(self.current):
            del self.confirmed[ledger]

    def changed(self, path: str, value: bytes | None, version: int) -> None:
        """Listener of the tree."""
        if not path.startswith(LEDGERS + "/") or path.count("/") < 4:
            return
        try:
            if value is None:
                ledger = int(path.rpartition("/")[2])
                self._bookies.forget(ledger)
                if (gone := self.current.pop(ledger, None)) is not None:
                    self._gone[ledger] = gone
                self.confirmed.pop(ledger, None)
            elif value:
                self._check(decoded(path, value))
        except Violation as violation:
            self._report(violation)

    def _check(self, after: LedgerMetadata) -> None:
        before = self.current.get(after.ledger)
        if before is not None:
            require(
                self.has_repairs or not before.is_closed,
                "M1 closed is final",
                f"ledger {after.ledger} was closed at {before.last_entry}, and its record was "
                f"written again: {before.fragments} became {after.fragments}",
            )
            check_step(before, after)
            self._count(before, after)
        self.current[after.ledger] = after
        if after.is_closed:
            last = max(self.confirmed[after.ledger], default=NO_ENTRY)
            assert after.last_entry is not None
            require(
                last <= after.last_entry,
                "L1 no acknowledged entry is cut off",
                f"ledger {after.ledger} was closed at {after.last_entry}, {last} was acknowledged",
            )
        for entry in self.confirmed[after.ledger]:
            self._check_copies(after, entry)

    def _count(self, before: LedgerMetadata, after: LedgerMetadata) -> None:
        """Count what happened: a campaign in which nothing did proves nothing."""
        if before.state != after.state:
            self.counters[f"ledger {before.state} → {after.state}"] += 1
        if len(after.fragments) > len(before.fragments):
            self.counters[f"fragment begun while {before.state}"] += 1
        elif after.fragments != before.fragments:
            self.counters[f"fragment replaced while {before.state}"] += 1

    def confirm(self, ledger: LedgerId, entry: EntryId) -> None:
        """A writer holds the entry confirmed."""
        metadata = self.current.get(ledger)
        try:
            if metadata is None:
                self._check_gone(ledger, entry)
                return
            if metadata.is_closed:
                assert metadata.last_entry is not None
                require(
                    entry <= metadata.last_entry,
                    "L1 no acknowledged entry is cut off",
                    f"entry {entry} of ledger {ledger} was acknowledged after the ledger was "
                    f"closed at {metadata.last_entry}",
                )
            self.confirmed[ledger].append(entry)
            self._check_copies(metadata, entry)
        except Violation as violation:
            self._report(violation)

    def _check_gone(self, ledger: LedgerId, entry: EntryId) -> None:
        """A writer holds an entry of a deleted ledger confirmed: it ended there, or before."""
        gone = self._gone.get(ledger)
        end = None if gone is None else gone.last_entry
        require(
            end is None or entry <= end,
            "H8 a deleted ledger acknowledges nothing",
            f"entry {entry} of ledger {ledger} was acknowledged after the ledger was closed at "
            f"{end} and deleted",
        )

    def _check_copies(self, metadata: LedgerMetadata, entry: EntryId) -> None:
        ledger = metadata.ledger
        if ledger in self._older and not metadata.is_closed:
            return
        write_set = metadata.write_set(entry)
        copies = [each for each in write_set if entry in self._bookies.acked(each, ledger)]
        require(
            len(copies) >= metadata.replication.ack_quorum,
            "L3 acknowledged entries reach the ack quorum",
            f"entry {entry} of ledger {ledger} is acknowledged; of its write set {write_set} "
            f"only {copies} have it",
        )
        durable = metadata.placement.durable
        if durable is not None:
            domains = domains_held(metadata, entry, copies)
            require(
                len(domains) >= durable.domains,
                "H6 acknowledged entries are in enough domains",
                f"entry {entry} of ledger {ledger} is acknowledged with copies on {copies}, which "
                f"are in {sorted(domains)}",
            )


def domains_held(
    metadata: LedgerMetadata, entry: EntryId, holders: Collection[BookieId]
) -> set[Domain]:
    """The domains of the holders of an entry, by the labels that its fragment froze."""
    durable = metadata.placement.durable
    assert durable is not None
    fragment = metadata.fragment_of(entry)
    return {
        fragment.labels[position].domain(durable.level)
        for position in metadata.replication.write_set(entry)
        if fragment.bookies[position] in holders
    }


def check_step(before: LedgerMetadata, after: LedgerMetadata) -> None:
    """Raise `Violation` unless a ledger's record may change like this."""
    order = list(LedgerState)
    require(
        order.index(after.state) >= order.index(before.state),
        "M1 states go forward",
        f"ledger {after.ledger} went from {before.state} to {after.state}",
    )
    if before.is_closed:
        require(
            (after.last_entry, after.length) == (before.last_entry, before.length),
            "M1 closed is final",
            f"ledger {after.ledger} was closed at {before.last_entry} and is now closed at "
            f"{after.last_entry}",
        )
    _check_fragments(before, after)


def _check_fragments(before: LedgerMetadata, after: LedgerMetadata) -> None:
    olds, news = before.fragments, after.fragments
    firsts = [fragment.first for fragment in olds]
    kept = [fragment.first for fragment in news[: len(olds)]]
    require(
        kept == firsts,
        "L5 only valid fragments",
        f"fragments of ledger {after.ledger} started at {firsts}, now at "
        f"{[fragment.first for fragment in news]}",
    )
    require(
        after.state is not LedgerState.IN_RECOVERY
        or (len(olds), olds[-1]) == (len(news), news[-1]),
        "W5 nobody writes on in recovery",
        f"in recovery the growing fragment of ledger {after.ledger}, {olds[-1]}, became {news[-1]}",
    )
