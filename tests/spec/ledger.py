"""`spec/Ledger.tla` in Python, action by action.

The names of actions, variables and safeguards are those of the module; read the module for what
they mean. Both give the same numbers of states at the same bounds (`test_model.py`, `make tlc`): a
change of one without the other changes a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations, pairwise, permutations
from typing import Final, NamedTuple, TypeVar

SAFEGUARDS: Final = (
    "ReadsFence",
    "FenceDurable",
    "RetiresIds",
    "RetiredIsNotAbsent",
    "DeleteCloses",
    "ResendsUnanswered",
    "DropsOlder",
    "WaitsForAdopt",
    "CreatesAdopted",
    "AdoptSkips",
    "AsksAll",
    "CasFirst",
    "ReplacedForgotten",
    "AbsentIsCovered",
    "FenceIsCovered",
    "WritesBack",
    "ChangesInMemory",
    "CloseIsCas",
)

T = TypeVar("T")

Ensemble = tuple[int, ...]
Fragments = tuple[tuple[int, Ensemble], ...]
Table = tuple[tuple[tuple[int, ...], ...], ...]
Pairs = frozenset[tuple[int, int]]
EMPTY: Final[frozenset[int]] = frozenset()


@dataclass(frozen=True)
class Bounds:
    """How much of everything there is: bookies, recoverers, replication, entries, changes."""

    bookies: int = 3
    recoverers: int = 1
    ensemble: int = 3
    write_quorum: int = 3
    ack_quorum: int = 2
    entries: int = 1
    changes: int = 0
    can_delete: bool = False
    can_forget: bool = False
    can_revive: bool = False
    can_resend: bool = False


class Meta(NamedTuple):
    state: str = "NONE"
    frags: Fragments = ()
    last: int = 0
    ver: int = 0
    inc: int = 0


class Inc(NamedTuple):
    now: int = 1
    adopted: bool = True


class Writer(NamedTuple):
    on: bool = False
    unk: bool = False
    frags: Fragments = ()
    ver: int = 0
    lap: int = 0
    lac: int = 0
    ch: int = 0


class Recoverer(NamedTuple):
    ph: str = "idle"
    ver: int = 0
    read: Fragments = ()
    frags: Fragments = ()
    next: int = 0
    no: frozenset[int] = EMPTY
    val: int = 0
    got: frozenset[int] = EMPTY
    ch: int = 0
    all: bool = False


class State(NamedTuple):
    meta: Meta
    id: int
    gen: int
    next: int
    inc: Inc
    copy: Table
    fenced: tuple[frozenset[int], ...]
    retired: tuple[frozenset[int], ...]
    sent: Pairs
    okd: Pairs
    late: frozenset[int]
    w: Writer
    r: tuple[Recoverer, ...]
    ends: frozenset[int]


class LedgerModel:
    """The specification at some bounds, with some safeguards removed."""

    def __init__(self, bounds: Bounds, removed: Iterable[str] = ()) -> None:
        unknown = set(removed) - set(SAFEGUARDS)
        if unknown:
            raise ValueError(f"no such safeguard: {', '.join(sorted(unknown))}")
        self.bounds = bounds
        self.has = {name: name not in set(removed) for name in SAFEGUARDS}
        self.bookies = range(1, bounds.bookies + 1)
        self.entries = range(1, bounds.entries + 1)
        self.cover = bounds.write_quorum - bounds.ack_quorum + 1
        self.start = tuple(range(1, bounds.ensemble + 1))
        striped = bounds.ensemble != bounds.write_quorum
        choose = permutations if striped else combinations
        self.ensembles = [tuple(each) for each in choose(self.bookies, bounds.ensemble)]
        self.one_other = cache(_positions_changed if striped else _members_changed)
        self.write_set = cache(self._write_set)
        self.first = self._first()

    def _first(self) -> State:
        bounds = self.bounds
        row = ((0,) * bounds.entries,) * bounds.bookies
        return State(
            *(Meta(), 0, 0, 1, Inc()),
            copy=(row, row),
            fenced=(EMPTY, EMPTY),
            retired=(EMPTY,) * bounds.bookies,
            sent=frozenset(),
            okd=frozenset(),
            late=EMPTY,
            w=Writer(),
            r=(Recoverer(),) * bounds.recoverers,
            ends=frozenset(),
        )

    def _write_set(self, frags: Fragments, entry: int) -> frozenset[int]:
        ens = max(frag for frag in frags if frag[0] <= entry)[1]
        size = self.bounds.ensemble
        return frozenset(ens[(entry - 1 + i) % size] for i in range(self.bounds.write_quorum))

    def canonical(self, state: State) -> State:
        """Recoverers are interchangeable."""
        if len(state.r) < 2:
            return state
        return state._replace(r=tuple(sorted(state.r, key=repr)))

    def following(self, state: State) -> Iterator[State]:
        may_create = state.inc.adopted or not self.has["CreatesAdopted"]
        if state.meta.state == "NONE" and state.gen < 2 and state.next <= 2 and may_create:
            yield from self._created(state)
        yield from self._sent_again(state)
        if state.w.on:
            yield from self._writer(state)
        yield from self._adds(state)
        for x in range(len(state.r)):
            yield from self._recoverer(state, x)
        yield from self._bookies(state)
        yield from self._operator(state)

    def serves(self, state: State) -> bool:
        return state.inc.adopted or not self.has["WaitsForAdopt"]

    def _created(self, s: State) -> Iterator[State]:
        meta = Meta("OPEN", ((1, self.start),), 0, 1, s.inc.now)
        made = s._replace(
            meta=meta,
            id=s.next,
            gen=s.gen + 1,
            next=s.next + 1,
            sent=frozenset(),
            okd=frozenset(),
            late=EMPTY,
        )
        yield made._replace(w=_writer_of(meta))
        if self.bounds.can_resend:
            yield made._replace(w=Writer(unk=True))

    def _sent_again(self, s: State) -> Iterator[State]:
        if s.w.unk and s.meta.state in ("OPEN", "IN_RECOVERY", "CLOSED"):  # FindOwn
            yield s._replace(w=_writer_of(s.meta))
        may = s.w.unk or (self.bounds.can_resend and not self.has["ResendsUnanswered"])
        if s.meta.state == "DELETED" and may:
            meta = Meta("OPEN", ((1, self.start),), 0, 1, s.meta.inc)
            late = s.fenced[s.id - 1] if self.has["DropsOlder"] else frozenset(self.bookies)
            again = s._replace(meta=meta, late=late)
            yield again._replace(w=_writer_of(meta), ends=EMPTY) if s.w.unk else again

    # -- the writer ------------------------------------------------------------------------------

    def _writer(self, s: State) -> Iterator[State]:
        w, meta = s.w, s.meta
        if w.lap < self.bounds.entries:
            added = {(b, w.lap + 1) for b in self.write_set(w.frags, w.lap + 1)}
            yield s._replace(w=w._replace(lap=w.lap + 1), sent=s.sent | added)
        if w.lac < w.lap:
            among = self.write_set(w.frags, w.lac + 1)
            counted = among if self.has["ReplacedForgotten"] else self.bookies
            if sum((b, w.lac + 1) in s.okd for b in counted) >= self.bounds.ack_quorum:
                yield s._replace(w=w._replace(lac=w.lac + 1))
        if w.ch < self.bounds.changes:
            yield from self._changes(s)
        if meta.state == "OPEN" and meta.ver == w.ver:
            closed = meta._replace(state="CLOSED", last=w.lac, ver=meta.ver + 1)
            yield s._replace(meta=closed, w=w._replace(on=False), ends=s.ends | {w.lac})

    def _changes(self, s: State) -> Iterator[State]:
        w, meta = s.w, s.meta
        cas = self.has["CasFirst"]
        if cas and not (meta.state == "OPEN" and meta.ver == w.ver):
            return
        for ens in self.ensembles:
            if not self.one_other(w.frags[-1][1], ens):
                continue
            frags = _changed(w.frags, w.lac + 1, ens)
            after = meta._replace(frags=frags, ver=meta.ver + 1) if cas else meta
            again = {(b, e) for e in range(w.lac + 1, w.lap + 1) for b in self.write_set(frags, e)}
            writer = w._replace(frags=frags, ver=after.ver, ch=w.ch + 1)
            yield s._replace(meta=after, w=writer, sent=s.sent | again)

    def _adds(self, s: State) -> Iterator[State]:
        if not self.serves(s):
            return
        for b, e in s.sent - s.okd:
            if b not in s.fenced[s.id - 1] and s.id not in s.retired[b - 1]:
                yield s._replace(copy=_put(s.copy, s.id, b, e, s.gen), okd=s.okd | {(b, e)})

    # -- recoverers ------------------------------------------------------------------------------

    def _recoverer(self, s: State, x: int) -> Iterator[State]:
        c = s.r[x]
        if c.ph == "idle":
            if s.meta.state in ("OPEN", "IN_RECOVERY") and self.serves(s):
                yield self._begun(s, x)
        elif c.ph != "done":
            fence = s.fenced[s.id - 1]
            for b in c.read[-1][1]:
                if b not in fence and s.id not in s.retired[b - 1]:
                    yield s._replace(fenced=_with(s.fenced, s.id, fence | {b}))
            if c.ph == "fence":
                yield from self._started(s, x)
            elif c.val:
                yield from self._written_back(s, x)
            else:
                yield from self._read(s, x)

    def _begun(self, s: State, x: int) -> State:
        meta = s.meta
        if meta.state == "OPEN":
            meta = meta._replace(state="IN_RECOVERY", ver=meta.ver + 1)
        everywhere = self.has["AsksAll"] and meta.inc < s.inc.now
        c = Recoverer("fence", meta.ver, meta.frags, meta.frags, all=everywhere)
        return _to(s, x, c)._replace(meta=meta)

    def _answered(self, s: State, b: int) -> bool:
        retired = not self.has["RetiredIsNotAbsent"] and s.id in s.retired[b - 1]
        return b in s.fenced[s.id - 1] or retired

    def _started(self, s: State, x: int) -> Iterator[State]:
        c = s.r[x]
        first, ens = c.read[-1]
        need = self.cover if self.has["FenceIsCovered"] else 1
        size, quorum = self.bounds.ensemble, self.bounds.write_quorum
        for e in range(size) if not c.all else ():
            answered = sum(self._answered(s, ens[(e + i) % size]) for i in range(quorum))
            if answered < need:
                return
        for lac in range(s.w.lac + 1):
            begin = first if c.all or lac < first else lac + 1
            yield _to(s, x, c._replace(ph="read", next=begin))

    def _read(self, s: State, x: int) -> Iterator[State]:
        c = s.r[x]
        if c.next <= self.bounds.entries:
            asked = self.bookies if c.all else self.write_set(c.read, c.next)
            for b in asked:
                yield from self._asked(s, x, b)
        wanted = self.cover if self.has["AbsentIsCovered"] else 1
        denials = self.bounds.bookies - self.bounds.ack_quorum + 1 if c.all else wanted
        if c.next > self.bounds.entries or len(c.no) >= denials:
            yield from self._closed(s, x)

    def _asked(self, s: State, x: int, b: int) -> Iterator[State]:
        c = s.r[x]
        is_retired = s.id in s.retired[b - 1]
        found = s.copy[s.id - 1][b - 1][c.next - 1]
        fenced = s.fenced
        if self.has["ReadsFence"] and not is_retired:
            fenced = _with(fenced, s.id, fenced[s.id - 1] | {b})
        if found and not is_retired:
            c = c._replace(val=found, no=EMPTY, got=EMPTY)
        elif not found and b not in c.no and not (is_retired and self.has["RetiredIsNotAbsent"]):
            c = c._replace(no=c.no | {b})
        else:
            return
        yield _to(s, x, c)._replace(fenced=fenced)

    def _closed(self, s: State, x: int) -> Iterator[State]:
        c, meta = s.r[x], s.meta
        if self.has["CloseIsCas"]:
            may = meta.state == "IN_RECOVERY" and meta.ver == c.ver
        else:
            may = meta.state in ("IN_RECOVERY", "CLOSED")
        if may:
            closed = Meta("CLOSED", c.frags, c.next - 1, meta.ver + 1, meta.inc)
            ends = s.ends | {c.next - 1}
            yield _to(s, x, Recoverer("done"))._replace(meta=closed, ends=ends)

    def _written_back(self, s: State, x: int) -> Iterator[State]:
        c, meta = s.r[x], s.meta
        targets = self.write_set(c.frags, c.next)
        for b in targets - c.got:
            if s.id not in s.retired[b - 1]:
                copy = _put(s.copy, s.id, b, c.next, c.val)
                yield _to(s, x, c._replace(got=c.got | {b}))._replace(copy=copy)
        if not self.has["WritesBack"] or len(c.got & targets) >= self.bounds.ack_quorum:
            yield _to(s, x, c._replace(next=c.next + 1, val=0, got=EMPTY, no=EMPTY))
        memory = self.has["ChangesInMemory"]
        may = memory or (meta.state == "IN_RECOVERY" and meta.ver == c.ver)
        if c.ch >= self.bounds.changes or not may:
            return
        for ens in self.ensembles:
            if self.one_other(c.frags[-1][1], ens):
                frags = _changed(c.frags, c.next, ens)
                ver = c.ver if memory else c.ver + 1
                after = meta if memory else meta._replace(frags=frags, ver=meta.ver + 1)
                yield _to(s, x, c._replace(frags=frags, ch=c.ch + 1, ver=ver))._replace(meta=after)

    # -- bookies, deletion, the operator -----------------------------------------------------------

    def _bookies(self, s: State) -> Iterator[State]:
        for b in self.bookies:
            fence = s.fenced[s.id - 1] if s.id else EMPTY
            if not self.has["FenceDurable"] and b in fence:
                yield s._replace(fenced=_with(s.fenced, s.id, fence - {b}))
            may_collect = s.meta.state == "DELETED" or b in s.late
            if may_collect and s.id not in s.retired[b - 1]:
                empty = (0,) * self.bounds.entries
                row = _with(s.copy[s.id - 1], b, empty)
                retired = s.retired
                if self.has["RetiresIds"]:
                    retired = _with(retired, b, retired[b - 1] | {s.id})
                yield s._replace(
                    copy=_with(s.copy, s.id, row),
                    fenced=_with(s.fenced, s.id, fence - {b}),
                    retired=retired,
                    late=s.late - {b},
                )

    def _operator(self, s: State) -> Iterator[State]:
        meta, bounds = s.meta, self.bounds
        may_be_open = s.w.unk or not self.has["DeleteCloses"]
        is_deletable = meta.state == "CLOSED" or (meta.state == "OPEN" and may_be_open)
        if bounds.can_delete and is_deletable:
            ends = s.ends | {s.w.lac} if meta.state == "OPEN" else s.ends
            yield s._replace(meta=meta._replace(state="DELETED", ver=meta.ver + 1), ends=ends)
        if s.inc.now == 1 and meta.state != "NONE":
            idle = (Recoverer(),) * len(s.r)
            back = s._replace(inc=Inc(2, False), r=idle, ends=frozenset())
            if bounds.can_forget:
                none: Pairs = frozenset()
                gone = back._replace(meta=Meta(), next=1, w=Writer())
                yield gone._replace(sent=none, okd=none, late=EMPTY)
            if bounds.can_revive:
                yield back._replace(meta=Meta("OPEN", ((1, self.start),), 0, 1, 1))
        if s.inc == Inc(2, False):
            lifted = s.id + 1 if self.has["AdoptSkips"] and s.next <= s.id else s.next
            yield s._replace(inc=Inc(2, True), next=lifted)

    # -- the promises ------------------------------------------------------------------------------

    def broken(self, s: State) -> str | None:
        meta = s.meta
        if any(s.w.lac > end for end in s.ends):
            return "L1"
        if len(s.ends) > 1:
            return "M1"
        recorded = meta.state in ("OPEN", "IN_RECOVERY", "CLOSED") and self.has["CasFirst"]
        is_present = recorded and meta.inc == s.inc.now
        if is_present and not all(self._held(s, e) for e in range(1, s.w.lac + 1)):
            return "L2"
        if meta.state == "CLOSED":
            held = [self._held(s, e) for e in range(1, meta.last + 1)]
            is_collected = any(s.id in ids for ids in s.retired)
            if not is_collected and any(len(each) < self.bounds.ack_quorum for each in held):
                return "L3"
            if any(found != s.gen for each in held for found in each):
                return "L4"
        firsts = [first for first, _ in meta.frags]
        return "L5" if any(a >= b for a, b in pairwise(firsts)) else None

    def _held(self, s: State, entry: int) -> list[int]:
        rows = s.copy[s.id - 1]
        found = [rows[b - 1][entry - 1] for b in self.write_set(s.meta.frags, entry)]
        return [each for each in found if each]


def _writer_of(meta: Meta) -> Writer:
    return Writer(on=True, frags=meta.frags, ver=meta.ver)


def _changed(frags: Fragments, first: int, ens: Ensemble) -> Fragments:
    kept = frags[:-1] if frags[-1][0] == first else frags
    return (*kept, (first, ens))


def _members_changed(old: Ensemble, new: Ensemble) -> bool:
    return len(set(old) - set(new)) == 1


def _positions_changed(old: Ensemble, new: Ensemble) -> bool:
    return sum(a != b for a, b in zip(old, new, strict=True)) == 1


def _with(values: tuple[T, ...], number: int, value: T) -> tuple[T, ...]:
    return (*values[: number - 1], value, *values[number:])


def _put(table: Table, ledger: int, b: int, entry: int, value: int) -> Table:
    rows = table[ledger - 1]
    return _with(table, ledger, _with(rows, b, _with(rows[b - 1], entry, value)))


def _to(s: State, x: int, c: Recoverer) -> State:
    return s._replace(r=(*s.r[:x], c, *s.r[x + 1 :]))
