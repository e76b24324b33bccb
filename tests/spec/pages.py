"""`spec/Pages.tla` in Python, action by action: a manifest as a head and pages.

The names of actions, variables and safeguards are those of the module; read the module for what
they mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

SAFEGUARDS: Final = (
    "PageFirst",
    "NamesOnce",
    "NamesByCas",
    "HidesTrimmed",
    "EmptiedFirst",
    "OldestFirst",
    "SweepHoldsHead",
    "SweepMovesHead",
    "SparesDoomed",
)

PROMISES: Final = ("C18", "LIST", "C1", "FOUND", "TAIL")

Rows = tuple[int, ...]


@dataclass(frozen=True)
class PageBounds:
    """How much of everything there is."""

    editors: int = 1
    segments: int = 4
    rows: int = 2
    """F, the rows of a page."""
    names: int = 2


class Head(NamedTuple):
    rows: Rows = ()
    refs: tuple[int, ...] = ()
    first: int = 1
    next: int = 1
    doomed: frozenset[int] = frozenset()
    dpages: tuple[int, ...] = ()


class Editor(NamedTuple):
    ph: str = "idle"
    want: Rows = ()
    page: int = 0
    fresh: bool = False


class Sweep(NamedTuple):
    ph: str = "idle"
    named: frozenset[int] = frozenset()
    fresh: bool = False


class State(NamedTuple):
    head: Head
    pgs: tuple[Rows, ...]
    led: frozenset[int]
    nn: int
    ed: tuple[Editor, ...]
    sw: Sweep
    gone: frozenset[int]


def moved(s: State, head: Head) -> State:
    """Change the head: what was read of it is stale."""
    ed = tuple(each._replace(fresh=False) for each in s.ed)
    return s._replace(head=head, ed=ed, sw=s.sw._replace(fresh=False))


def put_editor(s: State, x: int, editor: Editor) -> State:
    return s._replace(ed=(*s.ed[:x], editor, *s.ed[x + 1 :]))


def put_page(s: State, page: int, rows: Rows) -> State:
    return s._replace(pgs=(*s.pgs[: page - 1], rows, *s.pgs[page:]))


def in_doomed_pages(s: State) -> set[int]:
    return {row for page in s.head.dpages for row in s.pgs[page - 1]}


class PageModel:
    """The specification at some bounds, with some safeguards removed."""

    def __init__(self, bounds: PageBounds, removed: Iterable[str] = ()) -> None:
        unknown = set(removed) - set(SAFEGUARDS)
        if unknown:
            raise ValueError(f"no such safeguard: {', '.join(sorted(unknown))}")
        self.bounds = bounds
        self.has = {name: name not in set(removed) for name in SAFEGUARDS}
        pages: tuple[Rows, ...] = ((),) * bounds.names
        editors = (Editor(),) * bounds.editors
        self.first = State(Head(), pages, frozenset(), 1, editors, Sweep(), frozenset())

    def canonical(self, state: State) -> State:
        return state

    def following(self, s: State) -> Iterator[State]:
        head = s.head
        if head.next <= self.bounds.segments:
            rolled = head._replace(rows=(*head.rows, head.next), next=head.next + 1)
            yield moved(s._replace(led=s.led | {head.next}), rolled)
        for x in range(len(s.ed)):
            yield from self._edits(s, x)
        for to in range(head.first + 1, head.next + 1):
            yield self._trimmed(s, to)
        yield from self._deletes(s)
        yield from self._sweeps(s)

    # -- an editor -------------------------------------------------------------------------------

    def _edits(self, s: State, x: int) -> Iterator[State]:
        c, size = s.ed[x], self.bounds.rows
        name = c.page or s.nn
        following = s.nn + (name == s.nn)
        writes, names = ("read", "wrote") if self.has["PageFirst"] else ("named", "read")
        if c.ph == "idle" and len(s.head.rows) > size:
            yield put_editor(s, x, c._replace(ph="read", fresh=True, want=s.head.rows[:size]))
        if c.ph == writes and name <= self.bounds.names:
            after = c._replace(ph="wrote", page=name) if self.has["PageFirst"] else Editor()
            wrote = put_editor(s._replace(nn=following), x, after)
            yield wrote if s.pgs[name - 1] else put_page(wrote, name, c.want)
        is_own = c.fresh or not self.has["NamesByCas"]
        if c.ph == names and name <= self.bounds.names and is_own:
            rows = s.head.rows[size:]
            named = moved(s, s.head._replace(refs=(*s.head.refs, name), rows=rows))
            after = Editor() if self.has["PageFirst"] else c._replace(ph="named", page=name)
            yield put_editor(named._replace(nn=following), x, after)
        if c.ph in ("read", "wrote") and not c.fresh:
            yield put_editor(s, x, Editor(page=0 if self.has["NamesOnce"] else c.page))

    # -- trimming and deletion -------------------------------------------------------------------

    def _trimmed(self, s: State, to: int) -> State:
        head = s.head
        whole = tuple(p for p in head.refs if all(row < to for row in s.pgs[p - 1]))
        kept = tuple(p for p in head.refs if p not in whole)
        rows = {*head.rows, *(row for p in kept for row in s.pgs[p - 1])}
        return moved(
            s,
            head._replace(
                rows=tuple(row for row in head.rows if row >= to),
                refs=kept,
                first=to,
                doomed=head.doomed | {row for row in rows if head.first <= row < to},
                dpages=head.dpages + whole,
            ),
        )

    def _deletes(self, s: State) -> Iterator[State]:
        head, paged = s.head, in_doomed_pages(s)
        left = (paged | head.doomed) & s.led
        may_go = {min(left)} if left and self.has["OldestFirst"] else left
        for kind in (head.doomed, paged):  # DeleteSingle, DeleteRow
            for each in may_go & kind:
                yield s._replace(led=s.led - {each})
        for each in head.doomed - s.led:
            yield moved(s, head._replace(doomed=head.doomed - {each}))
        for page in head.dpages:
            if self.has["EmptiedFirst"] and s.led.intersection(s.pgs[page - 1]):
                continue
            others = tuple(each for each in head.dpages if each != page)
            yield moved(s._replace(gone=s.gone | {page}), head._replace(dpages=others))
        for page in s.gone:
            yield put_page(s._replace(gone=s.gone - {page}), page, ())

    # -- a sweep ---------------------------------------------------------------------------------

    def _sweeps(self, s: State) -> Iterator[State]:
        if s.sw.ph == "idle":
            doomed = s.head.dpages if self.has["SparesDoomed"] else ()
            yield s._replace(sw=Sweep("read", frozenset({*s.head.refs, *doomed}), True))
            return
        yield s._replace(sw=Sweep())
        if not (s.sw.fresh or not self.has["SweepHoldsHead"]):
            return
        for page, rows in enumerate(s.pgs, start=1):
            if rows and page not in s.sw.named:
                swept = moved(s, s.head) if self.has["SweepMovesHead"] else s
                yield put_page(swept._replace(sw=Sweep()), page, ())

    # -- the promises ----------------------------------------------------------------------------

    def broken(self, s: State) -> str | None:
        head = s.head
        if not all(s.pgs[page - 1] for page in head.refs):
            return "C18"
        rows = [row for page in head.refs for row in s.pgs[page - 1]] + list(head.rows)
        left = [row for row in rows if row >= head.first]
        listing = left if self.has["HidesTrimmed"] else rows
        if left != list(range(head.first, head.next)):
            return "LIST"
        if not s.led.issuperset(listing):
            return "C1"
        if not s.led <= {*listing, *head.doomed, *in_doomed_pages(s)}:
            return "FOUND"
        if s.led and s.led != set(range(min(s.led), head.next)):
            return "TAIL"
        return None
